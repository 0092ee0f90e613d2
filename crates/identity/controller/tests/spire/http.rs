//! As much of HTTP and TLS as the test needs.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// What a server answers.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub body: String,
}

/// Asks for a path of a host.
pub async fn get(stream: impl AsyncRead + AsyncWrite + Unpin, host: &str, path: &str) -> Result<Answer> {
    ask(stream, &format!("GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n")).await
}

/// Sends JSON to a path of a host.
pub async fn post(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    host: &str,
    path: &str,
    body: &str,
) -> Result<Answer> {
    let length = body.len();
    let head = format!("POST {path} HTTP/1.0\r\nHost: {host}\r\nContent-Type: application/json");
    ask(
        stream,
        &format!("{head}\r\nContent-Length: {length}\r\n\r\n{body}"),
    )
    .await
}

/// By version 1.0 an answer ends with the connection.
async fn ask(mut stream: impl AsyncRead + AsyncWrite + Unpin, request: &str) -> Result<Answer> {
    stream
        .write_all(request.as_bytes())
        .await
        .context("send a request")?;
    stream.flush().await?;
    let mut answer = Vec::new();
    let read = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8_lossy(&answer);
    // Programs in Go close without a farewell of TLS.
    ensure!(read.is_ok() || !answer.is_empty(), "no answer");
    let (head, body) = answer
        .split_once("\r\n\r\n")
        .context("an answer without an end of its head")?;
    let status = head.split(' ').nth(1).context("an answer without a status")?;
    Ok(Answer {
        status: status.parse().context("a status that is no number")?,
        body: body.to_owned(),
    })
}

/// A certificate and its key for these names, as PEM. It is its own authority.
pub fn certificate(names: &[String]) -> Result<(String, String)> {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names)?;
    Ok((cert.pem(), signing_key.serialize_pem()))
}

/// Speaks TLS with a server of this name, whose certificate must be of these authorities.
pub async fn tls(stream: TcpStream, name: &str, authorities: &str) -> Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(authorities.as_bytes()) {
        roots.add(authority?)?;
    }
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(name.to_owned())?;
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
    stream.context("speak TLS")
}

/// Speaks TLS with clients.
pub fn acceptor(certificate: &str, key: &str) -> Result<TlsAcceptor> {
    let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes())?];
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes())?;
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
