//! How long a key waits after a failure. Pure: the random number is a parameter.

use std::time::Duration;

use trustplane_plan::Class;
use trustplane_process::backoff::Backoff;

/// The share by which a wait is longer or shorter, so that keys that failed together do not come back together.
const JITTER: f64 = 0.2;

/// How long a key waits after a failure, by the class of the error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// After a transient failure.
    pub transient: Backoff,
    /// After a failure that is our fault.
    pub bug: Backoff,
    /// After a failure that a person has to mend. The change that mends it comes as an event; this is the safety net.
    pub user: Duration,
    /// An event brings a key back before its wait is over, but not sooner than this: else a key that changes all the time
    /// would never back off. What a person has changed after an error of theirs is looked at without delay.
    pub pause: Duration,
    /// The longest wait that we let the other side ask for.
    pub longest_request: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            transient: Backoff {
                first: Duration::from_secs(1),
                max: Duration::from_secs(5 * 60),
            },
            bug: Backoff {
                first: Duration::from_secs(30),
                max: Duration::from_secs(15 * 60),
            },
            user: Duration::from_secs(60 * 60),
            pause: Duration::from_secs(1),
            longest_request: Duration::from_secs(60 * 60),
        }
    }
}

/// What follows from a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wait {
    /// When the key comes back by itself.
    pub retry: Duration,
    /// Before this, not even an event brings it back.
    pub hold: Duration,
}

impl Retry {
    /// What follows from a failure after `earlier` ones in a row, with `unit` from [0, 1) as the dice.
    pub(super) fn wait(&self, class: Class, earlier: u32, requested: Option<Duration>, unit: f64) -> Wait {
        let unit = unit.clamp(0.0, 1.0);
        let (plain, pause) = match class {
            Class::Transient => (self.transient.ceiling(earlier), self.pause),
            Class::Bug => (self.bug.ceiling(earlier), self.pause),
            Class::User => (self.user, Duration::ZERO),
        };
        let own = plain.mul_f64(1.0 - JITTER + 2.0 * JITTER * unit);
        let requested = requested.unwrap_or_default().min(self.longest_request);
        Wait {
            // Never before the time that was asked for, and not all at that very moment.
            retry: own.max(requested.mul_f64(1.0 + JITTER * unit)),
            hold: pause.min(own).max(requested),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CLASSES: [Class; 3] = [Class::Transient, Class::User, Class::Bug];

    fn seconds(class: Class, earlier: u32) -> (f64, f64) {
        let wait = |unit| {
            Retry::default()
                .wait(class, earlier, None, unit)
                .retry
                .as_secs_f64()
        };
        (wait(0.0), wait(1.0))
    }

    #[test]
    fn each_class_has_its_own_curve() {
        assert_eq!(seconds(Class::Transient, 0), (0.8, 1.2));
        assert_eq!(seconds(Class::Transient, 3), (6.4, 9.6));
        assert_eq!(seconds(Class::Transient, 40), (240.0, 360.0));
        assert_eq!(seconds(Class::Bug, 0), (24.0, 36.0));
        assert_eq!(seconds(Class::Bug, u32::MAX), (720.0, 1080.0));
        assert_eq!(seconds(Class::User, 0), seconds(Class::User, 9));
        assert_eq!(seconds(Class::User, 0), (2880.0, 4320.0));
    }

    #[test]
    fn an_absurd_request_is_cut() {
        let wait = Retry::default().wait(Class::Transient, 0, Some(Duration::MAX), 0.0);
        assert_eq!(wait.hold, Duration::from_secs(3600));
    }

    proptest! {
        #[test]
        fn a_request_is_never_undercut(which in 0_usize..3, earlier: u32, asked in 0_u64..3600, unit in 0.0_f64..1.0) {
            let asked = Duration::from_secs(asked);
            let wait = Retry::default().wait(CLASSES[which], earlier, Some(asked), unit);
            prop_assert!(wait.hold >= asked);
            prop_assert!(wait.retry >= wait.hold);
        }
    }
}
