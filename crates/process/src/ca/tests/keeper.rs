//! Leaves that stay fresh, and calls that do not notice.

use std::sync::Arc;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::clock::{Clock, ManualClock};
use crate::eventually::eventually;
use crate::metrics::Metrics;
use crate::tls::tests::{call, start as serve};
use crate::tls::{CertifiedKeys, ClientTrust, Handshakes, Material, ReloadingClientConfig, ServerTls};

struct World {
    clock: Arc<ManualClock>,
    authority: watch::Sender<Arc<Authority>>,
}

impl World {
    fn new() -> Self {
        let authority = Authority::create("test", POLICY, start()).unwrap();
        Self {
            clock: Arc::new(ManualClock::new(start())),
            authority: watch::Sender::new(Arc::new(authority)),
        }
    }

    fn keeper(&self, sinks: Vec<Arc<dyn crate::tls::Reload>>) -> LeafKeeper {
        LeafKeeper::new(self.authority.subscribe(), request(), sinks).clock(self.clock.clone())
    }

    fn advance(&self, by: SignedDuration) {
        let now = self.clock.advance(by);
        let authority = settle(self.authority.borrow().as_ref().clone(), now);
        self.authority.send_replace(Arc::new(authority));
    }
}

#[tokio::test]
async fn a_leaf_is_renewed_after_two_thirds_and_not_before() {
    let world = World::new();
    let keys = CertifiedKeys::new();
    let metrics = Metrics::new();
    let mut keeper = world.keeper(vec![keys.clone()]).metrics(&metrics);
    assert_eq!(keeper.tick().unwrap(), after(4));
    let first = keys.current().unwrap();
    world.clock.advance(HOUR * 3);
    keeper.tick().unwrap();
    assert_eq!(keys.current().unwrap().cert, first.cert);
    world.clock.advance(HOUR);
    assert_eq!(keeper.tick().unwrap(), after(8));
    let second = keys.current().unwrap();
    assert_ne!(second.cert, first.cert);

    // A CA that nobody stepped cannot renew: the leaf in use stays, and the failure is counted.
    world.clock.advance(HOUR * 40);
    keeper.tick().unwrap_err();
    assert_eq!(keys.current().unwrap().cert, second.cert);
    let text = metrics.encode();
    let expiry = after(4 + 6).as_second();
    let line = format!(r#"trustplane_certificate_expiry_timestamp_seconds{{name="test"}} {expiry}"#);
    assert!(text.contains(&line), "{text}");
    assert!(
        text.contains(r#"trustplane_certificate_renewal_failures_total{name="test"} 1"#),
        "{text}"
    );
}

#[tokio::test]
async fn a_replaced_authority_is_followed_at_once() {
    let world = World::new();
    let keys = CertifiedKeys::new();
    let keeper = world.keeper(vec![keys.clone()]);
    let stop = CancellationToken::new();
    let task = tokio::spawn(keeper.run(stop.clone()));
    let other = Authority::create("test", POLICY, start()).unwrap();
    let client = material_client(other.roots().unwrap(), &world.clock);
    let (at, _server) = serve(ServerTls::new(keys).build().unwrap(), Handshakes::default()).await;
    assert!(call(at, client.current()).await.is_err());
    world.authority.send_replace(Arc::new(other));
    eventually(async || call(at, client.current()).await.is_ok()).await;
    stop.cancel();
    task.await.unwrap();
}

fn material_client(
    trust: Arc<rustls::RootCertStore>,
    clock: &Arc<ManualClock>,
) -> Arc<ReloadingClientConfig> {
    let material = Material {
        identity: None,
        trust,
    };
    ReloadingClientConfig::with_clock(material, &["http/1.1"], clock.clone()).unwrap()
}

/// Mutual TLS under continuous calls, through several rotations of the CA on a clock of our own. The client learns of
/// everything late, by less than the propagation time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_fails_through_rotations() {
    let world = World::new();
    let keys = CertifiedKeys::new();
    let trust = ClientTrust::new(world.authority.borrow().roots().unwrap()).unwrap();
    let mut server_keeper = world.keeper(vec![keys.clone(), trust.clone()]);
    let client = material_client(world.authority.borrow().roots().unwrap(), &world.clock);
    let mut client_keeper = world.keeper(vec![client.clone()]);
    server_keeper.tick().unwrap();
    client_keeper.tick().unwrap();
    let config = ServerTls::new(keys)
        .require_clients(trust)
        .clock(world.clock.clone())
        .build()
        .unwrap();
    let (at, _server) = serve(config, Handshakes::default()).await;

    let (calls, stop) = (watch::Sender::new(0_u64), CancellationToken::new());
    let callers: Vec<_> = (0..3)
        .map(|_| {
            let (client, calls, stop) = (client.clone(), calls.clone(), stop.clone());
            tokio::spawn(async move {
                while !stop.is_cancelled() {
                    call(at, client.current()).await.inspect_err(|_| stop.cancel())?;
                    calls.send_modify(|calls| *calls += 1);
                }
                Ok::<_, std::io::Error>(())
            })
        })
        .collect();

    let mut signers = std::collections::HashSet::new();
    let mut made = calls.subscribe();
    for half_hour in 1..=2 * 84 {
        let done = *made.borrow();
        tokio::select! {
            _ = made.wait_for(|calls| *calls >= done + 3) => {}
            () = stop.cancelled() => break,
        }
        world.advance(HOUR / 2);
        signers.insert(world.authority.borrow().state().current.certificate.clone());
        server_keeper.tick().unwrap();
        if half_hour % 3 == 0 {
            client_keeper.tick().unwrap();
        }
    }
    stop.cancel();
    for caller in callers {
        caller.await.unwrap().unwrap();
    }
    assert_eq!(world.clock.now(), after(84));
    assert!(signers.len() >= 4, "only {} authorities signed", signers.len());
}
