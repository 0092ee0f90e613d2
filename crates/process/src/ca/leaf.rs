//! Leaf certificates: what a process shows its peers.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::SystemTime;

use jiff::{SignedDuration, Timestamp};
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose, SanType};
use rustls::sign::CertifiedKey;

use super::authority::issuer;
use super::state::SigningCa;
use super::{BACKDATE, CaError};
use crate::secret::Secret;
use crate::tls;

/// What a leaf is for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Usage {
    /// A server.
    Server,
    /// A client.
    Client,
    /// Both ends, as between agents.
    #[default]
    Both,
}

/// Whom a leaf names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeafRequest {
    /// For people: the subject's common name. No verifier looks at it.
    pub name: String,
    /// DNS names.
    pub dns: Vec<String>,
    /// Addresses.
    pub addresses: Vec<IpAddr>,
    /// URIs, such as SPIFFE identities.
    pub uris: Vec<String>,
    /// What it is for.
    pub usage: Usage,
    /// A shorter life than the policy's.
    pub life: Option<SignedDuration>,
}

/// A leaf with its key.
#[derive(Debug, Clone)]
pub struct Leaf {
    certificate: String,
    key: Secret<Vec<u8>>,
    issuer: String,
    issued: Timestamp,
    expires: Timestamp,
}

impl Leaf {
    pub(super) fn sign(
        request: &LeafRequest,
        ca: &SigningCa,
        now: Timestamp,
        expires: Timestamp,
    ) -> Result<Self, CaError> {
        let failed = |source| CaError::Generate {
            action: "sign a leaf",
            source,
        };
        let params = params(request, now, expires)?;
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = params.signed_by(&key, &issuer(ca)?).map_err(failed)?;
        Ok(Self {
            certificate: certificate.pem(),
            key: Secret::new(key.serialize_pem().into_bytes()),
            issuer: ca.certificate.clone(),
            issued: now,
            expires,
        })
    }

    /// The certificate, as PEM.
    pub fn certificate_pem(&self) -> &str {
        &self.certificate
    }

    /// Its key, as PKCS#8 PEM.
    pub fn key_pem(&self) -> &Secret<Vec<u8>> {
        &self.key
    }

    /// The certificate of the CA that signed it, as PEM.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// When it ends.
    pub fn expires(&self) -> Timestamp {
        self.expires
    }

    /// When it should be renewed: after two thirds of its life.
    pub fn renew_at(&self) -> Timestamp {
        let life = self.expires.duration_since(self.issued);
        self.issued.saturating_add(life / 3 * 2).unwrap_or(self.expires)
    }

    /// For our own TLS.
    pub fn certified_key(&self) -> Result<Arc<CertifiedKey>, CaError> {
        Ok(tls::certified_key(self.certificate.as_bytes(), &self.key)?)
    }
}

fn params(request: &LeafRequest, now: Timestamp, expires: Timestamp) -> Result<CertificateParams, CaError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::CommonName, request.name.as_str());
    for name in &request.dns {
        let dns = name.as_str().try_into().map_err(|_| bad("the DNS name", name))?;
        params.subject_alt_names.push(SanType::DnsName(dns));
    }
    for uri in &request.uris {
        let value = uri.as_str().try_into().map_err(|_| bad("the URI", uri))?;
        params.subject_alt_names.push(SanType::URI(value));
    }
    params
        .subject_alt_names
        .extend(request.addresses.iter().copied().map(SanType::IpAddress));
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = match request.usage {
        Usage::Server => vec![ExtendedKeyUsagePurpose::ServerAuth],
        Usage::Client => vec![ExtendedKeyUsagePurpose::ClientAuth],
        Usage::Both => vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ],
    };
    params.use_authority_key_identifier_extension = true;
    (params.not_before, params.not_after) = validity(now, expires);
    Ok(params)
}

fn bad(kind: &'static str, name: &str) -> CaError {
    CaError::Name {
        kind,
        name: name.to_owned(),
    }
}

/// From a little before `now` to `expires`, in the type that rcgen wants.
pub(super) fn validity<T: From<SystemTime>>(now: Timestamp, expires: Timestamp) -> (T, T) {
    let from = now.saturating_sub(BACKDATE).unwrap_or(now);
    (SystemTime::from(from).into(), SystemTime::from(expires).into())
}
