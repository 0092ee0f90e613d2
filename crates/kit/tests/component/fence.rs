//! The fence on the wire: what is sent after the deadline is nothing.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use trustplane_kit::apply::{WriteError, Writer};
use trustplane_kit::clients::{Clients, KubeArgs};
use trustplane_kit::lease::{Fence, Identity, ManualClock};
use trustplane_plan::Apply;
use trustplane_plan::kinds::CONFIG_MAP;
use trustplane_testkit::audit::Mark;
use trustplane_testkit::proxy::{Match, Proxy};

use crate::write_rig::{MANAGER, Rig, clients};

/// Connections are accepted at once, but nothing passes before the gate opens: the TLS handshake hangs.
struct Slow {
    address: std::net::SocketAddr,
    accepted: Arc<Notify>,
    gate: Arc<Notify>,
    relay: tokio::task::JoinHandle<()>,
}

impl Slow {
    async fn before(server: String) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (accepted, gate) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let address = listener.local_addr()?;
        let (told, opened) = (accepted.clone(), gate.clone());
        let relay = tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                told.notify_one();
                opened.notified().await;
                if let Ok(mut far) = TcpStream::connect(&server).await {
                    let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
                }
            }
        });
        Ok(Self {
            address,
            accepted,
            gate,
            relay,
        })
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        self.relay.abort();
    }
}

#[tokio::test]
async fn a_closed_fence_sends_nothing_but_reads() -> Result<()> {
    let rig = Rig::new("fence-closed").await?;
    let proxy = Proxy::start(rig.sandbox.plane()).await?;
    let through = clients(&rig.instance.through(&proxy), Fence::closed())?;
    for client in [through.call, through.watch] {
        let writer = Writer::new(client, MANAGER, &rig.metrics);
        let error = writer
            .apply(&Apply::create(rig.wish("a", json!({}))))
            .await
            .unwrap_err();
        assert!(matches!(error, WriteError::Fenced(_)), "{error:?}");
        assert_eq!(
            writer
                .get_meta(&CONFIG_MAP, &rig.object("a"), &Default::default())
                .await,
            Ok(None)
        );
    }
    assert!(proxy.requests(&Match::writes()).is_empty());
    Ok(())
}

#[tokio::test]
async fn a_lease_that_ends_while_the_connection_is_made_holds_the_write_back() -> Result<()> {
    let rig = Rig::new("fence-late").await?;
    let server = rig
        .sandbox
        .plane()
        .config()
        .cluster_url
        .authority()
        .map(ToString::to_string);
    let slow = Slow::before(server.unwrap_or_default()).await?;
    let clock = Arc::new(ManualClock::default());
    let fence = Fence::on(clock.clone());
    let mut config = rig.instance.config()?;
    config.cluster_url = format!("https://{}", slow.address).parse()?;
    let behind = Clients::new(config, Identity::new("test", "0.0.0", None), fence.clone())?;
    let writer = Writer::new(behind.call, MANAGER, &rig.metrics);

    let mark = Mark::now(rig.sandbox.plane()).await?;
    fence.open_until(Duration::from_secs(10));
    let create = Apply::create(rig.wish("a", json!({ "k": "v" })));
    let write = tokio::spawn({
        let (writer, create) = (writer.clone(), create.clone());
        async move { writer.apply(&create).await }
    });
    slow.accepted.notified().await;
    clock.advance(Duration::from_secs(11));
    slow.gate.notify_one();
    let outcome = write.await?;
    assert!(matches!(outcome, Err(WriteError::Fenced(_))), "{outcome:?}");
    mark.since().await?.by(&rig.instance).assert_silent();

    // The same write passes while the lease lasts: it was the fence, and nothing else.
    fence.open_until(Duration::from_secs(20));
    slow.gate.notify_one();
    writer.apply(&create).await?;
    Ok(())
}

#[tokio::test]
async fn every_request_of_a_process_that_starts_from_a_kubeconfig_says_who_sent_it() -> Result<()> {
    let rig = Rig::new("agent").await?;
    let credentials = rig.instance.credentials()?;
    let arguments = KubeArgs {
        kubeconfig: Some(credentials.kubeconfig()),
        context: None,
    };
    let identity = Identity::new("test", "1.2.3", Some("pod-0"));
    let mine = Clients::new(arguments.config().await?, identity.clone(), Fence::always())?;
    let mark = Mark::now(rig.sandbox.plane()).await?;
    let writer = Writer::new(mine.call, MANAGER, &rig.metrics);
    writer.apply(&Apply::create(rig.wish("a", json!({})))).await?;
    let audit = mark.since().await?.by_agent(&identity.user_agent());
    assert_eq!(audit.writes().len(), 1);
    let elsewhere = KubeArgs {
        context: Some("no-such-context".to_owned()),
        ..arguments
    };
    let error = elsewhere.config().await.unwrap_err().to_string();
    assert!(error.starts_with("failed to read the kubeconfig"), "{error}");
    Ok(())
}
