//! What can go wrong when something is read, prepared or written.

use trustplane_kit::apply::WriteError;
use trustplane_plan::{Class, Classified};

use crate::credentials::CredentialsError;

/// Why nothing could be written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HsmError {
    /// There is nothing to give to an agent.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// Nobody knows whether a PIN is shared.
    #[error("failed to learn whether a PIN is shared: {0}")]
    Consent(WriteError),
}

impl Classified for HsmError {
    fn class(&self) -> Class {
        Class::Transient
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Credentials(_) => "CredentialsFailed",
            Self::Consent(_) => "PinSecretUnknown",
        }
    }
}
