//! Whether a store follows the server: what may be concluded from an object that is missing or has not changed.

use std::time::{Duration, Instant};

/// How long the server may say nothing before the store no longer counts as current. It sends a bookmark about every
/// minute, so a longer silence is a connection that died without a word.
pub const LONGEST_SILENCE: Duration = Duration::from_secs(90);

/// The span in which a store has followed the server without a gap.
///
/// A store is **current** while its watch is connected and has caught up since the last break. A store that is complete but
/// not current shows the past: an object that it lacks may exist, and an object that seems silent may have changed.
///
/// Guarantees: within the span every change that the server made before `confirmed` is in the store. A break ends the span;
/// the next one begins when a list is complete or the server has sent a bookmark on the new connection. A watch that the
/// server ends in its time and that is taken up at once is no break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Currency {
    since: Instant,
    confirmed: Instant,
}

impl Currency {
    /// A span that begins now.
    pub fn new(now: Instant) -> Self {
        Self {
            since: now,
            confirmed: now,
        }
    }

    /// Since when the store has been current.
    pub fn since(&self) -> Instant {
        self.since
    }

    /// When the server was last heard.
    pub fn confirmed(&self) -> Instant {
        self.confirmed
    }

    /// The span with another sign of the server. After a longer silence than [`LONGEST_SILENCE`] a new span begins.
    #[must_use]
    pub(super) fn confirm(self, now: Instant) -> Self {
        if self.is_silent(now) {
            return Self::new(now);
        }
        Self {
            confirmed: now.max(self.confirmed),
            ..self
        }
    }

    /// Whether the server has said nothing for longer than [`LONGEST_SILENCE`].
    pub(super) fn is_silent(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.confirmed) > LONGEST_SILENCE
    }

    /// The span in which both of two stores were current.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            since: self.since.max(other.since),
            confirmed: self.confirmed.min(other.confirmed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_long_silence_of_the_server_begins_a_new_span() {
        let start = Instant::now();
        let kept = Currency::new(start).confirm(start + LONGEST_SILENCE);
        assert_eq!(kept.since(), start);
        let late = start + LONGEST_SILENCE * 2 + seconds(1);
        assert_eq!(kept.confirm(late), Currency::new(late));
        assert!(kept.is_silent(late));
    }

    #[test]
    fn two_stores_share_the_span_of_the_later_and_the_quieter() {
        let start = Instant::now();
        let one = Currency::new(start).confirm(start + seconds(50));
        let other = Currency::new(start + seconds(20)).confirm(start + seconds(40));
        let both = one.and(other);
        assert_eq!(both.since(), start + seconds(20));
        assert_eq!(both.confirmed(), start + seconds(40));
    }
}
