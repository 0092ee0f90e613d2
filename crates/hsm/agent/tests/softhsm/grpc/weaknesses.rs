//! What the original does wrong, by its number in our notes, and we do not.

use futures::future::join_all;
use tonic::Code;
use trustplane_api::hsm::v1::{
    DeleteSecretRequest, GetChecksumRequest, ListSecretsRequest, ReadMetadataRequest, SecretMetadata,
};

use super::{Agent, read, write};

#[tokio::test]
async fn w01_a_path_is_no_prefix_of_another() {
    let agent = Agent::start().await;
    let mut client = agent.client();
    let others = ["ab", "a-b", "a.b", "a2"];
    for path in others {
        client
            .write_secret(write(path, "k", path.as_bytes()))
            .await
            .unwrap();
    }
    client.write_secret(write("a", "k", b"1")).await.unwrap();
    client.write_secret(write("a", "l", b"2")).await.unwrap();
    let found = client
        .read_secret(read("a"))
        .await
        .unwrap()
        .into_inner()
        .secret_data
        .unwrap();
    assert_eq!(found.data.into_keys().collect::<Vec<_>>(), ["l"]);
    let delete = DeleteSecretRequest {
        path: "a".to_owned(),
        ..DeleteSecretRequest::default()
    };
    client.delete_secret(delete).await.unwrap();
    for path in others {
        let found = client.read_secret(read(path)).await.unwrap().into_inner();
        assert_eq!(found.secret_data.unwrap().data["k"], path.as_bytes());
    }
}

#[tokio::test]
async fn w18_names_and_sizes_that_would_harm_the_layout_are_refused() {
    let agent = Agent::start().await;
    let mut client = agent.client();
    for key in ["_metadata", "a/b", "", "..", "k\n"] {
        let refused = client.write_secret(write("a", key, b"v")).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{key:?}");
    }
    for path in [
        "",
        "/a",
        "a//b",
        "a/_metadata",
        "../a",
        ".trustplane/generation",
        "a b",
    ] {
        let answers = [
            client.write_secret(write(path, "k", b"v")).await.map(drop),
            client.read_secret(read(path)).await.map(drop),
            client
                .read_metadata(ReadMetadataRequest {
                    path: path.to_owned(),
                })
                .await
                .map(drop),
            client
                .get_checksum(GetChecksumRequest {
                    path: path.to_owned(),
                })
                .await
                .map(drop),
        ];
        for answer in answers {
            assert_eq!(answer.unwrap_err().code(), Code::InvalidArgument, "{path:?}");
        }
    }
    let refused = client
        .write_secret(write("a", "k", &vec![0; 1_048_577]))
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    let mut request = write("a", "k", b"v");
    request.metadata = Some(SecretMetadata {
        labels: [("sync.version".to_owned(), "many".to_owned())].into(),
        ..SecretMetadata::default()
    });
    assert_eq!(
        client.write_secret(request).await.unwrap_err().code(),
        Code::InvalidArgument
    );
    let empty = client.write_secret(trustplane_api::hsm::v1::WriteSecretRequest {
        path: "a".to_owned(),
        ..Default::default()
    });
    assert_eq!(empty.await.unwrap_err().code(), Code::InvalidArgument);
    client
        .write_secret(write("a", "k", &vec![7; 1_048_576]))
        .await
        .unwrap();
    // A name with dots is one that a resource may have.
    client.write_secret(write("a.b", "tls.crt", b"v")).await.unwrap();
    let list = client.list_secrets(ListSecretsRequest::default()).await.unwrap();
    assert_eq!(list.into_inner().paths, ["a", "a.b"]);
}

#[tokio::test]
async fn w23_readers_do_not_disturb_each_other() {
    let agent = Agent::start().await;
    let client = agent.client();
    for number in 0..4 {
        let mut client = client.clone();
        let path = format!("s{number}");
        client
            .write_secret(write(&path, "k", path.as_bytes()))
            .await
            .unwrap();
    }
    let reads = (0..48).map(|number| {
        let mut client = client.clone();
        async move {
            let path = format!("s{}", number % 4);
            let found = client.read_secret(read(&path)).await.unwrap().into_inner();
            assert_eq!(found.secret_data.unwrap().data["k"], path.as_bytes());
        }
    });
    join_all(reads).await;
}

#[tokio::test]
async fn w36_data_and_checksum_belong_together_under_constant_writes() {
    let agent = Agent::start().await;
    let client = agent.client();
    let mut writer = client.clone();
    writer.write_secret(write("a", "k", b"0")).await.unwrap();
    let writes = async {
        for number in 1..=40_u8 {
            writer.write_secret(write("a", "k", &[number])).await.unwrap();
        }
    };
    let reads = async {
        let mut client = client.clone();
        let mut last = 0;
        for _ in 0..60 {
            let found = client.read_secret(read("a")).await.unwrap().into_inner();
            let value = found.secret_data.unwrap().data.remove("k").unwrap();
            let data = trustplane_hsm_core::examples::data(&[("k", &value)]);
            assert_eq!(found.checksum, trustplane_hsm_core::checksum::checksum(&data));
            assert!(found.version >= last);
            assert!(found.version == 1 || u64::from(value[0]) == found.version - 1);
            last = found.version;
        }
    };
    futures::join!(writes, reads);
}
