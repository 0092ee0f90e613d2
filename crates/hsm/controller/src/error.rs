//! What can go wrong when something is read, prepared or written.

use trustplane_api::hsm::conditions::event;
use trustplane_api::hsm::delivery;
use trustplane_kit::apply::WriteError;
use trustplane_plan::{Class, Classified, ObjectRef};

use crate::credentials::CredentialsError;
use crate::delivery::LocationError;

/// Why nothing could be written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HsmError {
    /// There is nothing to give to an agent.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// The live Secret of an HSMSecret cannot be read.
    #[error(transparent)]
    Read(WriteError),
    /// A location on the tokens could not be claimed.
    #[error(transparent)]
    Location(#[from] LocationError),
    /// Nobody knows whether a PIN is shared.
    #[error("failed to learn whether a PIN is shared: {0}")]
    Consent(WriteError),
    /// Nobody knows what the manager knew of the tokens of a pool.
    #[error(
        "failed to read the status of HSMPool {0}, which says where its tokens were: correct it, or remove it with \
         kubectl patch --subresource=status to have all tokens found again"
    )]
    Status(ObjectRef),
}

impl Classified for HsmError {
    fn class(&self) -> Class {
        match self {
            Self::Credentials(_) | Self::Consent(_) => Class::Transient,
            Self::Read(error) => error.class(),
            // The watch is about to show who has it.
            Self::Location(_) => Class::Transient,
            Self::Status(_) => Class::User,
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Credentials(_) => event::CREDENTIALS_FAILED,
            Self::Consent(_) => event::PIN_SECRET_UNKNOWN,
            Self::Read(_) | Self::Location(_) => delivery::reason::WRITE_FAILED,
            Self::Status(_) => event::STATUS_UNREADABLE,
        }
    }
}
