//! A connection that ends when its client is not trusted any more.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};
use tokio_rustls::rustls::pki_types::{CertificateDer, UnixTime};
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::server::TlsStream;
use tonic::transport::server::Connected;
use trustplane_process::tls::ClientTrust;

/// A connection whose client is looked at again and again. TLS itself looks once, and a connection may last for months: a
/// client would outlive the authority that vouched for it, and its own certificate.
pub(super) struct Guarded {
    stream: TlsStream<TcpStream>,
    /// What the client has shown, its own certificate first.
    shown: Arc<[CertificateDer<'static>]>,
    trust: Arc<ClientTrust>,
    look: Interval,
    refused: bool,
}

impl Guarded {
    pub fn new(
        stream: TlsStream<TcpStream>,
        shown: Arc<[CertificateDer<'static>]>,
        trust: Arc<ClientTrust>,
        every: Duration,
    ) -> Self {
        let mut look = interval_at(Instant::now() + every, every);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            stream,
            shown,
            trust,
            look,
            refused: false,
        }
    }

    /// Looks if it is time to. Calls that are under way end with the connection: who is not trusted gets no answer.
    fn check(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        while !self.refused && self.look.poll_tick(cx).is_ready() {
            if !self.is_trusted() {
                tracing::info!("a client is not trusted any more: its connection ends");
                self.refused = true;
            }
        }
        match self.refused {
            true => Err(io::ErrorKind::ConnectionAborted.into()),
            false => Ok(()),
        }
    }

    fn is_trusted(&self) -> bool {
        self.shown.split_first().is_some_and(|(leaf, others)| {
            let verified = self.trust.verify_client_cert(leaf, others, UnixTime::now());
            verified.is_ok()
        })
    }
}

impl Connected for Guarded {
    type ConnectInfo = <TlsStream<TcpStream> as Connected>::ConnectInfo;

    fn connect_info(&self) -> Self::ConnectInfo {
        self.stream.connect_info()
    }
}

impl AsyncRead for Guarded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Guarded {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
