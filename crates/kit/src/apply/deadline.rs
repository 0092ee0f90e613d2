//! Deadlines that survive a restart: counted from a time that stands on the object itself.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use trustplane_plan::Meta;

/// A time on an object plus a grace period. A process that restarts finds the same deadline again.
///
/// ```
/// use std::time::Duration;
/// use trustplane_kit::apply::Deadline;
///
/// let deadline = Deadline::after("2026-01-01T00:00:00Z".parse()?, Duration::from_secs(60));
/// assert_eq!(deadline.remaining("2026-01-01T00:00:20Z".parse()?), Duration::from_secs(40));
/// assert!(deadline.is_expired("2026-01-01T00:01:00Z".parse()?));
/// # Ok::<(), jiff::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline {
    start: Timestamp,
    grace: Duration,
}

impl Deadline {
    /// A deadline so long after a start.
    pub fn after(start: Timestamp, grace: Duration) -> Self {
        Self { start, grace }
    }

    /// Counted from the moment when somebody asked for the deletion of the object, if somebody has.
    pub fn of_deletion(live: &Meta, grace: Duration) -> Option<Self> {
        live.deleted.map(|start| Self::after(start, grace))
    }

    /// Counted from the time in an annotation, if it holds one.
    pub fn of_annotation(live: &Meta, key: &str, grace: Duration) -> Option<Self> {
        let start = live.annotations.get(key)?.parse().ok()?;
        Some(Self::after(start, grace))
    }

    /// How much time is left: none after the deadline, and never more than the grace period, so that a clock that was set
    /// back does not stretch it.
    pub fn remaining(&self, now: Timestamp) -> Duration {
        let elapsed = now.duration_since(self.start).max(SignedDuration::ZERO);
        self.grace.saturating_sub(elapsed.unsigned_abs())
    }

    /// Whether it has passed.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.remaining(now).is_zero()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_set_back_does_not_stretch_it() {
        let deadline = Deadline::after("2026-01-01T00:00:00Z".parse().unwrap(), Duration::from_secs(60));
        let before = "2025-06-01T00:00:00Z".parse().unwrap();
        assert_eq!(deadline.remaining(before), Duration::from_secs(60));
        assert!(!deadline.is_expired(before));
    }

    #[test]
    fn is_read_from_the_object() {
        let body = r#"{"metadata": {"name": "n", "deletionTimestamp": "2026-01-01T00:00:00Z",
            "annotations": {"since": "2026-01-01T00:00:30Z", "bad": "soon"}}}"#;
        let keep = trustplane_plan::Keep {
            annotations: true,
            manager: None,
        };
        let live = Meta::decode(body, &keep).unwrap();
        let now = "2026-01-01T00:00:40Z".parse().unwrap();
        let grace = Duration::from_secs(60);
        assert_eq!(
            Deadline::of_deletion(&live, grace)
                .unwrap()
                .remaining(now)
                .as_secs(),
            20
        );
        assert_eq!(
            Deadline::of_annotation(&live, "since", grace)
                .unwrap()
                .remaining(now)
                .as_secs(),
            50
        );
        assert_eq!(Deadline::of_annotation(&live, "bad", grace), None);
    }
}
