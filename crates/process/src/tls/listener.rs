//! Handshakes beside the accept loop: slow clients never stop the others. When too many handshakes run, the oldest gives way.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

use crate::serve::{Incoming, Limits, serve};

/// What a listener grants clients that have not proved themselves yet.
#[derive(Debug, Clone, Copy)]
pub struct Handshakes {
    /// How long one may take.
    pub deadline: Duration,
    /// How many may run at a time. A further one takes the place of the oldest.
    pub at_once: usize,
}

impl Default for Handshakes {
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(5),
            at_once: 128,
        }
    }
}

/// Who is at the other end of a TLS connection.
#[derive(Debug, Clone)]
pub struct TlsPeer {
    /// From where.
    pub address: SocketAddr,
    /// The verified certificate chain, leaf first; empty where the server asks for none.
    pub certificates: Arc<[CertificateDer<'static>]>,
}

/// A listener that yields connections whose handshake is done.
#[derive(Debug)]
pub struct TlsListener {
    tcp: TcpListener,
    config: Arc<ServerConfig>,
    limits: Handshakes,
    running: JoinSet<Option<(TlsStream<TcpStream>, TlsPeer)>>,
    /// The running handshakes, the oldest first.
    begun: VecDeque<AbortHandle>,
}

impl TlsListener {
    /// Listens with the usual limits.
    pub fn new(tcp: TcpListener, config: Arc<ServerConfig>) -> Self {
        Self::with_limits(tcp, config, Handshakes::default())
    }

    /// Listens with other limits.
    pub fn with_limits(tcp: TcpListener, config: Arc<ServerConfig>, limits: Handshakes) -> Self {
        Self {
            tcp,
            config,
            limits,
            running: JoinSet::new(),
            begun: VecDeque::new(),
        }
    }

    /// The next connection, as [`Incoming::accept`].
    ///
    /// With `futures::stream::unfold` it becomes the stream that a gRPC server wants.
    pub async fn accept(&mut self) -> io::Result<(TlsStream<TcpStream>, TlsPeer)> {
        loop {
            tokio::select! {
                // Who has proved itself is served before others are let in.
                biased;
                Some(done) = self.running.join_next() => match done {
                    Ok(Some(connection)) => return Ok(connection),
                    Ok(None) => {}
                    Err(error) if error.is_cancelled() => {}
                    Err(error) => tracing::error!(%error, "a TLS handshake panicked"),
                },
                accepted = self.tcp.accept() => {
                    let (stream, address) = accepted?;
                    self.make_room();
                    let handshake = handshake(self.config.clone(), stream, address, self.limits.deadline);
                    self.begun.push_back(self.running.spawn(handshake));
                }
            }
        }
    }

    /// Ends the oldest handshakes until one more may run.
    fn make_room(&mut self) {
        self.begun.retain(|handshake| !handshake.is_finished());
        while self.begun.len() >= self.limits.at_once.max(1)
            && let Some(oldest) = self.begun.pop_front()
        {
            oldest.abort();
        }
    }
}

impl Incoming for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Peer = TlsPeer;

    async fn accept(&mut self) -> io::Result<(Self::Io, TlsPeer)> {
        TlsListener::accept(self).await
    }
}

/// Anybody may connect, so a handshake that fails is worth no more than a debug line.
async fn handshake(
    config: Arc<ServerConfig>,
    stream: TcpStream,
    address: SocketAddr,
    deadline: Duration,
) -> Option<(TlsStream<TcpStream>, TlsPeer)> {
    let shaken = tokio::time::timeout(deadline, TlsAcceptor::from(config).accept(stream)).await;
    match shaken {
        Ok(Ok(stream)) => {
            let certificates = stream.get_ref().1.peer_certificates().unwrap_or_default();
            let certificates = certificates.iter().cloned().collect();
            Some((
                stream,
                TlsPeer {
                    address,
                    certificates,
                },
            ))
        }
        Ok(Err(error)) => {
            tracing::debug!(%address, %error, "TLS handshake failed");
            None
        }
        Err(_) => {
            tracing::debug!(%address, ?deadline, "TLS handshake took too long");
            None
        }
    }
}

/// Serves a router over TLS until `stop`, then drains. Handlers find [`TlsPeer`] in the request's extensions.
pub async fn serve_tls(
    tcp: TcpListener,
    config: Arc<ServerConfig>,
    router: Router,
    limits: Limits,
    stop: CancellationToken,
) {
    serve(TlsListener::new(tcp, config), router, limits, stop).await;
}
