//! Certificates change, and no call fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio_util::sync::CancellationToken;
use tonic::Code;
use trustplane_api::hsm::v1::{HealthRequest, MANAGER};
use trustplane_process::ca::Authority;
use trustplane_process::tls::{Material, Reload, ReloadingClientConfig};

use super::{Agent, Client, authority, client, leaf, name, read, write};
use crate::stage::{PATIENCE, eventually};

fn material(shows: &Authority, trusts: &[&Authority]) -> Material {
    let bundle: String = trusts.iter().map(|ca| ca.bundle_pem()).collect();
    Material {
        identity: Some(leaf(shows, MANAGER).certified_key().unwrap()),
        trust: trustplane_process::tls::roots(bundle.as_bytes()).unwrap(),
    }
}

/// Waits until a client with this material is let in, or is not.
async fn until(agent: &Agent, material: Material, welcome: bool) {
    let config = ReloadingClientConfig::new(material, &["h2"]).unwrap().current();
    let asked = || {
        let mut client = client(agent.address, config.clone());
        async move { Ok((client.health(HealthRequest {}).await.is_ok() == welcome).then_some(())) }
    };
    let waited = trustplane_testkit::until("a new client", PATIENCE, asked).await;
    waited.unwrap();
}

/// Calls again and again, until it is told to stop, and counts. Any failure is a panic.
async fn calling(mut next: impl FnMut() -> Client, calls: Arc<AtomicU64>, stop: CancellationToken) {
    while !stop.is_cancelled() {
        let answer = next().read_secret(read("a")).await;
        assert_eq!(answer.unwrap().into_inner().version, 1);
        calls.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leaf_and_authority_change_under_constant_calls_and_none_fails() {
    let agent = Agent::start().await;
    agent.client().write_secret(write("a", "k", b"v")).await.unwrap();
    let (old, new) = (&agent.ca, &authority());
    let manager = ReloadingClientConfig::new(material(old, &[old]), &["h2"]).unwrap();
    let (stop, calls) = (CancellationToken::new(), Arc::new(AtomicU64::new(0)));
    // One keeps its connection as long as its authority is trusted.
    let (kept, kept_stop) = (agent.client(), stop.child_token());
    let kept = tokio::spawn(calling(move || kept.clone(), calls.clone(), kept_stop.clone()));
    let mut callers = Vec::new();
    for _ in 0..2 {
        let (manager, address) = (manager.clone(), agent.address);
        let next = move || client(address, manager.current());
        callers.push(tokio::spawn(calling(next, calls.clone(), stop.clone())));
    }
    let progress = async |more: u64| {
        let goal = calls.load(Ordering::Relaxed) + more;
        eventually("more calls", || calls.load(Ordering::Relaxed) >= goal).await;
    };
    progress(10).await;
    for _ in 0..3 {
        agent.show(&leaf(old, &name()));
        progress(20).await;
    }
    // Both are trusted by both before either shows what is new.
    agent.trust(&[old, new]);
    until(&agent, material(new, &[old]), true).await;
    manager.reload(&material(old, &[old, new])).unwrap();
    progress(10).await;
    agent.show(&leaf(new, &name()));
    until(&agent, material(new, &[new]), true).await;
    manager.reload(&material(new, &[old, new])).unwrap();
    progress(10).await;
    kept_stop.cancel();
    kept.await.unwrap();
    agent.trust(&[new]);
    until(&agent, material(old, &[new]), false).await;
    manager.reload(&material(new, &[new])).unwrap();
    progress(10).await;
    stop.cancel();
    for caller in callers {
        caller.await.unwrap();
    }
}

#[tokio::test]
async fn a_connection_ends_with_the_trust_in_its_client_and_the_others_stay() {
    let agent = Agent::start().await;
    let (old, new) = (&agent.ca, &authority());
    let connect = |shows| {
        let config = ReloadingClientConfig::new(material(shows, &[old]), &["h2"]).unwrap();
        client(agent.address, config.current())
    };
    agent.trust(&[old, new]);
    until(&agent, material(new, &[old]), true).await;
    let (dropped, mut kept) = (connect(old), connect(new));
    let health = async |client: &mut Client| client.health(HealthRequest {}).await.map(drop);
    health(&mut dropped.clone()).await.unwrap();
    health(&mut kept).await.unwrap();
    agent.trust(&[new]);
    let asked = || {
        let mut client = dropped.clone();
        async move { Ok(client.health(HealthRequest {}).await.err()) }
    };
    let refused = trustplane_testkit::until("the connection to end", PATIENCE, asked).await;
    let refused = refused.unwrap();
    // Which of both depends on whether the client has noticed before it asks.
    assert!(
        matches!(refused.code(), Code::Unavailable | Code::Unknown),
        "{refused:?}"
    );
    health(&mut kept).await.unwrap();
}
