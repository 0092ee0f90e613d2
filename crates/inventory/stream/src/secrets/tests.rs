use std::time::Duration;

use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use trustplane_api::inventory::OBSYK_AGENT;
use trustplane_kit::queue::Policy;
use trustplane_kit::watch::{Slim, Stopped, Tuning};
use trustplane_process::metrics::Metrics;

use super::*;

/// Secrets of a cluster that does not answer and has no agent.
fn secrets() -> (Secrets, impl Future<Output = ()> + Send + 'static) {
    trustplane_process::crypto::install();
    let nowhere = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
    let client = kube::Client::try_from(nowhere).unwrap();
    let metrics = Metrics::new();
    let watches = Watches::new(client.clone(), Tuning::default(), &metrics);
    let agents = watches
        .subscribe(WatchSpec::new(OBSYK_AGENT, Slim::<Seen>::default()))
        .store();
    let queue = Queue::new("test", Policy::default(), 1, &metrics);
    Secrets::new(watches, client, "home".into(), queue, agents)
}

fn credentials(client_id: &str, pair: &EcdsaKeyPair) -> Result<Arc<Credentials>, String> {
    let der = BASE64_STANDARD.encode(pair.to_pkcs8v1().unwrap());
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{der}\n-----END PRIVATE KEY-----\n");
    let data = [("client_id", client_id), ("private_key", &pem)]
        .map(|(name, value)| (name.to_owned(), ByteString(value.as_bytes().to_vec())));
    Ok(Arc::new(Credentials::read(&data.into()).unwrap()))
}

#[tokio::test]
async fn a_watch_ends_when_no_agent_names_its_secret() {
    let (secrets, feeds) = secrets();
    tokio::spawn(feeds);
    let store = secrets.store("old").await;
    secrets.forget_unused();
    let ended = tokio::time::timeout(Duration::from_secs(60), store.ready()).await;
    assert_eq!(ended, Ok(Err(Stopped)));
    assert!(lock(&secrets.watching).is_empty());
}

#[tokio::test]
async fn credentials_keep_their_number_until_they_change() {
    let (secrets, _feeds) = secrets();
    let keys = [(); 2].map(|()| EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap());
    let number = |version: &str, read| match secrets.keep("keys", version.into(), read) {
        Found::Good(_, number) => Some(number),
        Found::Bad(_) | Found::Waiting => None,
    };
    let first = number("1", credentials("a", &keys[0]));
    assert!(first.is_some());
    assert_eq!(
        number("2", credentials("a", &keys[0])),
        first,
        "only a label has changed"
    );
    let second = number("3", credentials("a", &keys[1]));
    let third = number("4", credentials("b", &keys[1]));
    assert!(first < second && second < third);
    assert_eq!(number("5", Err("client_id is missing".into())), None);
    assert!(number("6", credentials("b", &keys[1])) > third);
    secrets.forget_unused();
    assert!(lock(&secrets.kept).is_empty(), "the key is forgotten");
}
