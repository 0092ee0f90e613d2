//! The one retry layer.

use std::time::Duration;

use super::fault::Fault;
use crate::backoff::Backoff;

/// How often a call is tried, and how long it waits in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// Attempts in all, the first included.
    pub attempts: u32,
    /// The wait between them, with full jitter.
    pub backoff: Backoff,
}

impl Retry {
    /// Never a second attempt: for calls that must not happen twice.
    pub const NEVER: Self = Self {
        attempts: 1,
        backoff: Backoff {
            first: Duration::ZERO,
            max: Duration::ZERO,
        },
    };

    /// How long to wait after attempt `number` failed; `None` to give up.
    ///
    /// What the target asked for is the least wait, and the jitter comes on top: everybody was told the same.
    pub(super) fn wait(&self, number: u32, fault: &Fault, unit: f64) -> Option<Duration> {
        if number >= self.attempts || !fault.kind().is_transient() {
            return None;
        }
        let asked = fault.retry_after().unwrap_or_default();
        Some(asked.saturating_add(self.backoff.delay(number - 1, unit)))
    }
}

impl Default for Retry {
    fn default() -> Self {
        let backoff = Backoff {
            first: Duration::from_millis(200),
            max: Duration::from_secs(5),
        };
        Self { attempts: 4, backoff }
    }
}
