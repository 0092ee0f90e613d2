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
    /// How long a client may take to send the head of its first request.
    pub head: Duration,
    /// How long a connection may then idle between two requests.
    pub idle: Duration,
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
            // Longer than the 90 s of Go's clients: who closes first must be the one who sends, or a request is lost.
            idle: Duration::from_secs(100),
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
                let (router, begun) = (router.clone(), CancellationToken::new());
                let first = begun.clone();
                let service = service_fn(move |mut request: Request<RequestBody>| {
                    first.cancel();
                    request.extensions_mut().insert(peer.clone());
                    router.clone().oneshot(request)
                });
                let connection = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(limits.idle)
                    .max_buf_size(limits.head_bytes)
                    .serve_connection(TokioIo::new(io), service);
                connections.spawn(hurry(graceful.watch(connection), begun, limits.head));
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

/// Hangs up on a client that does not begin a request in time. hyper's own limit cannot tell the wait for the first
/// request from the idle time of a connection that is kept.
async fn hurry<C>(connection: C, begun: CancellationToken, head: Duration) -> hyper::Result<()>
where
    C: Future<Output = hyper::Result<()>>,
{
    tokio::pin!(connection);
    tokio::select! {
        ended = &mut connection => return ended,
        () = begun.cancelled() => {}
        () = tokio::time::sleep(head) => return Ok(()),
    }
    connection.await
}

/// A connection that ends badly is its client's affair; a panic is ours.
fn note_end(ended: Result<hyper::Result<()>, JoinError>) {
    match ended {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "connection ended"),
        Err(error) => tracing::error!(%error, "a request handler panicked"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    async fn start(limits: Limits) -> (SocketAddr, Arc<AtomicU32>, CancellationToken) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (at, stop, served) = (
            listener.local_addr().unwrap(),
            CancellationToken::new(),
            Arc::default(),
        );
        let count: Arc<AtomicU32> = Arc::clone(&served);
        let handler = move || async move { count.fetch_add(1, Ordering::SeqCst).to_string() };
        tokio::spawn(serve(
            listener,
            Router::new().route("/", get(handler)),
            limits,
            stop.clone(),
        ));
        (at, served, stop)
    }

    async fn send(client: &mut TcpStream) {
        client
            .write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            .await
            .unwrap();
    }

    async fn answer(client: &mut TcpStream) -> String {
        let mut buffer = [0; 1024];
        let read = client.read(&mut buffer).await.unwrap();
        String::from_utf8(buffer[..read].to_vec()).unwrap()
    }

    #[tokio::test]
    async fn a_silent_client_is_hung_up_on_and_an_idle_one_is_kept() {
        let (at, ..) = start(Limits {
            head: Duration::from_millis(50),
            ..Limits::default()
        })
        .await;
        let mut kept = TcpStream::connect(at).await.unwrap();
        send(&mut kept).await;
        assert!(answer(&mut kept).await.starts_with("HTTP/1.1 200"));
        let mut silent = TcpStream::connect(at).await.unwrap();
        assert_eq!(answer(&mut silent).await, "", "closed after the time for a head");
        send(&mut kept).await;
        assert!(answer(&mut kept).await.starts_with("HTTP/1.1 200"));
    }

    #[tokio::test]
    async fn connections_beyond_the_bound_wait_for_their_turn() {
        let (at, served, _stop) = start(Limits {
            connections: 1,
            ..Limits::default()
        })
        .await;
        let mut first = TcpStream::connect(at).await.unwrap();
        send(&mut first).await;
        answer(&mut first).await;
        let mut second = TcpStream::connect(at).await.unwrap();
        send(&mut second).await;
        send(&mut first).await;
        answer(&mut first).await;
        assert_eq!(served.load(Ordering::SeqCst), 2, "only the first was served");
        drop(first);
        assert!(answer(&mut second).await.starts_with("HTTP/1.1 200"));
    }
}
