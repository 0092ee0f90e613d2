//! The port of the service: TLS 1.3, both sides checked, certificates that change while it serves.
//!
//! A connection lasts no longer than the trust in its client: as often as the files are looked at, each client is checked anew
//! against what is trusted then and against the clock, and a connection ends whose client would not be let in any more. A
//! manager makes its connections anew when it gets a new certificate, so none of its calls ends by that.

mod guarded;
mod local;

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures::Stream;
use futures::stream::unfold;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;
use tonic::transport::server::Router;
use trustplane_api::hsm::v1::MANAGER;
use trustplane_api::hsm::v1::hsm_agent_server::HsmAgentServer;
use trustplane_process::tls::{
    CertifiedKeys, ClientTrust, FileFollower, POLL, ServerTls, TlsError, TlsFiles, TlsListener, roots,
};

use crate::service::Service;
use guarded::Guarded;
pub(crate) use local::is_ours;
pub use local::serve_local;

/// Larger than the largest secret with its metadata and all that goes round it.
const LARGEST_MESSAGE: usize = 2 * 1024 * 1024;
/// Calls of one client at a time; the token serves one.
const CALLS: usize = 64;
/// As the original has it.
const PING: Duration = Duration::from_secs(60);
const PING_ANSWER: Duration = Duration::from_secs(20);
/// How long to leave a listener alone that could not accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Why the service cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The certificates cannot be used.
    #[error("certificates of the agent: {0}")]
    Tls(#[from] TlsError),
    /// The port cannot be used.
    #[error("serve gRPC: {0}")]
    Serve(#[from] tonic::transport::Error),
}

/// Where the certificates are, and how often they are looked at.
#[derive(Debug, Clone)]
pub struct Certificates {
    /// The files.
    pub files: TlsFiles,
    /// How often to look.
    pub poll: Duration,
}

impl Certificates {
    /// Files that the kubelet swaps.
    pub fn of(files: TlsFiles) -> Self {
        Self { files, poll: POLL }
    }
}

/// The port, ready to be served.
#[derive(Debug)]
pub struct Port {
    listener: TlsListener,
    clients: Arc<ClientTrust>,
    follower: FileFollower,
    poll: Duration,
}

impl Port {
    /// Reads the certificates. Wrong ones are an error here; later they only keep the old ones in use.
    pub async fn open(tcp: TcpListener, certificates: Certificates) -> Result<Self, ServerError> {
        let Certificates { files, poll } = certificates;
        let bundle = tokio::fs::read(&files.trust)
            .await
            .map_err(|source| TlsError::Read {
                file: files.trust.clone(),
                source,
            })?;
        let keys = CertifiedKeys::new();
        let clients = ClientTrust::named(roots(&bundle)?, MANAGER)?;
        let follower = FileFollower::start(files, vec![keys.clone(), clients.clone()]).await?;
        let config = ServerTls::new(keys)
            .require_clients(clients.clone())
            .only_tls13()
            .alpn(&["h2"])
            .build()?;
        Ok(Self {
            listener: TlsListener::new(tcp, config),
            clients,
            follower,
            poll,
        })
    }

    /// Serves until `stop`, and then lets calls end that are under way.
    pub async fn serve(self, service: Arc<Service>, stop: CancellationToken) -> Result<(), ServerError> {
        let connections = connections(self.listener, self.clients, self.poll);
        let server = router(service).serve_with_incoming_shutdown(connections, stop.cancelled());
        let follow = self.follower.run(self.poll, stop.clone());
        let (served, ()) = tokio::join!(server, follow);
        Ok(served?)
    }
}

/// The service, as it is served to whomever.
fn router(service: Arc<Service>) -> Router {
    let service = HsmAgentServer::from_arc(service).max_decoding_message_size(LARGEST_MESSAGE);
    Server::builder()
        .concurrency_limit_per_connection(CALLS)
        .http2_keepalive_interval(Some(PING))
        .http2_keepalive_timeout(Some(PING_ANSWER))
        .add_service(service)
}

/// Connections whose handshake is done. An error of the listener is no end.
fn connections(
    listener: TlsListener,
    clients: Arc<ClientTrust>,
    poll: Duration,
) -> impl Stream<Item = Result<Guarded, Infallible>> {
    unfold((listener, clients), move |(mut listener, clients)| async move {
        loop {
            match listener.accept().await {
                Ok((connection, peer)) => {
                    note(connection.get_ref().0.set_nodelay(true));
                    let guarded = Guarded::new(connection, peer.certificates, clients.clone(), poll);
                    return Some((Ok(guarded), (listener, clients)));
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept connections");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    })
}

fn note(outcome: io::Result<()>) {
    if let Err(error) = outcome {
        tracing::debug!(%error, "answers on this connection may be slow");
    }
}
