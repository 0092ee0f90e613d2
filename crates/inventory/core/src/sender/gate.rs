//! When the platform may be called.

use std::time::{Duration, Instant};

/// So many failures in a row make an outage: then one small request at a time asks whether it is over.
const OUTAGE: u32 = 3;
/// The longest wait between two probes of a platform that cannot be reached.
const PROBE: Duration = Duration::from_secs(10);
/// The longest wait after the platform refused the credentials.
const UNAUTHORIZED: Duration = Duration::from_secs(60);
/// The wait between probes of a platform that permits nothing to this client.
const FORBIDDEN: Duration = Duration::from_secs(60);
/// A platform that asks for a longer wait is asked earlier than that.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(120);

/// What is the matter with the platform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// It cannot be reached, or it is broken.
    Unreachable(String),
    /// It refuses the credentials.
    Unauthorized(String),
    /// It permits nothing to this client.
    Forbidden(String),
}

/// Opens and closes the way to the platform.
#[derive(Debug, Default)]
pub(super) struct Gate {
    trouble: Option<Trouble>,
    /// Failures since the platform last answered as it should.
    failures: u32,
    closed_until: Option<Instant>,
}

impl Gate {
    pub(super) fn trouble(&self) -> Option<&Trouble> {
        self.trouble.as_ref()
    }

    /// Until when nothing may be sent.
    pub(super) fn closed_until(&self, now: Instant) -> Option<Instant> {
        self.closed_until.filter(|until| *until > now)
    }

    /// Whether only one small request at a time may be sent, to see whether the trouble is over.
    pub(super) fn is_probing(&self) -> bool {
        match &self.trouble {
            None => false,
            Some(Trouble::Unreachable(_)) => self.failures >= OUTAGE,
            Some(Trouble::Unauthorized(_) | Trouble::Forbidden(_)) => true,
        }
    }

    /// The platform answered as it should, or refused one request for a reason of that request.
    pub(super) fn answered(&mut self) {
        *self = Self::default();
    }

    pub(super) fn unreachable(&mut self, why: String, now: Instant) {
        self.fail(Trouble::Unreachable(why));
        if self.failures >= OUTAGE {
            self.close(doubled(self.failures - OUTAGE, PROBE), now);
        }
    }

    pub(super) fn throttled(&mut self, retry_after: Option<Duration>, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        let wait = retry_after.unwrap_or_else(|| doubled(self.failures - 1, PROBE));
        self.close(wait.min(MAX_RETRY_AFTER), now);
    }

    pub(super) fn unauthorized(&mut self, why: String, now: Instant) {
        self.fail(Trouble::Unauthorized(why));
        self.close(doubled(self.failures - 1, UNAUTHORIZED), now);
    }

    pub(super) fn forbidden(&mut self, why: String, now: Instant) {
        self.fail(Trouble::Forbidden(why));
        self.close(FORBIDDEN, now);
    }

    fn fail(&mut self, trouble: Trouble) {
        let is_same = self
            .trouble
            .as_ref()
            .is_some_and(|known| std::mem::discriminant(known) == std::mem::discriminant(&trouble));
        self.failures = if is_same {
            self.failures.saturating_add(1)
        } else {
            1
        };
        self.trouble = Some(trouble);
    }

    fn close(&mut self, wait: Duration, now: Instant) {
        let until = now + wait;
        self.closed_until = Some(self.closed_until.map_or(until, |known| known.max(until)));
    }
}

/// One second, doubled so often, up to a bound.
pub(super) fn doubled(times: u32, max: Duration) -> Duration {
    Duration::from_secs(1 << times.min(16)).min(max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_failure_closes_nothing_and_an_outage_is_probed_every_ten_seconds() {
        let (mut gate, mut now) = (Gate::default(), Instant::now());
        gate.unreachable("cut".into(), now);
        assert!(!gate.is_probing() && gate.closed_until(now).is_none());
        for _ in 0..20 {
            gate.unreachable("cut".into(), now);
            now = gate.closed_until(now).unwrap_or(now);
        }
        assert!(gate.is_probing());
        gate.unreachable("cut".into(), now);
        assert_eq!(gate.closed_until(now), Some(now + PROBE));
        gate.answered();
        assert!(!gate.is_probing() && gate.trouble().is_none());
    }

    #[test]
    fn a_wish_to_wait_is_obeyed_up_to_a_bound() {
        let (mut gate, now) = (Gate::default(), Instant::now());
        gate.throttled(Some(Duration::from_secs(7)), now);
        assert_eq!(gate.closed_until(now), Some(now + Duration::from_secs(7)));
        gate.throttled(Some(Duration::from_secs(2)), now);
        assert_eq!(
            gate.closed_until(now),
            Some(now + Duration::from_secs(7)),
            "the longer wish wins"
        );
        gate.throttled(Some(Duration::from_secs(86_400)), now);
        assert_eq!(gate.closed_until(now), Some(now + MAX_RETRY_AFTER));
        assert!(
            !gate.is_probing(),
            "a platform that is busy is no platform that is away"
        );
    }

    #[test]
    fn refused_credentials_are_tried_at_least_every_minute() {
        let (mut gate, now) = (Gate::default(), Instant::now());
        gate.unauthorized("401".into(), now);
        assert_eq!(gate.closed_until(now), Some(now + Duration::from_secs(1)));
        (0..20).for_each(|_| gate.unauthorized("401".into(), now));
        assert_eq!(gate.closed_until(now), Some(now + UNAUTHORIZED));
        assert!(gate.is_probing());
    }
}
