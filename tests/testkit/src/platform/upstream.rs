//! The way from a platform to the one that it stands before.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result};
use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::state::Endpoint;

/// Another platform, such as a hub, that speaks TLS.
pub(super) struct Upstream {
    address: SocketAddr,
    tls: TlsConnector,
}

impl Upstream {
    pub(super) fn new(address: SocketAddr, ca_bundle: &str) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(ca_bundle.as_bytes()) {
            roots.add(certificate.context("read a CA bundle")?)?;
        }
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self {
            address,
            tls: TlsConnector::from(Arc::new(config)),
        })
    }

    /// Sends a request on as the agent made it, on a connection of its own: a broken one then never hurts another request.
    pub(super) async fn send(
        &self,
        endpoint: Endpoint,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<Response<Full<Bytes>>> {
        let stream = TcpStream::connect(self.address)
            .await
            .context("reach the platform behind")?;
        let name = ServerName::from(self.address.ip());
        let stream = self.tls.connect(name, stream).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let mut request = Request::post(endpoint.path()).body(Full::new(body))?;
        *request.headers_mut() = headers.clone();
        let (parts, body) = sender.send_request(request).await?.into_parts();
        let body = body.collect().await?.to_bytes();
        Ok(Response::from_parts(parts, Full::new(body)))
    }
}
