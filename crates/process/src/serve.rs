//! Serving HTTP with limits: connections are bounded, slow headers end, a shutdown drains.
//!
//! The same engine serves the plain admin port and TLS ports; what differs is where connections come from.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use http::Request;
use hyper::body::Incoming as RequestBody;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// How long to leave a listener alone that could not accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What one listener grants its clients.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections at a time; further ones wait in the kernel's queue.
    pub connections: usize,
    /// How long a client may take to send its request's head, and how long a connection may idle between two.
    pub head: Duration,
    /// The size of a request's head.
    pub head_bytes: usize,
    /// How long running requests may take after the shutdown began.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 256,
            head: Duration::from_secs(10),
            head_bytes: 16 * 1024,
            drain: Duration::from_secs(20),
        }
    }
}

/// A source of connections.
pub trait Incoming: Send {
    /// A connection.
    type Io: AsyncRead + AsyncWrite + Unpin + Send + 'static;
    /// What is known about who connected; handlers find it in the request's extensions.
    type Peer: Clone + Send + Sync + 'static;

    /// The next connection. Cancel-safe. An error is of the listener, not of one client.
    fn accept(&mut self) -> impl Future<Output = io::Result<(Self::Io, Self::Peer)>> + Send;
}

impl Incoming for TcpListener {
    type Io = tokio::net::TcpStream;
    type Peer = SocketAddr;

    async fn accept(&mut self) -> io::Result<(Self::Io, SocketAddr)> {
        TcpListener::accept(self).await
    }
}

/// Serves `router` on every connection until `stop`, then waits for running requests.
///
/// When this future is dropped, so are its connections.
pub async fn serve<I: Incoming>(mut incoming: I, router: Router, limits: Limits, stop: CancellationToken) {
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            Some(ended) = connections.join_next() => {
                note_end(ended);
                continue;
            }
            accepted = incoming.accept(), if connections.len() < limits.connections => accepted,
        };
        match accepted {
            Ok((io, peer)) => {
                let router = router.clone();
                let service = service_fn(move |mut request: Request<RequestBody>| {
                    request.extensions_mut().insert(peer.clone());
                    router.clone().oneshot(request)
                });
                let connection = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(limits.head)
                    .max_buf_size(limits.head_bytes)
                    .serve_connection(TokioIo::new(io), service);
                connections.spawn(graceful.watch(connection));
            }
            Err(error) => {
                // Out of file descriptors, most likely: going on at once would only burn the processor.
                tracing::warn!(%error, "cannot accept connections");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(incoming);
    let drain = async {
        graceful.shutdown().await;
        while let Some(ended) = connections.join_next().await {
            note_end(ended);
        }
    };
    if tokio::time::timeout(limits.drain, drain).await.is_err() {
        tracing::warn!(open = connections.len(), "connections did not drain in time");
    }
}

/// A connection that ends badly is its client's affair; a panic is ours.
fn note_end(ended: Result<hyper::Result<()>, JoinError>) {
    match ended {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "connection ended"),
        Err(error) => tracing::error!(%error, "a request handler panicked"),
    }
}
