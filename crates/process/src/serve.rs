//! Serving HTTP with limits: connections are bounded, slow ones end or give way, a shutdown drains.
//!
//! The same engine serves the plain admin port and TLS ports; what differs is where connections come from.
//!
//! **Guarantees.** Connections without a running request never keep a new client out: when the listener is full, the connection
//! that has waited longest is closed. A request that is being served is never cut off for another.

mod places;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use axum::Router;
use http::Request;
use hyper::body::Incoming as RequestBody;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use places::{Phase, Place, Places};

/// How long to leave a listener alone that could not accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What one listener grants its clients.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections at a time. A further one takes the place of the connection that has waited longest; it waits in the kernel's
    /// queue only while every connection has a running request.
    pub connections: usize,
    /// How long a client may take to send the head of its first request.
    pub head: Duration,
    /// How long a client may take, after an answer was made, to fetch it and to send the head of its next request.
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
    let places = Places::new(limits.connections);
    let mut connections = JoinSet::new();
    loop {
        let next = async {
            places.available().await;
            incoming.accept().await
        };
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            Some(ended) = connections.join_next() => {
                note_end(ended);
                continue;
            }
            accepted = next => accepted,
        };
        match accepted {
            Ok((io, peer)) => {
                let place = places.take();
                let (router, served) = (router.clone(), place.clone());
                let service = service_fn(move |mut request: Request<RequestBody>| {
                    request.extensions_mut().insert(peer.clone());
                    answer(served.clone(), router.clone(), request)
                });
                let connection = http1::Builder::new()
                    .max_buf_size(limits.head_bytes)
                    .serve_connection(TokioIo::new(io), service);
                connections.spawn(attend(graceful.watch(connection), place, limits));
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

async fn answer(
    place: Arc<Place>,
    router: Router,
    request: Request<RequestBody>,
) -> Result<axum::response::Response, Infallible> {
    place.serve();
    let answer = router.oneshot(request).await;
    place.keep();
    answer
}

/// Serves a connection until it ends, its client is too slow, or its place goes to another.
///
/// hyper's own limits cannot tell the wait for the first request from the idle time of a kept connection, and do not end a
/// connection whose client does not fetch its answer.
async fn attend<C>(connection: C, place: Arc<Place>, limits: Limits) -> hyper::Result<()>
where
    C: Future<Output = hyper::Result<()>>,
{
    let mut connection = pin!(connection);
    // In a burst of connections a request that is there already is read before its connection can lose its place.
    if let Poll::Ready(ended) = futures::poll!(connection.as_mut()) {
        return ended;
    }
    place.looked_at();
    let mut phase = place.phase();
    loop {
        let patience = match *phase.borrow_and_update() {
            Phase::First => Some(limits.head),
            Phase::Serving => None,
            Phase::Kept => Some(limits.idle),
        };
        let overdue = async {
            match patience {
                Some(patience) => tokio::time::sleep(patience).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            ended = &mut connection => return ended,
            () = place.evicted() => return Ok(()),
            () = overdue => return Ok(()),
            // The sender lives as long as `place`.
            _ = phase.changed() => {}
        }
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

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;
    use tokio::sync::Notify;

    use super::*;

    async fn start(limits: Limits) -> (SocketAddr, CancellationToken) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (at, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
        let router = Router::new().route("/", get(|| async { "fine" }));
        tokio::spawn(serve(listener, router, limits, stop.clone()));
        (at, stop)
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
    async fn a_full_listener_closes_the_longest_idle_connection() {
        let (at, ..) = start(Limits {
            connections: 2,
            ..Limits::default()
        })
        .await;
        let mut idle = TcpStream::connect(at).await.unwrap();
        send(&mut idle).await;
        answer(&mut idle).await;
        let mut kept = TcpStream::connect(at).await.unwrap();
        send(&mut kept).await;
        answer(&mut kept).await;
        let mut new = TcpStream::connect(at).await.unwrap();
        send(&mut new).await;
        assert!(answer(&mut new).await.starts_with("HTTP/1.1 200"));
        assert_eq!(answer(&mut idle).await, "", "closed for the new one");
        send(&mut kept).await;
        assert!(answer(&mut kept).await.starts_with("HTTP/1.1 200"));
    }

    #[tokio::test]
    async fn a_running_request_is_not_cut_off_for_a_new_client() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let (begun, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (told, allowed) = (begun.clone(), go.clone());
        let handler = move || async move {
            told.notify_one();
            allowed.notified().await;
            "done"
        };
        let limits = Limits {
            connections: 1,
            ..Limits::default()
        };
        let router = Router::new().route("/", get(handler));
        tokio::spawn(serve(listener, router, limits, CancellationToken::new()));
        let mut first = TcpStream::connect(at).await.unwrap();
        send(&mut first).await;
        begun.notified().await;
        let mut second = TcpStream::connect(at).await.unwrap();
        send(&mut second).await;
        go.notify_one();
        assert!(answer(&mut first).await.ends_with("done"));
        begun.notified().await;
        go.notify_one();
        assert!(answer(&mut second).await.ends_with("done"));
    }

    #[tokio::test]
    async fn a_client_that_does_not_fetch_its_answer_is_hung_up_on() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let large = "x".repeat(64 << 20);
        let router = Router::new().route("/", get(move || async move { large.clone() }));
        let limits = Limits {
            idle: Duration::from_millis(50),
            ..Limits::default()
        };
        let served = tokio::spawn(serve_one(listener, router, limits));
        let mut client = TcpStream::connect(at).await.unwrap();
        send(&mut client).await;
        // The client stays, and reads nothing.
        served.await.unwrap();
    }

    /// Serves one connection to its end.
    async fn serve_one(listener: TcpListener, router: Router, limits: Limits) {
        let (io, _) = listener.accept().await.unwrap();
        let place = Places::new(1).take();
        let served = place.clone();
        let service = service_fn(move |request| super::answer(served.clone(), router.clone(), request));
        let connection = http1::Builder::new().serve_connection(TokioIo::new(io), service);
        attend(connection, place, limits).await.unwrap();
    }
}
