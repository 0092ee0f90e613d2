//! What can go wrong when something is read, prepared or written.

use trustplane_kit::apply::WriteError;
use trustplane_kit::controller::Fault;
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
    /// An object of somebody else has the name. It bears no label by which we would see it go, so it is tried again.
    #[error("{0}")]
    Taken(WriteError),
    /// An action has come through that should have become a write.
    #[error("failed to carry out {0}: it is no write")]
    NoWrite(String),
}

/// Sees to it that a name that is taken is tried again.
pub(crate) fn try_again(fault: Fault<HsmError>) -> Fault<HsmError> {
    match fault {
        Fault::Write(taken @ WriteError::Foreign { .. }) => Fault::Controller(HsmError::Taken(taken)),
        other => other,
    }
}

impl Classified for HsmError {
    fn class(&self) -> Class {
        match self {
            Self::Credentials(_) | Self::Consent(_) | Self::Taken(_) => Class::Transient,
            Self::NoWrite(_) => Class::Bug,
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Credentials(_) => "CredentialsFailed",
            Self::Consent(_) => "PinSecretUnknown",
            Self::Taken(_) => "NameTaken",
            Self::NoWrite(_) => "NoWrite",
        }
    }
}
