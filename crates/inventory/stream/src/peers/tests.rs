use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use futures::future::BoxFuture;
use k8s_openapi::ByteString;
use trustplane_api::inventory::CredentialsSecretRef;
use trustplane_inventory_core::InventoryKind;
use trustplane_kit::queue::Policy;

use jiff::Timestamp;
use tokio::time::Instant;
use trustplane_inventory_core::sender::{Answered, Outcome};

use super::*;

fn main() -> ObjectRef {
    ObjectRef::new(Some("home"), "main")
}

/// Peers in a cluster that does not answer.
fn peers() -> (Peers, BoxFuture<'static, ()>) {
    trustplane_process::crypto::install();
    let nowhere = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
    let (client, metrics) = (kube::Client::try_from(nowhere).unwrap(), Metrics::new());
    let queue = Queue::new("test", Policy::default(), 1, &metrics);
    let shared = Shared::new(InventoryKind::ALL);
    let (peers, pool) = Peers::new(shared, client, queue, &metrics, CancellationToken::new());
    (peers, pool.boxed())
}

fn pem() -> String {
    let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
    let der = BASE64_STANDARD.encode(pair.to_pkcs8v1().unwrap());
    format!("-----BEGIN PRIVATE KEY-----\n{der}\n-----END PRIVATE KEY-----\n")
}

fn wanted(client_id: &str, pem: &str, change: impl FnOnce(&mut ObsykAgentSpec)) -> Wanted {
    let data = [("client_id", client_id), ("private_key", pem)]
        .map(|(name, value)| (name.to_owned(), ByteString(value.as_bytes().to_vec())));
    let mut spec = ObsykAgentSpec {
        platform_url: "https://hub".into(),
        cluster_name: "demo".into(),
        credentials_secret_ref: CredentialsSecretRef { name: "keys".into() },
        sync_interval: "5m".into(),
        rate_limit: None,
        ca_bundle: None,
        proxy_url: None,
        full_sync_interval: None,
        exclude_namespaces: Vec::new(),
    };
    change(&mut spec);
    Wanted {
        key: "another each time".into(),
        spec,
        credentials: Arc::new(Credentials::read(&data.into()).unwrap()),
    }
}

/// The sender of the agent, and the platform that it is served with.
fn serves(peers: &Peers) -> (SenderId, Arc<Platform>) {
    let all = peers.lock();
    let running = &all[&main()];
    (running.id, running.platform.borrow().clone())
}

#[tokio::test]
async fn a_sender_stays_until_the_platform_is_another() {
    let (peers, _pool) = peers();
    let (old, new) = (pem(), pem());
    let url = |spec: &mut ObsykAgentSpec| spec.platform_url = "https://other".into();
    let proxy = |spec: &mut ObsykAgentSpec| spec.proxy_url = Some("http://proxy:3128".into());
    let name = |spec: &mut ObsykAgentSpec| spec.cluster_name = "renamed".into();
    let interval = |spec: &mut ObsykAgentSpec| spec.sync_interval = "1m".into();
    for (what, next, same_sender, same_platform) in [
        (
            "the bytes of the Secret again",
            wanted("a", &old, |_| {}),
            true,
            true,
        ),
        ("an interval", wanted("a", &old, interval), true, true),
        ("a new key", wanted("a", &new, |_| {}), true, false),
        ("a new client id", wanted("b", &old, |_| {}), true, false),
        ("a proxy", wanted("a", &old, proxy), true, false),
        ("a name", wanted("a", &old, name), true, false),
        ("a URL", wanted("a", &old, url), false, false),
    ] {
        peers.run(&main(), &wanted("a", &old, |_| {})).await.unwrap();
        let before = serves(&peers);
        peers.run(&main(), &next).await.unwrap();
        let after = serves(&peers);
        assert_eq!(before.0 == after.0, same_sender, "{what}");
        assert_eq!(Arc::ptr_eq(&before.1, &after.1), same_platform, "{what}");
    }
}

#[tokio::test]
async fn new_credentials_are_tried_at_once() {
    let (peers, _pool) = peers();
    peers.run(&main(), &wanted("a", &pem(), |_| {})).await.unwrap();
    let (id, _) = serves(&peers);
    let now = Instant::now().into_std();
    peers.0.shared.change(|world| {
        let refused = Outcome::Unauthorized("no".into());
        world.answered(id, &Answered::Heartbeat, refused, now, Timestamp::now());
        false
    });
    let trouble = || peers.0.shared.facts(Some(id)).report.unwrap().trouble;
    assert!(trouble().is_some());
    peers.run(&main(), &wanted("a", &pem(), |_| {})).await.unwrap();
    assert_eq!(trouble(), None);
}

#[tokio::test]
async fn a_stream_that_panicked_is_started_again() {
    let (peers, _pool) = peers();
    peers.run(&main(), &wanted("a", &pem(), |_| {})).await.unwrap();
    let (id, _) = serves(&peers);
    peers.panicked(&main(), id);
    assert!(peers.running(&main()).is_none() && !peers.0.shared.is_wanted());
    assert_eq!(
        peers.0.queue.depths().delayed,
        1,
        "the controller looks at the agent again"
    );
    peers.run(&main(), &wanted("a", &pem(), |_| {})).await.unwrap();
    let (next, _) = serves(&peers);
    peers.panicked(&main(), id);
    assert_eq!(serves(&peers).0, next, "a late panic ends no stream but its own");
}
