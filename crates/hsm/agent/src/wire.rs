//! What the agent asks its child, and what it is told.

mod failure;
mod remote;

use std::path::PathBuf;

pub(crate) use failure::{Failure, Kind};
use serde::{Deserialize, Serialize};
use trustplane_hsm_core::change::Terms;
use trustplane_hsm_core::generation::Generation;
use trustplane_hsm_core::layout::Description;
use trustplane_hsm_core::limits::Limits;
use trustplane_hsm_core::metadata::Metadata;
use trustplane_hsm_core::path::{KeyName, SecretPath};
use trustplane_hsm_core::secret::{Secret, Value};
use trustplane_hsm_core::version::Stamp;
use trustplane_hsm_token::{Attempt, Capacity, Selector, TokenInfo};

use crate::error::Effect;
use crate::frame::Message;

/// What one knows of the token that one wants. Everything that is given must fit, and something must be given.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// Its serial number.
    pub serial: Option<String>,
    /// Its label.
    pub label: Option<String>,
    /// A serial number that its reader has in its name.
    pub reader_serial: Option<String>,
}

impl Wanted {
    pub(crate) fn selector(&self) -> Option<Selector> {
        Selector::of(
            self.serial.as_deref(),
            self.label.as_deref(),
            self.reader_serial.as_deref(),
        )
    }
}

/// What is to be said of a secret without its values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// What is known about it: description, labels, version, and whether it was deleted.
    #[serde(with = "remote::MetadataDef")]
    pub metadata: Metadata,
    /// The checksum of the original.
    pub checksum: String,
    /// Our own digest, which two secrets share only if they have the same data.
    pub digest: String,
    /// How many keys there are.
    pub keys: usize,
}

impl From<Description> for Entry {
    fn from(described: Description) -> Self {
        Self {
            metadata: described.metadata,
            checksum: described.checksum,
            digest: described.digest.to_hex(),
            keys: described.keys,
        }
    }
}

/// Where a token is looked for, and where it is held.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Search {
    pub module: PathBuf,
    pub wanted: Wanted,
    /// Where processes meet over a token.
    pub runtime: PathBuf,
}

/// A request. PINs and values are in the frame beside it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Load the module or initialise it again, find the token, and hold it. No PIN is tried.
    Find(Search),
    /// The same for the one token that nobody uses yet.
    FindBlank(Search),
    /// Let go of the token that was found, for others who want to open it.
    LetGo,
    /// Make the token that was found ours, with the security officer's PIN and the user's beside.
    Provision {
        label: String,
    },
    /// Log in to the token that was found, with the PIN beside.
    LogIn {
        #[serde(with = "remote::AttemptDef")]
        attempt: Attempt,
    },
    /// Read the token, end what was interrupted, and serve.
    Serve {
        #[serde(with = "remote::LimitsDef")]
        limits: Limits,
    },
    Read {
        path: String,
    },
    /// The values are beside it, in the order of the keys.
    Write {
        path: String,
        keys: Vec<String>,
        #[serde(with = "remote::MetadataDef")]
        metadata: Metadata,
        #[serde(with = "remote::TermsDef")]
        terms: Terms,
    },
    /// The whole secret goes, or one key of it.
    Delete {
        path: String,
        key: Option<String>,
        #[serde(with = "remote::StampDef")]
        stamp: Stamp,
        #[serde(with = "remote::TermsDef")]
        terms: Terms,
    },
    Purge {
        path: String,
        version: u64,
        epoch: Option<u64>,
    },
    Generation,
    /// Initialise the module again, log in with the PIN beside, read everything, and go on serving the same token.
    Renew {
        #[serde(with = "remote::LimitsDef")]
        limits: Limits,
    },
    /// List the secrets with all that is to be known of the token at the same moment; read every object anew before.
    Survey {
        anew: bool,
    },
    /// What the token says of itself now.
    Info,
    /// The old PIN and the new one are beside it.
    ChangePin {
        #[serde(with = "remote::AttemptDef")]
        attempt: Attempt,
    },
}

impl Request {
    /// Whether it is one of those that open a token.
    pub fn opens(&self) -> bool {
        matches!(
            self,
            Self::Find(_)
                | Self::FindBlank(_)
                | Self::LetGo
                | Self::Provision { .. }
                | Self::LogIn { .. }
                | Self::Serve { .. }
                | Self::Renew { .. }
        )
    }

    /// What it may have done if nobody says how it ended.
    pub fn effect(&self) -> Effect {
        match self {
            Self::Write { .. } | Self::Delete { .. } | Self::Purge { .. } | Self::ChangePin { .. } => {
                Effect::Unknown
            }
            _ => Effect::None,
        }
    }
}

/// A reply, and what became of changes that were interrupted, by path, as far as that was found on the way.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Answer {
    pub reply: Reply,
    pub interrupted: Vec<String>,
}

impl From<Message<Reply>> for Message<Answer> {
    fn from(Message { head, secrets }: Message<Reply>) -> Self {
        let (reply, interrupted) = (head, Vec::new());
        Self {
            head: Answer { reply, interrupted },
            secrets,
        }
    }
}

/// What a request is replied. Values are in the frame beside it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    Done,
    Found(#[serde(with = "remote::TokenInfoDef")] TokenInfo),
    /// The login failed.
    NotLoggedIn {
        failure: Failure,
        tried: Tried,
    },
    /// The values are beside it, in the order of the keys.
    Secret {
        keys: Vec<String>,
        #[serde(with = "remote::MetadataDef")]
        metadata: Metadata,
    },
    /// What a change has left of a secret, which is nothing after a purge, and of the token.
    Changed {
        entry: Option<Entry>,
        left: Left,
    },
    Survey {
        entries: Vec<(String, Result<Entry, Failure>)>,
        #[serde(with = "remote::CapacityDef")]
        capacity: Capacity,
        #[serde(with = "remote::GenerationDef")]
        generation: Generation,
    },
    Generation(#[serde(with = "remote::GenerationDef")] Generation),
    Failed(Failure),
}

/// What a change has left of the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    /// How often we have changed it.
    #[serde(with = "remote::GenerationDef")]
    pub generation: Generation,
    /// How much it holds. Of its memory nothing is known.
    #[serde(with = "remote::CapacityDef")]
    pub capacity: Capacity,
}

/// What became of the PIN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Tried {
    /// It was not tried.
    No,
    /// It was refused.
    Refused,
    /// The token has not said.
    Unanswered,
}

/// A path as it came over the socket.
pub(crate) fn path(text: &str) -> Result<SecretPath, Failure> {
    SecretPath::parse(text).map_err(|error| Failure::new(Kind::InvalidArgument, error.to_string()))
}

/// A key as it came over the socket.
pub(crate) fn key(text: &str) -> Result<KeyName, Failure> {
    KeyName::parse(text).map_err(|error| Failure::new(Kind::InvalidArgument, error.to_string()))
}

/// The keys of a secret, and its values in the same order.
pub(crate) fn take_apart(secret: Secret) -> (Vec<String>, Metadata, Vec<Value>) {
    let (keys, values) = secret
        .data
        .into_iter()
        .map(|(key, value)| (key.as_str().to_owned(), value))
        .unzip();
    (keys, secret.metadata, values)
}

/// The secret that keys and values are.
pub(crate) fn put_together(
    keys: Vec<String>,
    metadata: Metadata,
    values: Vec<Value>,
) -> Result<Secret, Failure> {
    if keys.len() != values.len() {
        return Err(Failure::new(Kind::InvalidArgument, "as many values as keys"));
    }
    let data = keys
        .iter()
        .zip(values)
        .map(|(name, value)| Ok((key(name)?, value)))
        .collect::<Result<_, Failure>>()?;
    Ok(Secret { data, metadata })
}

impl From<Secret> for Message<Reply> {
    fn from(secret: Secret) -> Self {
        let (keys, metadata, secrets) = take_apart(secret);
        Self {
            head: Reply::Secret { keys, metadata },
            secrets,
        }
    }
}
