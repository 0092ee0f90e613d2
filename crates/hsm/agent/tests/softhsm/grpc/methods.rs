//! Every method, through the wire.

use tonic::Code;
use trustplane_api::hsm::v1::expectation::Found;
use trustplane_api::hsm::v1::{
    ChangePinRequest, DeleteSecretRequest, Expectation, GetChecksumRequest, GetInfoRequest, HealthRequest,
    IsConnectedRequest, ListSecretsRequest, PurgeSecretRequest, ReadMetadataRequest, SecretMetadata,
    WriteSecretRequest,
};
use trustplane_hsm_core::limits::Profile;

use super::{Agent, Client, NO_PASSES, read, write};
use crate::stage::{LABEL, PIN};

pub fn version(version: u64) -> Option<Expectation> {
    Some(Expectation {
        found: Some(Found::Version(version)),
    })
}

pub fn absent() -> Option<Expectation> {
    Some(Expectation {
        found: Some(Found::Absent(true)),
    })
}

#[tokio::test]
async fn a_secret_is_written_read_and_described_from_one_look() {
    let agent = Agent::start().await;
    let mut client = agent.client();
    let mut request = write("shop/db.prod", "user", b"admin\0\xff");
    let data = &mut request.secret_data.as_mut().unwrap().data;
    data.insert("empty".to_owned(), Vec::new());
    request.metadata = Some(SecretMetadata {
        description: "the <database>".to_owned(),
        labels: [("team".to_owned(), "a".to_owned())].into(),
        format: "raw".to_owned(),
        data_type: "opaque".to_owned(),
        created_at: "2026-07-07T08:00:00Z".to_owned(),
        source: "test".to_owned(),
    });
    (request.epoch, request.version, request.expected) = (Some(3), Some(7), absent());
    let written = client.write_secret(request.clone()).await.unwrap().into_inner();
    let found = client
        .read_secret(read("shop/db.prod"))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(found.secret_data, request.secret_data);
    assert_eq!((found.version, found.epoch, found.deleted), (7, Some(3), false));
    assert_eq!((written.version, &written.checksum), (7, &found.checksum));
    let metadata = found.metadata.unwrap();
    let wanted = request.metadata.unwrap();
    assert_eq!(
        (&metadata.description, &metadata.source),
        (&wanted.description, &wanted.source)
    );
    assert_eq!(
        (&metadata.format, &metadata.created_at),
        (&wanted.format, &wanted.created_at)
    );
    assert_eq!(metadata.labels["team"], "a");
    assert_eq!(
        (&*metadata.labels["sync.version"], &*metadata.labels["sync.epoch"]),
        ("7", "3")
    );
    let path = "shop/db.prod".to_owned();
    let alone = client
        .read_metadata(ReadMetadataRequest { path: path.clone() })
        .await
        .unwrap();
    assert_eq!(alone.into_inner().metadata.unwrap(), metadata);
    let checksum = client
        .get_checksum(GetChecksumRequest { path })
        .await
        .unwrap()
        .into_inner();
    assert_eq!((checksum.checksum, checksum.version), (found.checksum, 7));
}

#[tokio::test]
async fn versions_are_counted_where_the_writer_does_not() {
    let agent = Agent::start().await;
    let mut client = agent.client();
    for expected in 1..=3 {
        let written = client.write_secret(write("a", "k", &[expected])).await.unwrap();
        assert_eq!(written.into_inner().version, u64::from(expected));
    }
    let whole = |key: &str| DeleteSecretRequest {
        path: "a".to_owned(),
        key: key.to_owned(),
        ..DeleteSecretRequest::default()
    };
    let mut two = write("a", "k", b"1");
    two.secret_data
        .as_mut()
        .unwrap()
        .data
        .insert("l".to_owned(), b"2".to_vec());
    client.write_secret(two).await.unwrap();
    let deleted = client.delete_secret(whole("k")).await.unwrap().into_inner();
    assert_eq!(deleted.version, 5, "a key that goes is a change");
    assert_eq!(
        client.delete_secret(whole("k")).await.unwrap_err().code(),
        Code::NotFound
    );
    let left = client.read_secret(read("a")).await.unwrap().into_inner();
    assert_eq!(
        left.secret_data.unwrap().data.into_keys().collect::<Vec<_>>(),
        ["l"]
    );
    assert_eq!(
        client
            .delete_secret(whole("l"))
            .await
            .unwrap()
            .into_inner()
            .version,
        6
    );
    assert_eq!(
        client.delete_secret(whole("")).await.unwrap_err().code(),
        Code::NotFound
    );
    assert_eq!(
        client
            .write_secret(write("a", "k", b"x"))
            .await
            .unwrap()
            .into_inner()
            .version,
        7
    );
    assert_eq!(
        client
            .delete_secret(whole(""))
            .await
            .unwrap()
            .into_inner()
            .version,
        8
    );
}

#[tokio::test]
async fn a_tombstone_is_read_by_those_who_ask_for_it_and_goes_by_order() {
    let agent = Agent::start().await;
    let mut client = agent.client();
    client.write_secret(write("a", "k", b"v")).await.unwrap();
    let delete = DeleteSecretRequest {
        path: "a".to_owned(),
        expected: version(1),
        epoch: Some(4),
        version: Some(9),
        ..DeleteSecretRequest::default()
    };
    client.delete_secret(delete.clone()).await.unwrap();
    let stale = client.delete_secret(delete).await.unwrap_err();
    assert_eq!(stale.code(), Code::FailedPrecondition);
    assert_eq!(
        client.read_secret(read("a")).await.unwrap_err().code(),
        Code::NotFound
    );
    let mut request = read("a");
    request.include_deleted = true;
    let left = client.read_secret(request).await.unwrap().into_inner();
    assert_eq!((left.version, left.epoch, left.deleted), (9, Some(4), true));
    assert!(left.secret_data.unwrap().data.is_empty());
    // Also where there is nothing: a late copy of it must not come back.
    let elsewhere = DeleteSecretRequest {
        path: "b".to_owned(),
        version: Some(5),
        ..DeleteSecretRequest::default()
    };
    client.delete_secret(elsewhere).await.unwrap();
    let purge = |version, epoch| PurgeSecretRequest {
        path: "a".to_owned(),
        version,
        epoch,
    };
    for (version, epoch) in [(8, None), (8, Some(4)), (9, Some(3))] {
        let refused = client.purge_secret(purge(version, epoch)).await.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition, "{version} {epoch:?}");
    }
    client.purge_secret(purge(9, Some(6))).await.unwrap();
    let late = DeleteSecretRequest {
        path: "b".to_owned(),
        epoch: Some(5),
        version: Some(6),
        ..DeleteSecretRequest::default()
    };
    let late = client.delete_secret(late).await.unwrap_err();
    assert_eq!(
        late.code(),
        Code::FailedPrecondition,
        "a purge has an epoch like any change"
    );
    let mut all = ListSecretsRequest {
        include_deleted: true,
        ..ListSecretsRequest::default()
    };
    let list = client.list_secrets(all.clone()).await.unwrap().into_inner();
    let entry = &list.entries[0];
    assert_eq!(
        (list.entries.len(), &*entry.path, entry.version, entry.deleted),
        (1, "b", 5, true)
    );
    assert!(list.paths.is_empty());
    all.include_deleted = false;
    assert!(
        client
            .list_secrets(all)
            .await
            .unwrap()
            .into_inner()
            .entries
            .is_empty()
    );
}

#[tokio::test]
async fn a_list_has_pages_versions_and_a_revision() {
    let agent = Agent::start().await;
    let mut client = agent.client();
    for path in ["b/1", "a", "b/2", "c"] {
        client
            .write_secret(write(path, "k", path.as_bytes()))
            .await
            .unwrap();
    }
    let whole = client
        .list_secrets(ListSecretsRequest::default())
        .await
        .unwrap()
        .into_inner();
    assert_eq!(whole.paths, ["a", "b/1", "b/2", "c"]);
    let checksum = client.read_secret(read("c")).await.unwrap().into_inner();
    let entry = whole.entries.last().unwrap();
    assert_eq!((entry.version, entry.keys), (1, 1));
    assert_eq!(
        (&entry.checksum, &entry.digest),
        (&checksum.checksum, &checksum.digest)
    );
    let generation = whole.generation.unwrap();
    assert!(generation.counter >= 4);

    let mut page = ListSecretsRequest {
        prefix: "b/".to_owned(),
        page_size: 1,
        ..ListSecretsRequest::default()
    };
    let first = client.list_secrets(page.clone()).await.unwrap().into_inner();
    assert_eq!(
        (first.paths.as_slice(), &*first.next_page_token),
        (["b/1".to_owned()].as_slice(), "b/1")
    );
    page.page_token = first.next_page_token;
    let second = client.list_secrets(page).await.unwrap().into_inner();
    assert_eq!(
        (second.paths.as_slice(), &*second.next_page_token),
        (["b/2".to_owned()].as_slice(), "")
    );

    let unless = ListSecretsRequest {
        unless_revision: whole.revision.clone(),
        ..ListSecretsRequest::default()
    };
    let same = client.list_secrets(unless.clone()).await.unwrap().into_inner();
    assert!(same.unchanged && same.paths.is_empty());
    client.write_secret(write("c", "k", b"new")).await.unwrap();
    let other = client.list_secrets(unless).await.unwrap().into_inner();
    assert!(!other.unchanged && other.revision != whole.revision);
    assert!(other.generation.unwrap().counter > generation.counter);
}

#[tokio::test]
async fn the_token_tells_of_itself_and_of_its_room() {
    let limits = Profile::YubiHsm2.limits();
    let agent = Agent::with(|settings| settings.limits = limits, NO_PASSES).await;
    let mut client = agent.client();
    client.write_secret(write("a", "k", b"v")).await.unwrap();
    let answer = client.get_info(GetInfoRequest {}).await.unwrap().into_inner();
    let info = answer.hsm_info.unwrap();
    assert_eq!((&*info.label, &*info.manufacturer), (LABEL, "SoftHSM project"));
    let serial = agent
        .host
        .health()
        .borrow()
        .token
        .as_ref()
        .unwrap()
        .serial
        .clone();
    assert_eq!(info.serial_number, serial);
    assert!(answer.generation.unwrap().counter <= 1);
    let capacity = answer.capacity.unwrap();
    // Metadata, value and generation.
    assert_eq!((capacity.slots_used, capacity.slots_free), (3, Some(253)));
    assert!(capacity.bytes_free.unwrap() <= 126 * 1024);
    let used = async |client: &mut Client| {
        let info = client.get_info(GetInfoRequest {}).await.unwrap().into_inner();
        let capacity = info.capacity.unwrap();
        (capacity.slots_used, capacity.bytes_used)
    };
    let one = used(&mut client).await;
    client.write_secret(write("b", "k", b"v")).await.unwrap();
    let two = used(&mut client).await;
    assert_eq!(two.0, 5, "every change counts at once");
    assert!(two.1 > one.1);
    assert_eq!(agent.labels().len(), 5, "what is there is what was counted");
    let delete = DeleteSecretRequest {
        path: "b".to_owned(),
        ..DeleteSecretRequest::default()
    };
    client.delete_secret(delete).await.unwrap();
    assert_eq!(used(&mut client).await.0, 4, "a tombstone is one object");
    let purge = PurgeSecretRequest {
        path: "b".to_owned(),
        version: 2,
        epoch: None,
    };
    client.purge_secret(purge).await.unwrap();
    assert_eq!(used(&mut client).await.0, one.0);
    assert!(
        client
            .is_connected(IsConnectedRequest {})
            .await
            .unwrap()
            .into_inner()
            .connected
    );
    let health = client.health(HealthRequest {}).await.unwrap().into_inner();
    assert_eq!((&*health.status, &*health.phase), ("healthy", "Serving"));
}

#[tokio::test]
async fn the_pin_is_changed_by_those_who_know_it_and_no_other_is_tried() {
    let agent = Agent::start().await;
    let mut client = agent.client();
    let change = |old: &str, new: &str| ChangePinRequest {
        old_pin: old.to_owned(),
        new_pin: new.to_owned(),
    };
    for (old, new) in [("", "975310"), (PIN, ""), (PIN, PIN)] {
        let refused = client.change_pin(change(old, new)).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument);
    }
    let wrong = client.change_pin(change("111111", "975310")).await.unwrap_err();
    assert_eq!(wrong.code(), Code::FailedPrecondition);
    assert!(agent.stage.answers("C_SetPIN").is_empty());
    client.change_pin(change(PIN, "975310")).await.unwrap();
    client.change_pin(change("975310", "864209")).await.unwrap();
    assert_eq!(agent.stage.answers("C_SetPIN"), [Some(0), Some(0)]);
}

#[tokio::test]
async fn of_two_writers_who_saw_the_same_version_one_wins() {
    let agent = Agent::start().await;
    let mut client = agent.client();
    client.write_secret(write("a", "k", b"0")).await.unwrap();
    let attempt = |value: u8| {
        let mut client = client.clone();
        async move {
            let request = WriteSecretRequest {
                expected: version(1),
                version: Some(2),
                ..write("a", "k", &[value])
            };
            client.write_secret(request).await.map(|_| value)
        }
    };
    let outcomes = futures::future::join_all((1..=8).map(attempt)).await;
    let won: Vec<u8> = outcomes
        .iter()
        .filter_map(|outcome| outcome.as_ref().ok().copied())
        .collect();
    assert_eq!(won.len(), 1, "{outcomes:?}");
    for error in outcomes.iter().filter_map(|outcome| outcome.as_ref().err()) {
        assert_eq!(error.code(), Code::FailedPrecondition);
    }
    let data = client
        .read_secret(read("a"))
        .await
        .unwrap()
        .into_inner()
        .secret_data
        .unwrap()
        .data;
    assert_eq!(data["k"], won);
}
