//! How long to wait before the next try: exponential with full jitter.
//!
//! Pure: the random number is a parameter.
//!
//! ```
//! use std::time::Duration;
//! use trustplane_process::backoff::Backoff;
//!
//! let backoff = Backoff { first: Duration::from_millis(100), max: Duration::from_secs(1) };
//! assert_eq!(backoff.ceiling(0), Duration::from_millis(100));
//! assert_eq!(backoff.ceiling(10), Duration::from_secs(1));
//! assert_eq!(backoff.delay(0, 0.5), Duration::from_millis(50));
//! ```

use std::time::Duration;

/// Exponential waiting time between two bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The longest wait after the first failure; it doubles with each further one.
    pub first: Duration,
    /// The longest wait ever.
    pub max: Duration,
}

impl Backoff {
    /// The longest wait after `failures` earlier failures in a row.
    pub fn ceiling(&self, failures: u32) -> Duration {
        let factor = 1_u32.checked_shl(failures).unwrap_or(u32::MAX);
        self.first.saturating_mul(factor).min(self.max)
    }

    /// A wait below the ceiling, chosen by `unit` from [0, 1).
    ///
    /// Full jitter spreads the tries of many callers best when all of them failed at the same moment.
    pub fn delay(&self, failures: u32, unit: f64) -> Duration {
        self.ceiling(failures).mul_f64(unit.clamp(0.0, 1.0))
    }

    /// [`Backoff::delay`] with a random number.
    pub fn jittered(&self, failures: u32) -> Duration {
        self.delay(failures, rand::random())
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(500),
            max: Duration::from_secs(30),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn never_leaves_its_bounds(first in 0_u64..10_000, max in 0_u64..100_000, failures: u32, unit in -1.0_f64..2.0) {
            let backoff = Backoff { first: Duration::from_millis(first), max: Duration::from_millis(max) };
            prop_assert!(backoff.delay(failures, unit) <= backoff.ceiling(failures));
            prop_assert!(backoff.ceiling(failures) <= backoff.max);
            prop_assert!(backoff.ceiling(failures) <= backoff.ceiling(failures.saturating_add(1)));
        }
    }
}
