//! The configuration of a TLS server.

use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{NoServerSessionStorage, ParsedCertificate, WebPkiClientVerifier};
use rustls::{
    DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig, SignatureScheme,
    SupportedProtocolVersion,
};

use super::time::ClockTime;
use super::{CertifiedKeys, Material, Reload, TlsError};
use crate::clock::{Clock, SystemClock};
use crate::crypto;

static ONLY_TLS13: &[&SupportedProtocolVersion] = &[&rustls::version::TLS13];

/// Builds a server configuration whose certificate and client trust change by themselves.
#[derive(Debug)]
pub struct ServerTls {
    keys: Arc<CertifiedKeys>,
    clients: Option<Arc<ClientTrust>>,
    alpn: Vec<Vec<u8>>,
    versions: &'static [&'static SupportedProtocolVersion],
    clock: Arc<dyn Clock>,
}

impl ServerTls {
    /// A server that shows `keys`, speaks HTTP/1.1 and asks no certificate of its clients.
    pub fn new(keys: Arc<CertifiedKeys>) -> Self {
        Self {
            keys,
            clients: None,
            alpn: vec![b"http/1.1".to_vec()],
            versions: rustls::DEFAULT_VERSIONS,
            clock: Arc::new(SystemClock),
        }
    }

    /// Refuses clients without a certificate that `trust` vouches for.
    #[must_use]
    pub fn require_clients(mut self, trust: Arc<ClientTrust>) -> Self {
        self.clients = Some(trust);
        self
    }

    /// Speaks TLS 1.3 and nothing older: for a port whose clients are all our own.
    #[must_use]
    pub fn only_tls13(mut self) -> Self {
        self.versions = ONLY_TLS13;
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
            .with_protocol_versions(self.versions)?;
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
pub struct ClientTrust {
    verifier: ArcSwap<Arc<dyn ClientCertVerifier>>,
    /// The name that a client has to have, if one is asked for.
    name: Option<ServerName<'static>>,
}

impl ClientTrust {
    /// Trusts `roots` at first.
    pub fn new(roots: Arc<RootCertStore>) -> Result<Arc<Self>, TlsError> {
        Self::of(roots, None)
    }

    /// The same, but lets in only clients whose certificate has this DNS name, whoever else the authorities vouch for.
    pub fn named(roots: Arc<RootCertStore>, name: &str) -> Result<Arc<Self>, TlsError> {
        let name = ServerName::try_from(name.to_owned()).map_err(|_| TlsError::Name(name.to_owned()))?;
        Self::of(roots, Some(name))
    }

    fn of(roots: Arc<RootCertStore>, name: Option<ServerName<'static>>) -> Result<Arc<Self>, TlsError> {
        let verifier = ArcSwap::from_pointee(verifier(roots)?);
        Ok(Arc::new(Self { verifier, name }))
    }

    /// Trusts `roots` and nobody else.
    pub fn swap(&self, roots: Arc<RootCertStore>) -> Result<(), TlsError> {
        self.verifier.store(Arc::new(verifier(roots)?));
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
        if let Some(name) = &self.name {
            verify_server_name(&ParsedCertificate::try_from(leaf)?, name)?;
        }
        self.verifier.load().verify_client_cert(leaf, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verifier
            .load()
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verifier
            .load()
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.load().supported_verify_schemes()
    }
}
