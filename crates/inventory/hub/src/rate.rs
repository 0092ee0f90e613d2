//! How often a client may ask: a token bucket for each key, in bounded memory.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How many keys are remembered. A key beyond that shares one bucket with all others beyond it.
const KEYS: usize = 10_000;

/// How often one key may ask.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// At once, after a quiet time.
    pub burst: f64,
    /// In the long run.
    pub per_second: f64,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    left: f64,
    at: Instant,
}

impl Bucket {
    fn full(rate: Rate, now: Instant) -> Self {
        Self {
            left: rate.burst,
            at: now,
        }
    }

    fn refill(&mut self, rate: Rate, now: Instant) {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.left = (self.left + passed * rate.per_second).min(rate.burst);
        self.at = now;
    }

    /// Takes one, or says how long to wait for it.
    fn take(&mut self, rate: Rate, now: Instant) -> Result<(), Duration> {
        self.refill(rate, now);
        if self.left >= 1.0 {
            self.left -= 1.0;
            return Ok(());
        }
        let wait = (1.0 - self.left) / rate.per_second;
        Err(Duration::try_from_secs_f64(wait).unwrap_or(Duration::from_secs(60)))
    }
}

/// Buckets by key.
#[derive(Debug)]
pub struct Buckets<K> {
    rate: Rate,
    inner: Mutex<Inner<K>>,
}

#[derive(Debug)]
struct Inner<K> {
    buckets: HashMap<K, Bucket>,
    others: Option<Bucket>,
}

impl<K: Hash + Eq + Clone> Buckets<K> {
    /// Buckets that are all full.
    pub fn new(rate: Rate) -> Self {
        Self {
            rate,
            inner: Mutex::new(Inner {
                buckets: HashMap::new(),
                others: None,
            }),
        }
    }

    /// Lets a key ask once, or says how long it must wait.
    pub fn take(&self, key: &K, now: Instant) -> Result<(), Duration> {
        let rate = self.rate;
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bucket) = inner.buckets.get_mut(key) {
            return bucket.take(rate, now);
        }
        if inner.buckets.len() >= KEYS {
            // A bucket that is full again tells nothing.
            inner.buckets.retain(|_, bucket| {
                bucket.refill(rate, now);
                bucket.left < rate.burst
            });
        }
        if inner.buckets.len() >= KEYS {
            let others = inner.others.get_or_insert(Bucket::full(rate, now));
            return others.take(rate, now);
        }
        let mut bucket = Bucket::full(rate, now);
        let taken = bucket.take(rate, now);
        inner.buckets.insert(key.clone(), bucket);
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate {
        burst: 2.0,
        per_second: 1.0,
    };

    #[test]
    fn a_key_waits_for_its_next_turn_and_disturbs_no_other() {
        let (buckets, now) = (Buckets::new(RATE), Instant::now());
        assert_eq!(buckets.take(&"a", now), Ok(()));
        assert_eq!(buckets.take(&"a", now), Ok(()));
        assert_eq!(buckets.take(&"a", now), Err(Duration::from_secs(1)));
        assert_eq!(buckets.take(&"b", now), Ok(()));
        assert_eq!(buckets.take(&"a", now + Duration::from_secs(1)), Ok(()));
    }

    #[test]
    fn keys_beyond_the_bound_share_a_bucket() {
        let (buckets, now) = (Buckets::new(RATE), Instant::now());
        for key in 0..KEYS {
            buckets.take(&key, now).unwrap();
        }
        assert_eq!(buckets.take(&KEYS, now), Ok(()));
        assert_eq!(buckets.take(&(KEYS + 1), now), Ok(()));
        assert!(buckets.take(&(KEYS + 2), now).is_err());
        assert_eq!(buckets.inner.lock().unwrap().buckets.len(), KEYS);
        let later = now + Duration::from_secs(10);
        assert_eq!(
            buckets.take(&(KEYS + 2), later),
            Ok(()),
            "quiet keys are forgotten"
        );
        assert_eq!(buckets.inner.lock().unwrap().buckets.len(), 1);
    }
}
