//! The authority: a bundle to trust and leaves to show.

use std::sync::Arc;

use jiff::Timestamp;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::RootCertStore;

use super::leaf::{Leaf, LeafRequest, validity};
use super::state::{AuthorityState, SigningCa};
use super::{CaError, Policy};
use crate::secret::Secret;
use crate::tls;

/// A certificate authority at one moment of its life. A value: [`Authority::step`](Self::step) makes the next one.
#[derive(Debug, Clone)]
pub struct Authority {
    pub(super) name: String,
    pub(super) policy: Policy,
    pub(super) state: AuthorityState,
}

impl Authority {
    /// A new authority. `name` stands in the subject of its certificates.
    pub fn create(name: impl Into<String>, policy: Policy, now: Timestamp) -> Result<Self, CaError> {
        policy.validate()?;
        let name = name.into();
        let current = generate(&name, &policy, now)?;
        Ok(Self {
            name,
            policy,
            state: AuthorityState {
                current,
                next: None,
                previous: None,
            },
        })
    }

    /// Goes on with a stored state.
    pub fn resume(name: impl Into<String>, policy: Policy, state: AuthorityState) -> Result<Self, CaError> {
        policy.validate()?;
        Ok(Self {
            name: name.into(),
            policy,
            state,
        })
    }

    /// What must be stored.
    pub fn state(&self) -> &AuthorityState {
        &self.state
    }

    /// Every certificate that peers must trust now, as PEM.
    pub fn bundle_pem(&self) -> String {
        self.state.certificates().collect()
    }

    /// [`Authority::bundle_pem`] for our own TLS.
    pub fn roots(&self) -> Result<Arc<RootCertStore>, CaError> {
        Ok(tls::roots(self.bundle_pem().as_bytes())?)
    }

    /// Whether a leaf's issuer is in the bundle.
    pub fn vouches_for(&self, leaf: &Leaf) -> bool {
        self.state
            .certificates()
            .any(|certificate| certificate == leaf.issuer())
    }

    /// Whether its CA is alive at `now`, so that it can issue.
    pub fn can_sign(&self, now: Timestamp) -> bool {
        now < self.state.current.expires
    }

    /// Signs a leaf. It never outlives its CA, nor the policy's leaf life.
    pub fn issue(&self, request: &LeafRequest, now: Timestamp) -> Result<Leaf, CaError> {
        let ca = &self.state.current;
        if !self.can_sign(now) {
            return Err(CaError::Expired(ca.expires));
        }
        let life = request
            .life
            .map_or(self.policy.leaf_life, |life| life.min(self.policy.leaf_life));
        let expires = now.saturating_add(life).unwrap_or(ca.expires).min(ca.expires);
        Leaf::sign(request, ca, now, expires)
    }
}

/// A new self-signed CA.
pub(super) fn generate(name: &str, policy: &Policy, now: Timestamp) -> Result<SigningCa, CaError> {
    let failed = |source| CaError::Generate {
        action: "make a CA",
        source,
    };
    let expires = now.saturating_add(policy.ca_life).unwrap_or(Timestamp::MAX);
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    // The date tells two CAs of one authority apart, for people and for verifiers that look issuers up by name.
    params
        .distinguished_name
        .push(DnType::CommonName, format!("{name} CA {now:.0}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    (params.not_before, params.not_after) = validity(now, expires);
    let key = KeyPair::generate().map_err(failed)?;
    let certificate = params.self_signed(&key).map_err(failed)?.pem();
    Ok(SigningCa {
        certificate,
        key: Secret::new(key.serialize_pem()),
        created: now,
        expires,
    })
}

/// The CA as rcgen's signer.
pub(super) fn issuer(ca: &SigningCa) -> Result<Issuer<'static, KeyPair>, CaError> {
    let failed = |source| CaError::Generate {
        action: "read the signing CA",
        source,
    };
    let key = KeyPair::from_pem(ca.key.expose()).map_err(failed)?;
    Issuer::from_ca_cert_pem(&ca.certificate, key).map_err(failed)
}
