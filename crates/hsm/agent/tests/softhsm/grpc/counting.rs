//! What is counted: calls of the module, versions, and what is left of a secret that never was.

use futures::future::join_all;
use tonic::Code;
use trustplane_api::hsm::v1::{DeleteSecretRequest, ListSecretsRequest};

use super::{Agent, Client, read, write};

/// How often the module was asked for something of an object, by one read of this path.
async fn cost(agent: &Agent, client: &mut Client, path: &str) -> usize {
    agent.stage.heal();
    client.read_secret(read(path)).await.unwrap();
    agent.stage.answers("C_GetAttributeValue").len()
}

/// In the original each read reads every object of the token.
#[tokio::test]
async fn w37_a_read_costs_the_objects_of_its_secret_and_no_others() {
    let agent = Agent::start().await;
    let mut client = agent.client();
    client.write_secret(write("a", "k", b"v")).await.unwrap();
    let alone = cost(&agent, &mut client, "a").await;
    for number in 0..20 {
        let path = format!("s{number}");
        client.write_secret(write(&path, "k", b"v")).await.unwrap();
    }
    assert_eq!(cost(&agent, &mut client, "a").await, alone);
    assert!((1..=4).contains(&alone), "{alone}");
}

/// In the original that is a success, and leaves a tombstone for ever.
#[tokio::test]
async fn w38_to_delete_what_never_was_is_told_and_leaves_nothing() {
    let agent = Agent::start().await;
    let mut client = agent.client();
    client.write_secret(write("a", "k", b"v")).await.unwrap();
    let before = agent.labels();
    assert_eq!(
        before.len(),
        3,
        "its metadata, its value, the generation: {before:?}"
    );
    for key in ["", "k"] {
        let delete = DeleteSecretRequest {
            path: "b".to_owned(),
            key: key.to_owned(),
            ..DeleteSecretRequest::default()
        };
        let refused = client.delete_secret(delete).await.unwrap_err();
        assert_eq!(refused.code(), Code::NotFound, "{key:?}");
    }
    let all = ListSecretsRequest {
        include_deleted: true,
        ..ListSecretsRequest::default()
    };
    let list = client.list_secrets(all).await.unwrap().into_inner();
    assert_eq!(list.entries.len(), 1);
    assert_eq!(agent.labels(), before);
}

/// In the original two that write at once may give out one version twice.
#[tokio::test]
async fn w39_of_many_that_write_at_once_each_gets_a_version_of_its_own() {
    let agent = Agent::start().await;
    let client = agent.client();
    let writes = (1..=8_u8).map(|value| {
        let mut client = client.clone();
        async move {
            let written = client.write_secret(write("a", "k", &[value])).await.unwrap();
            (written.into_inner().version, value)
        }
    });
    let mut written = join_all(writes).await;
    written.sort_unstable();
    let versions: Vec<u64> = written.iter().map(|(version, _)| *version).collect();
    assert_eq!(versions, [1, 2, 3, 4, 5, 6, 7, 8]);
    let last = client.clone().read_secret(read("a")).await.unwrap().into_inner();
    assert_eq!(last.version, 8);
    assert_eq!(last.secret_data.unwrap().data["k"], [written[7].1]);
}
