//! What others write shows within an interval, and our own writes at once.

use std::time::{Duration, Instant};

use trustplane_api::hsm::v1::{ListSecretsRequest, ListSecretsResponse};
use trustplane_hsm_agent::AgentError;
use trustplane_hsm_agent::catalogue::{Passes, Renewal};
use trustplane_pkcs11_shim::{Control, PinTries};

use super::{Agent, Client, NO_PASSES, read, write};
use crate::stage::{PATIENCE, eventually};

async fn list(client: &mut Client) -> ListSecretsResponse {
    client
        .list_secrets(ListSecretsRequest::default())
        .await
        .unwrap()
        .into_inner()
}

async fn until(client: &Client, is_so: impl Fn(&ListSecretsResponse) -> bool) -> ListSecretsResponse {
    let is_so = &is_so;
    let asked = || {
        let mut client = client.clone();
        async move { Ok(Some(list(&mut client).await).filter(is_so)) }
    };
    let found = trustplane_testkit::until("the list", PATIENCE, asked).await;
    found.unwrap()
}

fn often(renewal: Renewal, exclusive: bool) -> Passes {
    Passes {
        every: Duration::from_millis(50),
        renewal,
        exclusive,
    }
}

#[tokio::test]
async fn what_another_tool_writes_shows_within_an_interval() {
    for renewal in [Renewal::Never, Renewal::EachPass] {
        let agent = Agent::with(|_| {}, often(renewal, false)).await;
        let mut client = agent.client();
        client.write_secret(write("a", "k", b"v")).await.unwrap();
        let before = list(&mut client).await;
        agent.stranger("b/k", "v");
        let after = until(&client, |list| list.paths == ["a", "b"]).await;
        assert_ne!(after.revision, before.revision);
        assert_eq!(after.generation, before.generation, "only our own changes count");
    }
}

#[tokio::test]
async fn no_list_looks_at_an_object() {
    let agent = Agent::start().await;
    let mut client = agent.client();
    client.write_secret(write("a", "k", b"v")).await.unwrap();
    list(&mut client).await;
    agent.stage.heal();
    for number in 0..20 {
        assert_eq!(list(&mut client).await.paths.len(), 1, "{number}");
    }
    assert!(agent.stage.answers("C_FindObjectsInit").is_empty());
    assert!(agent.stage.answers("C_GetAttributeValue").is_empty());
}

#[tokio::test]
async fn list_shows_what_others_wrote_when_no_older_one_is_wanted() {
    // Passes do not happen by themselves.
    for renewal in [Renewal::Never, Renewal::EachPass] {
        let agent = Agent::with(|_| {}, Passes { renewal, ..NO_PASSES }).await;
        let mut client = agent.client();
        client.write_secret(write("a", "k", b"v")).await.unwrap();
        let before = list(&mut client).await;
        agent.stranger("b/k", "v");
        let aged = |max_age_seconds, unless: &str| ListSecretsRequest {
            max_age_seconds,
            unless_revision: unless.to_owned(),
            ..ListSecretsRequest::default()
        };
        let old = client
            .list_secrets(aged(Some(3600), ""))
            .await
            .unwrap()
            .into_inner();
        assert_eq!(old.paths, ["a"]);
        let request = aged(Some(0), &before.revision);
        let new = client.list_secrets(request).await.unwrap().into_inner();
        assert_eq!(
            (&new.paths[..], new.unchanged),
            (&["a".to_owned(), "b".to_owned()][..], false)
        );
        let time = |list: &ListSecretsResponse| list.as_of.parse::<jiff::Timestamp>().unwrap();
        assert!(time(&new) > time(&old));
        let request = aged(Some(0), &new.revision);
        let same = client.list_secrets(request).await.unwrap().into_inner();
        assert!(same.unchanged && time(&same) > time(&new));
    }
}

#[tokio::test]
async fn a_module_that_keeps_what_it_has_seen_is_initialised_again_and_no_call_fails() {
    let agent = Agent::with(|_| {}, often(Renewal::EachPass, false)).await;
    let mut client = agent.client();
    client.write_secret(write("a", "k", b"v")).await.unwrap();
    agent.stage.heal();
    let begun = Instant::now();
    while agent.stage.answers("C_Initialize").len() < 5 {
        assert!(begun.elapsed() < PATIENCE);
        assert_eq!(
            client.read_secret(read("a")).await.unwrap().into_inner().version,
            1
        );
    }
    let logins = agent.stage.answers("C_Login");
    assert!(
        logins.iter().all(|answer| *answer == Some(0)),
        "no try is lost: {logins:?}"
    );
    let health = agent.host.health().borrow().clone();
    assert_eq!((health.starts, health.losses, health.crashes), (1, 0, 0));
}

#[tokio::test]
async fn a_token_that_has_seen_a_wrong_pin_is_not_closed_for_a_pass() {
    let agent = Agent::with(|_| {}, NO_PASSES).await;
    let mut client = agent.client();
    client.write_secret(write("a", "k", b"v")).await.unwrap();
    agent.stage.set(Control {
        pin_tries: Some(PinTries::Low),
        ..Control::default()
    });
    let refused = agent.host.renew().await;
    assert!(
        matches!(refused, Err(AgentError::FailedPrecondition(_))),
        "{refused:?}"
    );
    assert_eq!(
        client.read_secret(read("a")).await.unwrap().into_inner().version,
        1
    );
    assert!(agent.stage.answers("C_Finalize").is_empty());
    assert!(agent.stage.answers("C_Login").is_empty());
}

#[tokio::test]
async fn an_exclusive_token_is_not_read_through() {
    let agent = Agent::with(|_| {}, often(Renewal::EachPass, true)).await;
    let mut client = agent.client();
    client.write_secret(write("a", "k", b"v")).await.unwrap();
    list(&mut client).await;
    agent.stage.heal();
    let searches = || agent.stage.answers("C_FindObjectsInit").len() >= 4;
    eventually("some passes", searches).await;
    let calls = agent.stage.shim.calls().unwrap();
    let functions: Vec<&str> = calls.iter().map(|call| call.function.as_str()).collect();
    // From one search to the next: the first one may have begun before we counted, and the last one may go on.
    let passes: Vec<_> = functions
        .split(|function| *function == "C_FindObjectsInit")
        .collect();
    for pass in &passes[1..passes.len() - 1] {
        let reads = pass.iter().filter(|function| **function == "C_GetAttributeValue");
        // It reads the generation, which is two calls; to read all three objects would be six.
        assert_eq!(reads.count(), 2, "{functions:?}");
    }
    assert!(agent.stage.answers("C_Initialize").is_empty());
    client.write_secret(write("b", "k", b"v")).await.unwrap();
    assert_eq!(list(&mut client).await.paths, ["a", "b"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_own_writes_show_at_once_however_many_passes_are_under_way() {
    let passes = Passes {
        every: Duration::from_micros(1),
        ..often(Renewal::Never, false)
    };
    let agent = Agent::with(|_| {}, passes).await;
    let mut client = agent.client();
    for number in 1..=200 {
        client.write_secret(write("a", "k", b"v")).await.unwrap();
        let now = list(&mut client).await;
        assert_eq!(now.entries[0].version, number);
    }
}
