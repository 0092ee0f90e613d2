//! The certificate of a platform that speaks TLS.

use std::sync::Arc;

use anyhow::{Context, Result};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::PrivateKeyDer;
use tokio_rustls::TlsAcceptor;

/// A server for loopback, and the PEM of the authority that signed its certificate.
pub(super) fn acceptor() -> Result<(TlsAcceptor, String)> {
    let key = KeyPair::generate().context("make the key of an authority")?;
    let mut authority = CertificateParams::default();
    authority
        .distinguished_name
        .push(DnType::CommonName, "platform of a test");
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let pem = authority.self_signed(&key).context("make an authority")?.pem();
    let issuer = Issuer::from_params(&authority, &key);

    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let own = KeyPair::generate().context("make the key of a platform")?;
    let certificate = CertificateParams::new(names)
        .and_then(|params| params.signed_by(&own, &issuer))
        .context("make the certificate of a platform")?;
    let secret = PrivateKeyDer::try_from(own.serialize_der())
        .map_err(|why| anyhow::anyhow!("use the key of a platform: {why}"))?;
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| {
            builder
                .with_no_client_auth()
                .with_single_cert(vec![certificate.der().clone()], secret)
        })
        .context("set TLS up for a platform")?;
    Ok((TlsAcceptor::from(Arc::new(config)), pem))
}
