//! How often a namespace may make us ask: a bucket that fills at a steady pace.

use std::time::Duration;

use jiff::Timestamp;
use trustplane_api::sync::Quota;

/// The bucket of one namespace.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bucket {
    /// Questions that can be asked at once, as of `at`.
    left: f64,
    at: Timestamp,
}

impl Bucket {
    /// A full bucket.
    pub fn full(quota: Quota, now: Timestamp) -> Self {
        Self {
            left: f64::from(quota.burst),
            at: now,
        }
    }

    /// Takes one question out. If there is none, says how long it is until there is one again.
    pub fn take(&mut self, quota: Quota, now: Timestamp) -> Result<(), Duration> {
        let per_second = f64::from(quota.per_minute.max(1)) / 60.0;
        let gone = now.duration_since(self.at).as_secs_f64().max(0.0);
        self.left = gone
            .mul_add(per_second, self.left)
            .min(f64::from(quota.burst.max(1)));
        self.at = now;
        if self.left >= 1.0 {
            self.left -= 1.0;
            return Ok(());
        }
        Err(Duration::from_secs_f64((1.0 - self.left) / per_second))
    }

    /// Whether it would be full by now: then it need not be remembered.
    pub fn is_full(&self, quota: Quota, now: Timestamp) -> bool {
        let missing = f64::from(quota.burst) - self.left;
        now.duration_since(self.at).as_secs_f64() * f64::from(quota.per_minute) / 60.0 >= missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUOTA: Quota = Quota {
        per_minute: 60,
        burst: 3,
    };

    fn at(millisecond: i64) -> Timestamp {
        Timestamp::from_millisecond(millisecond).unwrap()
    }

    #[test]
    fn a_burst_is_let_through_and_then_one_at_a_time() {
        let mut bucket = Bucket::full(QUOTA, at(0));
        let taken = [0; 4].map(|_| bucket.take(QUOTA, at(0)));
        assert_eq!(taken, [Ok(()), Ok(()), Ok(()), Err(Duration::from_secs(1))]);
        assert_eq!(bucket.take(QUOTA, at(400)), Err(Duration::from_millis(600)));
        assert_eq!(bucket.take(QUOTA, at(1000)), Ok(()));
        assert!(bucket.take(QUOTA, at(1000)).is_err());
        assert!(!bucket.is_full(QUOTA, at(3900)));
        assert!(bucket.is_full(QUOTA, at(4000)));
        // It holds no more than its burst, however long nobody asked; a clock that goes back takes nothing.
        assert_eq!([0; 3].map(|_| bucket.take(QUOTA, at(90_000))), [Ok(()); 3]);
        assert!(bucket.take(QUOTA, at(80_000)).is_err());
    }

    #[test]
    fn a_tighter_quota_counts_at_once() {
        let mut bucket = Bucket::full(QUOTA, at(0));
        let tight = Quota {
            per_minute: 1,
            burst: 1,
        };
        assert_eq!(bucket.take(tight, at(0)), Ok(()));
        assert_eq!(bucket.take(tight, at(0)), Err(Duration::from_secs(60)));
    }
}
