//! When the platform may be called.

use std::time::{Duration, Instant};

/// So many failures in a row make an outage: then one small request at a time asks whether it is over.
pub(super) const OUTAGE: u32 = 3;
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
    /// What people are told. A single failure is not told: with each success after it, a status would be written twice.
    pub(super) fn trouble(&self) -> Option<&Trouble> {
        self.trouble.as_ref().filter(|_| self.is_probing())
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
        self.fail(Trouble::Unreachable(why), now);
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
        self.fail(Trouble::Unauthorized(why), now);
        self.close(doubled(self.failures - 1, UNAUTHORIZED), now);
    }

    pub(super) fn forbidden(&mut self, why: String, now: Instant) {
        self.fail(Trouble::Forbidden(why), now);
        self.close(FORBIDDEN, now);
    }

    /// Requests that were on their way when the gate closed count as one failure.
    fn fail(&mut self, trouble: Trouble, now: Instant) {
        let is_same = self
            .trouble
            .as_ref()
            .is_some_and(|known| std::mem::discriminant(known) == std::mem::discriminant(&trouble));
        self.failures = match (is_same, self.closed_until(now)) {
            (true, Some(_)) => self.failures,
            (true, None) => self.failures.saturating_add(1),
            (false, _) => 1,
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
    fn an_outage_is_probed_every_ten_seconds_and_a_single_failure_is_not() {
        let (mut gate, mut now) = (Gate::default(), Instant::now());
        gate.unreachable("cut".into(), now);
        assert!(!gate.is_probing() && gate.closed_until(now).is_none() && gate.trouble().is_none());
        for _ in 0..20 {
            gate.unreachable("cut".into(), now);
            now = gate.closed_until(now).unwrap_or(now);
        }
        assert!(gate.is_probing() && gate.trouble().is_some());
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
    fn a_platform_that_forbids_everything_is_probed_each_minute() {
        let (mut gate, now) = (Gate::default(), Instant::now());
        for _ in 0..5 {
            gate.forbidden("403".into(), now);
            assert_eq!(gate.closed_until(now), Some(now + FORBIDDEN));
        }
        assert!(gate.is_probing() && gate.trouble().is_some());
    }

    #[test]
    fn refused_credentials_are_tried_at_least_every_minute() {
        let (mut gate, now) = (Gate::default(), Instant::now());
        // As many as may be on their way at once.
        (0..16).for_each(|_| gate.unauthorized("401".into(), now));
        assert_eq!(gate.closed_until(now), Some(now + Duration::from_secs(1)));
        let mut now = now;
        for _ in 0..20 {
            now = gate.closed_until(now).unwrap();
            gate.unauthorized("401".into(), now);
        }
        assert_eq!(gate.closed_until(now), Some(now + UNAUTHORIZED));
        assert!(gate.is_probing());
    }
}
