//! What fails in the child, as it goes over the socket: what it means, and a text without values.

use serde::{Deserialize, Serialize};
use trustplane_hsm_core::code::Code;
use trustplane_hsm_core::layout::ReadError;
use trustplane_hsm_token::{ChoiceError, StoreError, TokenError};

use crate::error::{AgentError, Effect, PinProblem};
use crate::hold::HoldError;

/// A failure in the child.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failure {
    pub kind: Kind,
    pub text: String,
    /// Whether the module has to be initialised again.
    pub lost: bool,
    /// Whether a change may have begun.
    pub begun: bool,
}

/// What a failure means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    NotFound,
    InvalidArgument,
    FailedPrecondition,
    ResourceExhausted,
    DataLoss,
    Unavailable,
    /// Another process holds the token.
    Held,
    Pin(PinProblem),
}

impl From<Code> for Kind {
    fn from(code: Code) -> Self {
        match code {
            Code::NotFound => Self::NotFound,
            Code::InvalidArgument => Self::InvalidArgument,
            Code::FailedPrecondition => Self::FailedPrecondition,
            Code::ResourceExhausted => Self::ResourceExhausted,
            Code::DataLoss => Self::DataLoss,
        }
    }
}

impl Failure {
    pub fn new(kind: Kind, text: impl Into<String>) -> Self {
        Self {
            kind,
            text: text.into(),
            lost: false,
            begun: true,
        }
    }

    /// The same, but nothing was begun.
    pub fn before(error: impl Into<Self>) -> Self {
        Self {
            begun: false,
            ..error.into()
        }
    }

    /// What the caller of a request with this effect is told.
    pub fn error(self, effect: Effect) -> AgentError {
        match self.kind {
            Kind::NotFound => AgentError::NotFound(self.text),
            Kind::InvalidArgument => AgentError::InvalidArgument(self.text),
            Kind::FailedPrecondition => AgentError::FailedPrecondition(self.text),
            Kind::ResourceExhausted => AgentError::ResourceExhausted(self.text),
            Kind::DataLoss => AgentError::DataLoss(self.text),
            Kind::Pin(problem) => AgentError::Pin(problem),
            Kind::Held => AgentError::Held(self.text),
            Kind::Unavailable => AgentError::Unavailable {
                what: self.text,
                effect,
            },
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let pin = match &error {
            StoreError::Token(error) => problem(error),
            _ => None,
        };
        Self {
            kind: match (error.code(), pin) {
                (Some(code), _) => code.into(),
                (None, Some(problem)) => Kind::Pin(problem),
                (None, None) => Kind::Unavailable,
            },
            text: error.to_string(),
            lost: error.needs_initialisation(),
            begun: true,
        }
    }
}

impl From<TokenError> for Failure {
    fn from(error: TokenError) -> Self {
        StoreError::Token(error).into()
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        StoreError::Read(error).into()
    }
}

impl From<ChoiceError> for Failure {
    fn from(error: ChoiceError) -> Self {
        let kind = match &error {
            ChoiceError::None { .. } => Kind::Unavailable,
            ChoiceError::Several { .. } => Kind::FailedPrecondition,
        };
        Self::new(kind, error.to_string())
    }
}

impl From<HoldError> for Failure {
    fn from(error: HoldError) -> Self {
        let kind = match &error {
            HoldError::Held { .. } => Kind::Held,
            HoldError::Foreign { .. } | HoldError::Lock { .. } => Kind::Unavailable,
        };
        Self::new(kind, error.to_string())
    }
}

fn problem(error: &TokenError) -> Option<PinProblem> {
    match error {
        TokenError::PinIncorrect(_) => Some(PinProblem::Rejected),
        TokenError::PinLocked(_) => Some(PinProblem::Locked),
        TokenError::PinExpired(_) => Some(PinProblem::Expired),
        TokenError::PinForm(_) => Some(PinProblem::Form),
        TokenError::PinNotSet => Some(PinProblem::NotSet),
        TokenError::PinTriesLow(_) => Some(PinProblem::TriesLow),
        _ => None,
    }
}
