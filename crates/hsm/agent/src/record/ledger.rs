//! What keeps a record.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;

use trustplane_api::hsm::record::{Record, Unreadable};

/// What a ledger answers, in its own time.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, LedgerError>> + Send + 'a>>;

/// Keeps one record for all processes that may serve a token. Each call has an end, good or bad.
pub trait Ledger: fmt::Debug + Send + Sync + 'static {
    /// The record as it is now, never as it was.
    fn load(&self) -> Answer<'_, Loaded>;

    /// Changes some of its parts.
    fn store(&self, change: Change) -> Answer<'_, ()>;
}

/// A record, and its version.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Loaded {
    /// The record.
    pub record: Record,
    /// Another one after each change of the record.
    pub version: String,
}

/// A change of a record.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Change {
    /// Only if this is still its version.
    pub version: Option<String>,
    /// The parts that change, by key.
    pub data: BTreeMap<String, String>,
}

/// Why a record could not be read or changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LedgerError {
    /// Somebody was faster: read it again.
    #[error("the record has changed meanwhile")]
    Conflict,
    /// There is none.
    #[error("there is no record: the manager makes it")]
    Missing,
    /// We may not.
    #[error("the record may not be used: {0}")]
    Forbidden(String),
    /// It makes no sense.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// It cannot be reached.
    #[error("the record cannot be reached: {0}")]
    Unreachable(String),
}
