//! The service as a client of the original sees it: messages without any field of ours, byte by byte.

use std::collections::BTreeMap;

use prost::Message;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic_prost::ProstCodec;
use trustplane_api::hsm::v1::{ReadSecretRequest, WriteSecretRequest};

use super::{Agent, channel, client, write};
use trustplane_process::tls::ReloadingClientConfig;

#[derive(Clone, PartialEq, Message)]
struct OldData {
    #[prost(btree_map = "string, bytes", tag = "1")]
    data: BTreeMap<String, Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct OldMetadata {
    #[prost(string, tag = "1")]
    description: String,
    #[prost(btree_map = "string, string", tag = "2")]
    labels: BTreeMap<String, String>,
    #[prost(string, tag = "6")]
    source: String,
}

#[derive(Clone, PartialEq, Message)]
struct OldWrite {
    #[prost(string, tag = "1")]
    path: String,
    #[prost(message, optional, tag = "2")]
    secret_data: Option<OldData>,
    #[prost(message, optional, tag = "3")]
    metadata: Option<OldMetadata>,
}

#[derive(Clone, PartialEq, Message)]
struct Empty {}

/// A path, or the only text of an answer.
#[derive(Clone, PartialEq, Message)]
struct OldText {
    #[prost(string, tag = "1")]
    text: String,
}

#[derive(Clone, PartialEq, Message)]
struct OldRead {
    #[prost(message, optional, tag = "1")]
    secret_data: Option<OldData>,
}

#[derive(Clone, PartialEq, Message)]
struct OldReadMetadata {
    #[prost(message, optional, tag = "1")]
    metadata: Option<OldMetadata>,
}

#[derive(Clone, PartialEq, Message)]
struct OldDelete {
    #[prost(string, tag = "1")]
    path: String,
    #[prost(string, tag = "2")]
    key: String,
}

#[derive(Clone, PartialEq, Message)]
struct OldList {
    #[prost(string, repeated, tag = "1")]
    paths: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
struct OldInfo {
    #[prost(message, optional, tag = "1")]
    info: Option<OldHsmInfo>,
}

#[derive(Clone, PartialEq, Message)]
struct OldHsmInfo {
    #[prost(string, tag = "1")]
    label: String,
    #[prost(string, tag = "4")]
    serial_number: String,
}

async fn call<Q, A>(agent: &Agent, method: &str, request: Q) -> A
where
    Q: Message + Clone + Default + 'static,
    A: Message + Default + Clone + 'static,
{
    let config = ReloadingClientConfig::new(agent.material(), &["h2"])
        .unwrap()
        .current();
    let mut grpc = Grpc::new(channel(agent.address, config));
    grpc.ready().await.unwrap();
    let path: PathAndQuery = format!("/hsm.v1.HSMAgent/{method}").parse().unwrap();
    let request = tonic::Request::new(request);
    grpc.unary(request, path, ProstCodec::<Q, A>::default())
        .await
        .unwrap()
        .into_inner()
}

#[tokio::test]
async fn a_client_of_the_original_writes_reads_lists_and_deletes() {
    let agent = Agent::start().await;
    let labels: BTreeMap<String, String> = [
        ("sync.version".to_owned(), "4".to_owned()),
        ("sync.timestamp".to_owned(), "2026-07-07T10:00:00Z".to_owned()),
    ]
    .into();
    let data = OldData {
        data: [
            ("k".to_owned(), b"v".to_vec()),
            ("data".to_owned(), b"d".to_vec()),
        ]
        .into(),
    };
    let request = OldWrite {
        path: "db".to_owned(),
        secret_data: Some(data.clone()),
        metadata: Some(OldMetadata {
            description: "d".to_owned(),
            labels: labels.clone(),
            source: "api".to_owned(),
        }),
    };
    let _: Empty = call(&agent, "WriteSecret", request).await;
    let path = || OldText {
        text: "db".to_owned(),
    };
    let read: OldRead = call(&agent, "ReadSecret", path()).await;
    assert_eq!(read.secret_data, Some(data));
    let metadata: OldReadMetadata = call(&agent, "ReadMetadata", path()).await;
    assert_eq!(metadata.metadata.unwrap().labels, labels);
    let checksum: OldText = call(&agent, "GetChecksum", path()).await;
    assert!(checksum.text.starts_with("sha256:"), "{checksum:?}");
    let list: OldList = call(&agent, "ListSecrets", OldText { text: String::new() }).await;
    assert_eq!(list.paths, ["db"]);
    let info: OldInfo = call(&agent, "GetInfo", Empty {}).await;
    assert_eq!(info.info.unwrap().label, crate::stage::LABEL);
    let health: OldText = call(&agent, "Health", Empty {}).await;
    assert_eq!(health.text, "healthy");
    let one = OldDelete {
        path: "db".to_owned(),
        key: "k".to_owned(),
    };
    let _: Empty = call(&agent, "DeleteSecret", one.clone()).await;
    let _: Empty = call(
        &agent,
        "DeleteSecret",
        OldDelete {
            key: String::new(),
            ..one
        },
    )
    .await;
    let list: OldList = call(&agent, "ListSecrets", OldText { text: String::new() }).await;
    assert!(list.paths.is_empty());
    // Unversioned, as its first clients write.
    client(
        agent.address,
        ReloadingClientConfig::new(agent.material(), &["h2"])
            .unwrap()
            .current(),
    )
    .write_secret(write("db", "k", b"again"))
    .await
    .unwrap();
}

#[test]
fn fields_of_ours_that_are_left_out_are_not_on_the_wire() {
    let read = ReadSecretRequest {
        path: "a".to_owned(),
        include_deleted: false,
    };
    assert_eq!(read.encode_to_vec(), b"\x0a\x01a");
    let request = WriteSecretRequest {
        path: "a".to_owned(),
        ..write("a", "k", b"v")
    };
    assert_eq!(
        request.encode_to_vec(),
        b"\x0a\x01a\x12\x08\x0a\x06\x0a\x01k\x12\x01v"
    );
}
