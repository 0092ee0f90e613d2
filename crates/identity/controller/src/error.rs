//! What can go wrong when something is read or prepared.

use std::time::Duration;

use trustplane_kit::apply::WriteError;
use trustplane_plan::{Class, Classified};
use trustplane_process::ca::CaError;

/// Why nothing could be decided or prepared.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IdentityError {
    /// The API server did not give an object.
    #[error(transparent)]
    Read(WriteError),
    /// The CA does not sign.
    #[error("failed to issue the certificate of the OIDC discovery provider: {0}")]
    Issue(CaError),
}

impl Classified for IdentityError {
    fn class(&self) -> Class {
        match self {
            Self::Read(error) => error.class(),
            Self::Issue(_) => Class::Transient,
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Read(_) => "ReadFailed",
            Self::Issue(_) => "CertificateFailed",
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Read(error) => error.retry_after(),
            Self::Issue(_) => None,
        }
    }
}
