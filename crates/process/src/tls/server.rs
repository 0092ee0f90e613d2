//! The configuration of a TLS server.

use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig, SignatureScheme};

use super::time::ClockTime;
use super::{CertifiedKeys, Material, Reload, TlsError};
use crate::clock::{Clock, SystemClock};
use crate::crypto;

/// Builds a server configuration whose certificate and client trust change by themselves.
#[derive(Debug)]
pub struct ServerTls {
    keys: Arc<CertifiedKeys>,
    clients: Option<Arc<ClientTrust>>,
    alpn: Vec<Vec<u8>>,
    clock: Arc<dyn Clock>,
}

impl ServerTls {
    /// A server that shows `keys`, speaks HTTP/1.1 and asks no certificate of its clients.
    pub fn new(keys: Arc<CertifiedKeys>) -> Self {
        Self {
            keys,
            clients: None,
            alpn: vec![b"http/1.1".to_vec()],
            clock: Arc::new(SystemClock),
        }
    }

    /// Refuses clients without a certificate that `trust` vouches for.
    #[must_use]
    pub fn require_clients(mut self, trust: Arc<ClientTrust>) -> Self {
        self.clients = Some(trust);
        self
    }

    /// Offers other application protocols, such as `h2`.
    #[must_use]
    pub fn alpn(mut self, protocols: &[&str]) -> Self {
        self.alpn = protocols
            .iter()
            .map(|protocol| protocol.as_bytes().to_vec())
            .collect();
        self
    }

    /// Judges client certificates by another clock.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// The configuration.
    pub fn build(self) -> Result<Arc<ServerConfig>, TlsError> {
        let time = Arc::new(ClockTime(self.clock));
        let builder = ServerConfig::builder_with_details(crypto::provider(), time)
            .with_safe_default_protocol_versions()?;
        let mutual = self.clients.is_some();
        let builder = match self.clients {
            Some(trust) => builder.with_client_cert_verifier(trust),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(self.keys);
        config.alpn_protocols = self.alpn;
        if mutual {
            // A resumed session is not checked against the bundle again: a client would outlive the trust in it.
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        Ok(Arc::new(config))
    }
}

/// The authorities whose clients a server lets in, swapped while it serves.
#[derive(Debug)]
pub struct ClientTrust(ArcSwap<Arc<dyn ClientCertVerifier>>);

impl ClientTrust {
    /// Trusts `roots` at first.
    pub fn new(roots: Arc<RootCertStore>) -> Result<Arc<Self>, TlsError> {
        Ok(Arc::new(Self(ArcSwap::from_pointee(verifier(roots)?))))
    }

    /// Trusts `roots` and nobody else.
    pub fn swap(&self, roots: Arc<RootCertStore>) -> Result<(), TlsError> {
        self.0.store(Arc::new(verifier(roots)?));
        Ok(())
    }
}

fn verifier(roots: Arc<RootCertStore>) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    Ok(WebPkiClientVerifier::builder_with_provider(roots, crypto::provider()).build()?)
}

impl Reload for ClientTrust {
    fn reload(&self, material: &Material) -> Result<(), TlsError> {
        self.swap(material.trust.clone())
    }
}

impl ClientCertVerifier for ClientTrust {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        // A hint borrowed from the verifier could not be swapped; clients choose their certificate without it.
        &[]
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.0.load().verify_client_cert(leaf, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0
            .load()
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0
            .load()
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.load().supported_verify_schemes()
    }
}
