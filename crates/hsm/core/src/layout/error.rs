//! Why a secret cannot be read.

use crate::code::Code;
use crate::label::Label;
use crate::metadata::MetadataError;
use crate::path::SecretPath;

/// Why a secret cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// There is nothing.
    #[error("{path}: there is no such secret")]
    NotFound {
        /// The path.
        path: SecretPath,
    },
    /// The token does not give the value of an object.
    #[error("{path}: the object {label} cannot be read")]
    Unreadable {
        /// The path.
        path: SecretPath,
        /// The object.
        label: Label,
    },
    /// Two objects for one key, or two metadata objects.
    #[error("{path}: there are several objects {label}, and they differ")]
    Contradiction {
        /// The path.
        path: SecretPath,
        /// One of them.
        label: Label,
    },
    /// A key that a Kubernetes Secret cannot have.
    #[error("{path}: the object {label} has a key that no Secret can have")]
    Key {
        /// The path.
        path: SecretPath,
        /// The object.
        label: Label,
    },
    /// The metadata cannot be understood.
    #[error("{path}: the metadata {source}")]
    Metadata {
        /// The path.
        path: SecretPath,
        /// Why.
        source: MetadataError,
    },
    /// Metadata of a secret that was not deleted, and no value.
    #[error("{path}: there is metadata, but no value")]
    Empty {
        /// The path.
        path: SecretPath,
    },
    /// A journal is there that could not be followed.
    #[error(
        "{path}: a write was interrupted and could be neither finished nor undone; write the secret anew"
    )]
    Interrupted {
        /// The path.
        path: SecretPath,
    },
}

impl ReadError {
    /// What it means to the one who called.
    pub fn code(&self) -> Code {
        match self {
            Self::NotFound { .. } => Code::NotFound,
            _ => Code::DataLoss,
        }
    }
}
