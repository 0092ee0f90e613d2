//! Certificates change, and no call fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tokio_util::sync::CancellationToken;
use trustplane_api::hsm::v1::{HealthRequest, MANAGER};
use trustplane_process::ca::Authority;
use trustplane_process::tls::{Material, Reload, ReloadingClientConfig};

use super::{Agent, Client, authority, client, leaf, name, read, write};
use crate::stage::PATIENCE;

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
    let begun = Instant::now();
    loop {
        let answer = client(agent.address, config.clone())
            .health(HealthRequest {})
            .await;
        if answer.is_ok() == welcome {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{answer:?}");
        tokio::time::sleep(super::POLL).await;
    }
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
    let kept = agent.client();
    let mut callers = vec![tokio::spawn(calling(
        move || kept.clone(),
        calls.clone(),
        stop.clone(),
    ))];
    for _ in 0..2 {
        let (manager, address) = (manager.clone(), agent.address);
        let next = move || client(address, manager.current());
        callers.push(tokio::spawn(calling(next, calls.clone(), stop.clone())));
    }
    let progress = async |more: u64| {
        let (begun, goal) = (Instant::now(), calls.load(Ordering::Relaxed) + more);
        while calls.load(Ordering::Relaxed) < goal {
            assert!(begun.elapsed() < PATIENCE);
            tokio::time::sleep(super::POLL).await;
        }
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
    agent.trust(&[new]);
    until(&agent, material(old, &[new]), false).await;
    manager.reload(&material(new, &[new])).unwrap();
    progress(10).await;
    stop.cancel();
    for caller in callers {
        caller.await.unwrap();
    }
}
