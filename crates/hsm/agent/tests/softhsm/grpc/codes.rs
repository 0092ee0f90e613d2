//! What a caller is told when it does not work.

use std::time::Duration;

use tonic::{Code, Request, Status};
use trustplane_api::hsm::v1::{
    DeleteSecretRequest, GetChecksumRequest, GetInfoRequest, HealthRequest, IsConnectedRequest,
    ListSecretsRequest, PurgeSecretRequest, ReadMetadataRequest, WriteSecretRequest,
};
use trustplane_hsm_agent::service::REASON;
use trustplane_hsm_core::limits::{Limits, Profile};
use trustplane_pkcs11_shim::pkcs11::{CKR_DEVICE_REMOVED, CKR_GENERAL_ERROR};
use trustplane_pkcs11_shim::{Action, Control, Duration as Lasting, Fault};

use super::methods::{absent, version};
use super::{Agent, Client, NO_PASSES, read, write};

fn told(status: &Status) -> (Code, &str) {
    let reason = status.metadata().get(REASON).unwrap();
    (status.code(), reason.to_str().unwrap())
}

#[tokio::test]
async fn not_found_full_stale_and_wrong_are_told_apart() {
    let limits = Limits {
        objects: Some(7),
        ..Limits::default()
    };
    let agent = Agent::with(|settings| settings.limits = limits, NO_PASSES).await;
    let mut client = agent.client();
    let missing = client.read_secret(read("b")).await.unwrap_err();
    assert_eq!(told(&missing), (Code::NotFound, "not-found"));
    let path = "b".to_owned();
    let missing = client
        .get_checksum(GetChecksumRequest { path })
        .await
        .unwrap_err();
    assert_eq!(missing.code(), Code::NotFound);
    client.write_secret(write("a", "k", b"hunter2")).await.unwrap();
    let stale = WriteSecretRequest {
        expected: version(4),
        ..write("a", "k", b"hunter2")
    };
    let stale = client.write_secret(stale).await.unwrap_err();
    assert_eq!(told(&stale), (Code::FailedPrecondition, "unexpected"));
    let taken = WriteSecretRequest {
        expected: absent(),
        version: Some(1),
        ..write("a", "k", b"hunter2")
    };
    assert_eq!(
        client.write_secret(taken).await.unwrap_err().code(),
        Code::FailedPrecondition
    );
    let mut large = write("c", "k", b"hunter2");
    let data = &mut large.secret_data.as_mut().unwrap().data;
    data.extend((0..4).map(|number| (format!("k{number}"), vec![number])));
    let full = client.write_secret(large).await.unwrap_err();
    assert_eq!(told(&full), (Code::ResourceExhausted, "full"));
    let old = WriteSecretRequest {
        epoch: Some(5),
        ..write("a", "k", b"1")
    };
    client.write_secret(old.clone()).await.unwrap();
    let fallen = WriteSecretRequest {
        epoch: Some(4),
        ..old
    };
    let fallen = client.write_secret(fallen).await.unwrap_err();
    assert_eq!(fallen.code(), Code::FailedPrecondition, "an epoch never falls");
    for status in [missing, stale, full, fallen] {
        assert!(!format!("{status:?}").contains("hunter2"));
    }
}

#[tokio::test]
async fn what_opensc_says_badly_of_empty_values_and_full_cards_is_told_well() {
    let limits = Profile::Opensc.limits();
    let agent = Agent::with(|settings| settings.limits = limits, NO_PASSES).await;
    let mut client = agent.client();
    client.write_secret(write("a", "k", b"v")).await.unwrap();
    let empty = client.write_secret(write("a", "k", b"")).await.unwrap_err();
    assert_eq!(empty.code(), Code::InvalidArgument);
    assert_eq!(
        empty.message(),
        "a: the value of a/k is empty; this token takes no empty values"
    );
    let vague = Fault::before(1, Action::Answer(CKR_GENERAL_ERROR)).of("C_CreateObject");
    agent.stage.set(Control::fault(vague.lasting(Lasting::Always)));
    let full = client.write_secret(write("a", "k", b"w")).await.unwrap_err();
    assert_eq!(told(&full), (Code::ResourceExhausted, "full"));
    let kept = client.read_secret(read("a")).await.unwrap().into_inner();
    assert_eq!(
        (kept.version, &kept.secret_data.unwrap().data["k"][..]),
        (1, &b"v"[..])
    );
    assert_eq!(agent.host.health().borrow().losses, 0);
    agent.stage.heal();
    let written = client.write_secret(write("a", "k", b"w")).await.unwrap();
    assert_eq!(written.into_inner().version, 2);
}

/// What a method says of a token that is gone.
async fn says(client: &mut Client, method: &str) -> Result<(), Status> {
    let path = || "a".to_owned();
    let deleted = DeleteSecretRequest {
        path: path(),
        ..DeleteSecretRequest::default()
    };
    let purged = PurgeSecretRequest {
        path: path(),
        version: 1,
        epoch: None,
    };
    match method {
        "read" => client.read_secret(read("a")).await.map(drop),
        "write" => client.write_secret(write("a", "k", b"w")).await.map(drop),
        "delete" => client.delete_secret(deleted).await.map(drop),
        "purge" => client.purge_secret(purged).await.map(drop),
        "list" => client.list_secrets(ListSecretsRequest::default()).await.map(drop),
        "info" => client.get_info(GetInfoRequest {}).await.map(drop),
        "metadata" => {
            let request = ReadMetadataRequest { path: path() };
            client.read_metadata(request).await.map(drop)
        }
        "checksum" => {
            let request = GetChecksumRequest { path: path() };
            client.get_checksum(request).await.map(drop)
        }
        "connected" => {
            let answer = client.is_connected(IsConnectedRequest {}).await?.into_inner();
            assert!(!answer.connected);
            Err(Status::unavailable(""))
        }
        _ => {
            let health = client.health(HealthRequest {}).await?.into_inner();
            assert_eq!((&*health.status, &*health.phase), ("degraded", "Unavailable"));
            assert!(health.message.contains("gone"), "{}", health.message);
            Err(Status::unavailable(""))
        }
    }
}

#[tokio::test]
async fn a_token_that_is_unplugged_is_unavailable_at_once_whatever_is_asked() {
    // It does not look by itself.
    let agent = Agent::start().await;
    let mut client = agent.client();
    client.write_secret(write("a", "k", b"v")).await.unwrap();
    let methods = [
        "read",
        "write",
        "delete",
        "purge",
        "list",
        "info",
        "metadata",
        "checksum",
        "connected",
        "health",
    ];
    // Each one is the first that is asked after the token has gone, and then all are.
    for first in methods {
        client.list_secrets(ListSecretsRequest::default()).await.unwrap();
        let gone = Fault::before(1, Action::Answer(CKR_DEVICE_REMOVED)).lasting(Lasting::Always);
        agent.stage.set(Control::fault(gone));
        for method in std::iter::once(first).chain(methods) {
            let answer = says(&mut client, method).await;
            assert_eq!(answer.unwrap_err().code(), Code::Unavailable, "{first}, {method}");
        }
        agent.stage.heal();
        crate::stage::serving(&agent.host).await;
        let kept = client.read_secret(read("a")).await.unwrap().into_inner();
        assert_eq!(kept.version, 1);
    }
}

#[tokio::test]
async fn what_cannot_be_read_is_data_loss_and_others_are_served() {
    let agent = Agent::start().await;
    let mut client = agent.client();
    client.write_secret(write("a", "k", b"v")).await.unwrap();
    client.write_secret(write("b", "k", b"v")).await.unwrap();
    agent.stage.set(Control {
        unreadable: Some("a/k".to_owned()),
        ..Control::default()
    });
    agent.host.survey(true).await.unwrap();
    let damaged = client.read_secret(read("a")).await.unwrap_err();
    assert_eq!(told(&damaged), (Code::DataLoss, "damaged"));
    let unversioned = client.write_secret(write("a", "k", b"w")).await.unwrap_err();
    assert_eq!(
        (unversioned.code(), unversioned.message()),
        (
            Code::DataLoss,
            "a: the object a/k cannot be read; it can be written anew only with a version"
        ),
        "nobody knows which version comes next"
    );
    assert_eq!(
        client.read_secret(read("b")).await.unwrap().into_inner().version,
        1
    );
    let anew = WriteSecretRequest {
        version: Some(9),
        ..write("a", "other", b"w")
    };
    client.write_secret(anew).await.unwrap();
    assert_eq!(
        client.read_secret(read("a")).await.unwrap().into_inner().version,
        9
    );
}

#[tokio::test]
async fn after_the_highest_version_nothing_is_counted() {
    let agent = Agent::start().await;
    let mut client = agent.client();
    let highest = WriteSecretRequest {
        version: Some(i64::MAX as u64),
        ..write("a", "k", b"v")
    };
    client.write_secret(highest).await.unwrap();
    let refused = client.write_secret(write("a", "k", b"w")).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert_eq!(refused.message(), "a: there is no higher version");
}

#[tokio::test]
async fn the_clients_deadline_is_kept_and_named() {
    // The agent's own is so far away that it cannot be the one.
    let agent = Agent::with(
        |settings| settings.deadline = Duration::from_secs(3600),
        NO_PASSES,
    )
    .await;
    let mut client = agent.client();
    agent.stage.set(Control::fault(Fault::before(1, Action::Freeze)));
    let mut request = Request::new(read("a"));
    // Only the header: the client itself would give up as well.
    request
        .metadata_mut()
        .insert("grpc-timeout", "300m".parse().unwrap());
    let late = client.read_secret(request).await.unwrap_err();
    assert_eq!(told(&late), (Code::DeadlineExceeded, "deadline"));
    agent.stage.heal();
}
