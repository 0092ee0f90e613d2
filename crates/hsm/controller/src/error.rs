//! What can go wrong when something is written or prepared.

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
    /// An object of somebody else has the name. It bears no label by which we would see it go, so it is tried again.
    #[error("{0}")]
    Taken(WriteError),
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
        Class::Transient
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Credentials(_) => "CredentialsFailed",
            Self::Taken(_) => "NameTaken",
        }
    }
}
