//! Our own certificate authority, and the certificates it signs.
//!
//! An [`Authority`] is a value: it is created, stepped through its rotation by the clock, and stored by whoever holds
//! it (a Kubernetes Secret, through [`AuthorityState::to_data`]). A rotation overlaps, so that no call fails:
//!
//! 1. *announced*: the new CA is in the bundle, but the old one still signs, until everybody has the new bundle;
//! 2. *signing*: the new CA signs; the old one stays in the bundle until every leaf it signed has expired;
//! 3. *retired*: the old CA leaves the bundle.
//!
//! ```
//! use jiff::Timestamp;
//! use trustplane_process::ca::{Authority, LeafRequest, Policy, Usage};
//!
//! let now = Timestamp::now();
//! let authority = Authority::create("example", Policy::default(), now)?;
//! let leaf = authority.issue(&LeafRequest {
//!     name: "webhook".into(),
//!     dns: vec!["webhook.trustplane.svc".into()],
//!     usage: Usage::Server,
//!     ..LeafRequest::default()
//! }, now)?;
//! assert!(leaf.renew_at() > now);
//! # Ok::<(), trustplane_process::ca::CaError>(())
//! ```
//!
//! Not a public PKI: no revocation, no intermediate CAs. Leaves are short-lived instead.

mod authority;
mod keeper;
mod leaf;
mod meters;
mod rotation;
mod state;
#[cfg(test)]
mod tests;

use jiff::SignedDuration;

pub use authority::Authority;
pub use keeper::LeafKeeper;
pub use leaf::{Leaf, LeafRequest, Usage};
pub use rotation::Step;
pub use state::{AuthorityState, RetiringCa, SigningCa};

/// Certificates are valid from a little before they are made, for peers whose clock is behind.
pub(crate) const BACKDATE: SignedDuration = SignedDuration::from_mins(5);

/// How long things live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// A CA. Its successor is announced after two thirds of it.
    pub ca_life: SignedDuration,
    /// A leaf, at most. It is renewed after two thirds of it.
    pub leaf_life: SignedDuration,
    /// How long a new bundle, or a new state of the authority, may take to reach everybody.
    pub propagation: SignedDuration,
}

impl Policy {
    /// Refuses lives that leave no room for a rotation: the last third of a CA must hold one propagation before its
    /// successor signs, one for signers that learn of it late, the life of their last leaf, and one propagation more for
    /// steps that come late.
    pub fn validate(&self) -> Result<(), CaError> {
        let positive = [self.ca_life, self.leaf_life, self.propagation]
            .iter()
            .all(SignedDuration::is_positive);
        let rotation = self.propagation.saturating_mul(3).saturating_add(self.leaf_life);
        if positive && rotation <= self.ca_life / 3 {
            Ok(())
        } else {
            Err(CaError::Policy(*self))
        }
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            ca_life: SignedDuration::from_hours(24 * 365),
            leaf_life: SignedDuration::from_hours(24),
            propagation: SignedDuration::from_hours(1),
        }
    }
}

/// What an authority cannot do. Never says what a key contains.
#[derive(Debug, thiserror::Error)]
pub enum CaError {
    /// The lives do not fit together.
    #[error("a CA life of {:#} leaves no room for a rotation with leaves of {:#} and a propagation of {:#}", .0.ca_life, .0.leaf_life, .0.propagation)]
    Policy(Policy),
    /// The CA has expired and must be stepped first.
    #[error("the signing CA expired at {0}")]
    Expired(jiff::Timestamp),
    /// A name is not one.
    #[error("cannot issue for {kind} `{name}`: not a valid one")]
    Name {
        /// What it should be.
        kind: &'static str,
        /// As requested.
        name: String,
    },
    /// Making a key or certificate failed.
    #[error("cannot {action}")]
    Generate {
        /// What was attempted.
        action: &'static str,
        /// Why not.
        source: rcgen::Error,
    },
    /// Stored state cannot be read.
    #[error("the stored authority has no usable `{key}`")]
    Data {
        /// Which entry.
        key: &'static str,
    },
    /// A certificate of ours was refused.
    #[error(transparent)]
    Tls(#[from] crate::tls::TlsError),
}
