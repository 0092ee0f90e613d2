//! Time limits that survive a restart.

use std::time::Duration;

use jiff::Timestamp;

use crate::{ConditionStatus, Conditions, Meta, Plan};

/// The end of a wait, counted from a moment that the API server keeps: so a restart neither shortens nor prolongs it, and
/// every replica means the same moment. A process that counted from when it began to wait would wait for ever if it
/// were restarted often enough.
///
/// ```
/// use std::time::Duration;
/// use trustplane_plan::{Deadline, Plan};
///
/// let started = "2026-01-01T00:00:00Z".parse()?;
/// let deadline = Deadline::after(started, Duration::from_secs(60));
/// let mut plan: Plan = Plan::default();
/// assert!(!deadline.has_passed("2026-01-01T00:00:45Z".parse()?, &mut plan));
/// assert_eq!(plan.look_again, Some(Duration::from_secs(15)));
/// # Ok::<(), jiff::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(Timestamp);

impl Deadline {
    /// This long after a moment that is kept somewhere. One that is too far away for a calendar is never reached.
    pub fn after(start: Timestamp, limit: Duration) -> Self {
        Self(start.checked_add(limit).unwrap_or(Timestamp::MAX))
    }

    /// This long after somebody asked for the deletion of an object; `None` while nobody has.
    pub fn after_deletion(object: &Meta, limit: Duration) -> Option<Self> {
        object.deleted.map(|deleted| Self::after(deleted, limit))
    }

    /// This long after a condition took this status; `None` while it has another, or none.
    pub fn after_transition(
        conditions: &Conditions,
        type_: &str,
        status: ConditionStatus,
        limit: Duration,
    ) -> Option<Self> {
        let condition = conditions
            .get(type_)
            .filter(|condition| condition.status == status)?;
        Some(Self::after(condition.last_transition_time, limit))
    }

    /// Whether the wait is over. If not, the plan asks to look again when it is.
    pub fn has_passed<A>(self, now: Timestamp, plan: &mut Plan<A>) -> bool {
        match Duration::try_from(self.0.duration_since(now)) {
            Ok(left) if !left.is_zero() => {
                plan.look_again_in(left);
                false
            }
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Keep;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn it_passes_once_and_never_comes_back() {
        let deadline = Deadline::after(at("2026-01-01T00:00:00Z"), Duration::from_secs(10));
        let passed = |now: &str| {
            let mut plan: Plan = Plan::default();
            (deadline.has_passed(at(now), &mut plan), plan.look_again)
        };
        assert_eq!(
            passed("2026-01-01T00:00:09.5Z"),
            (false, Some(Duration::from_millis(500)))
        );
        assert_eq!(passed("2026-01-01T00:00:10Z"), (true, None));
        assert_eq!(passed("2027-01-01T00:00:00Z"), (true, None));
    }

    #[test]
    fn an_endless_limit_does_not_overflow_the_calendar() {
        let mut plan: Plan = Plan::default();
        let now = at("2026-01-01T00:00:00Z");
        assert!(!Deadline::after(now, Duration::MAX).has_passed(now, &mut plan));
    }

    #[test]
    fn it_counts_from_what_the_api_server_keeps() {
        let limit = Duration::from_secs(60);
        let object = |deleted: &str| {
            let json =
                format!(r#"{{"metadata": {{"name": "a", "uid": "u", "resourceVersion": "1"{deleted}}}}}"#);
            Meta::decode(&json, &Keep::default()).unwrap()
        };
        assert_eq!(Deadline::after_deletion(&object(""), limit), None);
        assert_eq!(
            Deadline::after_deletion(&object(r#", "deletionTimestamp": "2026-01-01T00:00:00Z""#), limit),
            Some(Deadline(at("2026-01-01T00:01:00Z")))
        );

        let mut conditions = Conditions::default();
        let mut set = |status, now| conditions.set("Ready", status, "R", "", 1, at(now));
        set(ConditionStatus::False, "2026-01-01T00:00:00Z");
        set(ConditionStatus::False, "2026-01-01T00:00:30Z");
        let waits = |status| Deadline::after_transition(&conditions, "Ready", status, limit);
        assert_eq!(
            waits(ConditionStatus::False),
            Some(Deadline(at("2026-01-01T00:01:00Z")))
        );
        assert_eq!(waits(ConditionStatus::True), None);
        assert_eq!(
            Deadline::after_transition(&conditions, "Other", ConditionStatus::False, limit),
            None
        );
    }
}
