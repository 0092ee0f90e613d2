//! How fast changes may be sent.

use std::time::{Duration, Instant};

/// A token bucket on a clock that the caller brings.
#[derive(Debug, Clone)]
pub struct Rate {
    per_second: f64,
    burst: f64,
    tokens: f64,
    at: Instant,
}

impl Rate {
    /// A full bucket.
    pub fn new(per_second: u32, burst: u32, now: Instant) -> Self {
        let burst = f64::from(burst.max(1));
        Self {
            per_second: f64::from(per_second.max(1)),
            burst,
            tokens: burst,
            at: now,
        }
    }

    /// Goes on with other numbers; what has gathered stays.
    pub fn change(&mut self, per_second: u32, burst: u32, now: Instant) {
        self.fill(now);
        let tokens = self.tokens;
        *self = Self::new(per_second, burst, now);
        self.tokens = tokens.min(self.burst);
    }

    fn fill(&mut self, now: Instant) {
        let gained = now.saturating_duration_since(self.at).as_secs_f64() * self.per_second;
        self.tokens = (self.tokens + gained).min(self.burst);
        self.at = self.at.max(now);
    }

    /// Takes one token, or answers how long it takes until there is one.
    pub fn take(&mut self, now: Instant) -> Result<(), Duration> {
        self.fill(now);
        if self.tokens >= 1.0 {
            self.tokens -= 1.0;
            return Ok(());
        }
        // Rounded up, so that a caller that waits for so long finds one.
        let wait = (1.0 - self.tokens) / self.per_second;
        Err(Duration::from_secs_f64(wait) + Duration::from_millis(1))
    }

    /// How many changes go out in this time.
    pub fn within(&self, time: Duration) -> usize {
        (self.per_second * time.as_secs_f64()) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_gives_its_burst_and_then_its_rate() {
        let start = Instant::now();
        let mut rate = Rate::new(10, 3, start);
        assert!((0..3).all(|_| rate.take(start).is_ok()));
        let wait = rate.take(start).unwrap_err();
        assert!(wait <= Duration::from_millis(102), "{wait:?}");
        assert!(rate.take(start + wait).is_ok());
        let later = start + Duration::from_secs(3600);
        assert_eq!((0..10).filter(|_| rate.take(later).is_ok()).count(), 3);
    }
}
