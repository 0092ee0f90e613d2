//! Why the agent did not do what the tool asked for.

use tonic::{Code, Status};
use trustplane_api::hsm::secrets_tool::{ErrorKind, ToolError};

use super::connection::ConnectError;
use crate::error::Effect;
use crate::service::REASON;

/// The reason of a call that found another state than its caller expects, or that the token refused.
const UNEXPECTED: &str = "unexpected";

/// A call that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .error.message)]
pub(super) struct Failure {
    /// What the plugin is told.
    pub error: ToolError,
    /// Whether the cause may be a write of another client: the state was not the expected one.
    pub is_unexpected: bool,
}

impl Failure {
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            error: ToolError::new(kind, message),
            is_unexpected: false,
        }
    }

    /// The failure of a call that changes nothing.
    pub fn of_read(status: &Status) -> Self {
        let kind = match reason(status) {
            Some("not-found") => ErrorKind::NotFound,
            Some("invalid") => ErrorKind::Invalid,
            Some(UNEXPECTED) => ErrorKind::Refused,
            Some("full") => ErrorKind::Full,
            Some("damaged") => ErrorKind::Damaged,
            None if status.code() == Code::Unimplemented => ErrorKind::Unsupported,
            // The agent waits for a PIN or for the token, it is busy, or it ends.
            _ => ErrorKind::Unavailable,
        };
        Self {
            error: ToolError::new(kind, status.message()),
            is_unexpected: reason(status) == Some(UNEXPECTED),
        }
    }

    /// The failure of a call that may have changed the token.
    pub fn of_change(status: &Status) -> Self {
        let mut failure = Self::of_read(status);
        // An answer without a reason is not from the agent: the connection broke.
        let is_unknown = reason(status).is_none() || status.message().ends_with(&Effect::Unknown.to_string());
        if failure.error.kind == ErrorKind::Unavailable && is_unknown {
            failure.error.kind = ErrorKind::EffectUnknown;
        }
        failure
    }

    /// Whether the agent or its token is away.
    pub fn is_about_the_agent(&self) -> bool {
        matches!(self.error.kind, ErrorKind::Unavailable | ErrorKind::EffectUnknown)
    }
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        Self::new(ErrorKind::Unavailable, error.to_string())
    }
}

fn reason(status: &Status) -> Option<&str> {
    status.metadata().get(REASON)?.to_str().ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::error::{AgentError, PinProblem};

    fn kinds(error: AgentError) -> [ErrorKind; 2] {
        let status = Status::from(error);
        [Failure::of_read(&status), Failure::of_change(&status)].map(|failure| failure.error.kind)
    }

    #[test]
    fn every_error_of_the_agent_has_a_kind() {
        let text = || "x".to_owned();
        let gone = |effect| AgentError::Unavailable { what: text(), effect };
        let within = Duration::from_secs(1);
        let late = |effect| AgentError::Deadline { within, effect };
        for (error, kind) in [
            (AgentError::NotFound(text()), ErrorKind::NotFound),
            (AgentError::InvalidArgument(text()), ErrorKind::Invalid),
            (AgentError::FailedPrecondition(text()), ErrorKind::Refused),
            (AgentError::ResourceExhausted(text()), ErrorKind::Full),
            (AgentError::DataLoss(text()), ErrorKind::Damaged),
            (AgentError::Pin(PinProblem::Locked), ErrorKind::Unavailable),
            (AgentError::Busy, ErrorKind::Unavailable),
            (gone(Effect::None), ErrorKind::Unavailable),
            (late(Effect::None), ErrorKind::Unavailable),
        ] {
            assert_eq!(kinds(error.clone()), [kind; 2], "{error}");
        }
        for error in [gone(Effect::Unknown), late(Effect::Unknown)] {
            assert_eq!(kinds(error)[1], ErrorKind::EffectUnknown);
        }
    }

    #[test]
    fn a_broken_connection_leaves_the_effect_of_a_change_unknown() {
        let broken = Status::unavailable("connection reset");
        assert_eq!(Failure::of_read(&broken).error.kind, ErrorKind::Unavailable);
        assert_eq!(Failure::of_change(&broken).error.kind, ErrorKind::EffectUnknown);
    }
}
