//! A small HTTP client: one connection for each request, over TLS for agents and plain for the console.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result};
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use trustplane_process::tls::{Material, ReloadingClientConfig, roots};

/// What was answered.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    /// The body as JSON; null if it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }

    /// The message of an error.
    pub fn message(&self) -> String {
        self.json()["error"]["message"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }
}

/// The configuration of a client that trusts this CA.
pub fn trusting(ca: &str) -> Result<Arc<ClientConfig>> {
    let material = Material {
        identity: None,
        trust: roots(ca.as_bytes())?,
    };
    Ok(ReloadingClientConfig::new(material, &["http/1.1"])?.current())
}

/// One side of a hub.
#[derive(Debug, Clone)]
pub struct Peer {
    pub at: SocketAddr,
    pub tls: Option<Arc<ClientConfig>>,
}

impl Peer {
    /// A connection, for requests whose body is sent piece by piece.
    pub async fn connect<B>(&self) -> Result<SendRequest<B>>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let stream = TcpStream::connect(self.at).await.context("connect")?;
        match &self.tls {
            Some(config) => {
                let name = ServerName::try_from("localhost")?;
                let stream = TlsConnector::from(config.clone())
                    .connect(name, stream)
                    .await
                    .context("shake hands")?;
                let (sender, connection) = handshake(TokioIo::new(stream)).await?;
                tokio::spawn(connection);
                Ok(sender)
            }
            None => {
                let (sender, connection) = handshake(TokioIo::new(stream)).await?;
                tokio::spawn(connection);
                Ok(sender)
            }
        }
    }

    /// The name under which the peer is reached.
    pub fn host(&self) -> String {
        format!("localhost:{}", self.at.port())
    }

    pub async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Result<Answer> {
        let mut request = Request::builder().method(method).uri(path);
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            request = request.header("host", self.host());
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body.into()))?;
        let mut sender = self.connect().await?;
        let response = sender.send_request(request).await.context("send a request")?;
        let (parts, body) = response.into_parts();
        Ok(Answer {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body: body.collect().await.context("read an answer")?.to_bytes(),
        })
    }
}
