//! Errors as gRPC has them.

use std::time::Duration;

use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Code, Status};

use crate::error::AgentError;

/// The trailer with a word that says more than the code, for programs.
pub const REASON: &str = "trustplane-reason";

/// How much earlier than the client we give up, so that it is we who say why.
const MARGIN: Duration = Duration::from_millis(20);

impl From<AgentError> for Status {
    fn from(error: AgentError) -> Self {
        let (code, reason) = match &error {
            AgentError::NotFound(_) => (Code::NotFound, "not-found"),
            AgentError::InvalidArgument(_) => (Code::InvalidArgument, "invalid"),
            AgentError::FailedPrecondition(_) => (Code::FailedPrecondition, "unexpected"),
            AgentError::ResourceExhausted(_) => (Code::ResourceExhausted, "full"),
            AgentError::Busy => (Code::ResourceExhausted, "busy"),
            AgentError::DataLoss(_) => (Code::DataLoss, "damaged"),
            AgentError::Pin(problem) => (Code::FailedPrecondition, problem.word()),
            AgentError::Unavailable { .. } => (Code::Unavailable, "unavailable"),
            AgentError::Held(_) => (Code::Unavailable, "held"),
            AgentError::Deadline { .. } => (Code::DeadlineExceeded, "deadline"),
        };
        let mut trailers = MetadataMap::new();
        trailers.insert(REASON, MetadataValue::from_static(reason));
        Self::with_metadata(code, error.to_string(), trailers)
    }
}

/// The word for a code.
pub(super) fn word(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        _ => "OTHER",
    }
}

/// How long the client waits, less what it takes to tell it.
pub(super) fn patience(headers: &MetadataMap) -> Option<Duration> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let unit = text.chars().last().filter(char::is_ascii)?;
    let digits = text.get(..text.len() - 1)?;
    // No more than eight digits, says gRPC.
    let number: u64 = digits.parse().ok().filter(|_| digits.len() <= 8)?;
    let given = match unit {
        'H' => Duration::from_secs(number * 3600),
        'M' => Duration::from_secs(number * 60),
        'S' => Duration::from_secs(number),
        'm' => Duration::from_millis(number),
        'u' => Duration::from_micros(number),
        'n' => Duration::from_nanos(number),
        _ => return None,
    };
    Some(given.saturating_sub(MARGIN).max(given / 2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Effect;

    #[test]
    fn every_error_has_the_code_that_it_names() {
        let text = || "x".to_owned();
        let effect = Effect::Unknown;
        let within = Duration::from_secs(1);
        let errors = [
            AgentError::NotFound(text()),
            AgentError::InvalidArgument(text()),
            AgentError::FailedPrecondition(text()),
            AgentError::ResourceExhausted(text()),
            AgentError::DataLoss(text()),
            AgentError::Pin(crate::PinProblem::Locked),
            AgentError::Unavailable { what: text(), effect },
            AgentError::Deadline { within, effect },
            AgentError::Held(text()),
            AgentError::Busy,
        ];
        for error in errors {
            let expected = error.status();
            let status = Status::from(error);
            assert_eq!(word(status.code()), expected);
            assert!(status.metadata().get(REASON).is_some());
        }
    }

    #[test]
    fn the_clients_patience_is_read_as_grpc_writes_it() {
        let of = |text: &'static str| {
            let mut headers = MetadataMap::new();
            headers.insert("grpc-timeout", MetadataValue::from_static(text));
            patience(&headers)
        };
        assert_eq!(of("1S"), Some(Duration::from_millis(980)));
        assert_eq!(of("30000m"), Some(Duration::from_millis(29_980)));
        assert_eq!(of("10m"), Some(Duration::from_millis(5)));
        assert_eq!(of("2H"), Some(Duration::from_millis(7_199_980)));
        for bad in ["", "S", "1", "123456789S", "1s", "-1S"] {
            assert_eq!(of(bad), None, "{bad}");
        }
    }
}
