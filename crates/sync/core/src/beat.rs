//! When to look again: spread over time, and the same after a restart.

use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use jiff::Timestamp;

/// Points in time, an interval apart, that belong to one name: those of many names are spread over the interval, and they
/// are the same after a restart.
#[derive(Debug)]
pub(crate) struct Beat {
    interval: i64,
    phase: i64,
}

impl Beat {
    pub fn new(interval: Duration, name: &str) -> Self {
        let interval = i64::try_from(interval.as_millis()).unwrap_or(i64::MAX).max(1);
        Self {
            interval,
            phase: dice(name).rem_euclid(interval),
        }
    }

    /// The last point that is not after `now`.
    pub fn last(&self, now: Timestamp) -> Timestamp {
        let since = (now.as_millisecond() - self.phase).rem_euclid(self.interval);
        Timestamp::from_millisecond(now.as_millisecond() - since).unwrap_or(Timestamp::MIN)
    }

    /// The first point after `now`.
    pub fn next(&self, now: Timestamp) -> Timestamp {
        let next = self.last(now).as_millisecond().saturating_add(self.interval);
        Timestamp::from_millisecond(next).unwrap_or(Timestamp::MAX)
    }
}

/// A number that belongs to a name, by chance but always the same.
fn dice(name: &str) -> i64 {
    let hash = digest(&SHA256, name.as_bytes());
    let first = hash.as_ref().iter().take(7);
    first.fold(0, |sum, byte| sum << 8 | i64::from(*byte))
}

/// The same between nought and one.
pub(crate) fn unit(name: &str) -> f64 {
    f64::from((dice(name) >> 24) as u32) / f64::from(u32::MAX)
}

/// How long it is until then.
pub(crate) fn until(now: Timestamp, at: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(now)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beats_of_many_secrets_fill_the_interval_and_survive_a_restart() {
        let interval = Duration::from_secs(3600);
        let now = Timestamp::from_second(1_700_000_000).unwrap();
        let mut tenths = [0; 10];
        for n in 0..1000 {
            let secret = format!("shop/s{n}");
            let beat = Beat::new(interval, &secret);
            let wait = until(now, beat.next(now));
            assert!(wait > Duration::ZERO && wait <= interval);
            assert_eq!(until(beat.last(now), beat.next(now)), interval);
            assert_eq!(Beat::new(interval, &secret).next(now), beat.next(now));
            tenths[(wait.as_secs() / 361) as usize] += 1;
        }
        assert!(tenths.iter().all(|count| *count > 50), "{tenths:?}");
    }
}
