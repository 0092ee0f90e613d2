//! Calls to providers, and what is told when they fail: in words that are the same from call to call.

use trustplane_process::metrics::Metrics;
use trustplane_process::outside::{FaultKind, Limit, Outside, OutsideError, Retry};
use trustplane_sync_core::fetch::FetchError;

/// Tries of one call, the first included.
const TRIES: u32 = 5;

/// How a provider, or a store of it, is called.
pub(crate) fn outside(target: String, limit: Option<Limit>, metrics: &Metrics) -> Outside {
    let retry = Retry {
        attempts: TRIES,
        ..Retry::default()
    };
    let builder = Outside::builder(target).retry(retry);
    match limit {
        Some(limit) => builder.limit(limit),
        None => builder,
    }
    .build(metrics)
}

/// What to tell of a call that failed in the end.
pub(crate) fn told(error: &OutsideError) -> FetchError {
    if let OutsideError::Held { retry_in, .. } = error {
        return FetchError::Throttled {
            retry_after: Some(*retry_in),
        };
    }
    match error.kind() {
        Some(FaultKind::Throttled) => FetchError::Throttled {
            retry_after: error.retry_after(),
        },
        Some(FaultKind::Timeout) => unavailable("no answer in time"),
        Some(FaultKind::Transport) => unavailable("it cannot be reached"),
        Some(FaultKind::Server5xx) => unavailable("it says that it is broken"),
        Some(FaultKind::Rejected) | None => unavailable("it has failed too often just now"),
    }
}

/// A provider that gives nothing just now.
pub(crate) fn unavailable(what: &str) -> FetchError {
    FetchError::Unavailable {
        what: what.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_pause_that_the_provider_asked_for_is_told_with_its_end() {
        let retry_in = Duration::from_secs(7);
        let held = OutsideError::Held {
            target: "vault".into(),
            retry_in,
        };
        let wanted = FetchError::Throttled {
            retry_after: Some(retry_in),
        };
        assert_eq!(told(&held), wanted);
    }
}
