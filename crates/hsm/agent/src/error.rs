//! What a caller is told when something could not be done. No text holds a value or a PIN.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Why a request was not served, in the words of gRPC.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AgentError {
    /// There is no such secret. This is known, not guessed.
    #[error("{0}")]
    NotFound(String),
    /// The request is wrong, on this token and on any that is like it.
    #[error("{0}")]
    InvalidArgument(String),
    /// The token is not in the state that the caller expects.
    #[error("{0}")]
    FailedPrecondition(String),
    /// The token has no room.
    #[error("{0}")]
    ResourceExhausted(String),
    /// Something is there and cannot be trusted.
    #[error("{0}")]
    DataLoss(String),
    /// The PIN does not open the token. It is not tried again until a new one is given.
    #[error("the token is not open: {0}")]
    Pin(PinProblem),
    /// The token or its module cannot be used now; they are being brought back.
    #[error("{what}{effect}")]
    Unavailable {
        /// What is not there.
        what: String,
        /// Whether something was changed.
        effect: Effect,
    },
    /// Another process holds the token, and this one does not touch it. It is tried again.
    #[error("{0}")]
    Held(String),
    /// The module did not answer in time, or it was not this request's turn in time.
    #[error("no answer within {within:?}{effect}")]
    Deadline {
        /// How long was waited.
        within: Duration,
        /// Whether something was changed.
        effect: Effect,
    },
    /// Too many requests wait already.
    #[error("too many requests wait for the token")]
    Busy,
}

/// What a request that failed may have done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    None,
    /// The whole change or nothing: whichever it is can be read once the token serves again.
    Unknown,
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "",
            Self::Unknown => "; it is not known whether the change took effect",
        })
    }
}

/// What is wrong with the PIN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum PinProblem {
    /// It is wrong. That was one try.
    #[error("the PIN is wrong")]
    Rejected,
    /// No try is left.
    #[error("the PIN is locked")]
    Locked,
    /// It has to be changed before it can be used.
    #[error("the PIN has to be changed")]
    Expired,
    /// The token does not take PINs of this length or form.
    #[error("the token takes no such PIN")]
    Form,
    /// The token has no user PIN yet.
    #[error("the token has no user PIN")]
    NotSet,
    /// A wrong PIN was tried before, by whomever: none is tried without an order.
    #[error("a wrong PIN was tried before, so none was tried")]
    TriesLow,
    /// It was tried more than once, and the token never said whether it is right.
    #[error(
        "the PIN was tried, and the token did not say whether it is right; if it is, annotate its Secret with \
         trustplane.io/try-again and any new text"
    )]
    Unanswered,
    /// A change of the PIN was interrupted: nobody knows which one it is now.
    #[error("a change of the PIN was interrupted, so nobody knows which one it is")]
    Undecided,
    /// There is none.
    #[error("there is no PIN")]
    Missing,
    /// So many were refused that the record has no room for another one.
    #[error("too many PINs were refused, so no other one is tried")]
    TooMany,
    /// What was tried before was written down with a key that is lost.
    #[error(
        "refused PINs were written down with a key that is lost, so nobody can tell whether this is one of them; if it is \
         right, annotate its Secret with trustplane.io/try-again and any new text"
    )]
    KeyLost,
}

impl PinProblem {
    /// Whether it may go away by itself, at no cost of a try.
    pub(crate) fn may_pass(self) -> bool {
        matches!(self, Self::NotSet | Self::TriesLow)
    }
}

impl AgentError {
    /// That the token cannot be used, and nothing was changed.
    pub(crate) fn unavailable(what: impl Into<String>) -> Self {
        Self::Unavailable {
            what: what.into(),
            effect: Effect::None,
        }
    }

    /// The word of gRPC for it.
    pub fn status(&self) -> &'static str {
        match self {
            Self::NotFound(_) => "NOT_FOUND",
            Self::InvalidArgument(_) => "INVALID_ARGUMENT",
            Self::FailedPrecondition(_) | Self::Pin(_) => "FAILED_PRECONDITION",
            Self::ResourceExhausted(_) | Self::Busy => "RESOURCE_EXHAUSTED",
            Self::DataLoss(_) => "DATA_LOSS",
            Self::Unavailable { .. } | Self::Held(_) => "UNAVAILABLE",
            Self::Deadline { .. } => "DEADLINE_EXCEEDED",
        }
    }
}
