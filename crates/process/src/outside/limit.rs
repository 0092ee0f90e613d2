//! The rate limit of a target.

use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use tokio::time::{Instant, sleep};

/// How many attempts a target gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// In the long run.
    pub per_second: NonZeroU32,
    /// At once, after a quiet time.
    pub burst: NonZeroU32,
}

#[derive(Debug)]
pub(super) struct Limiter {
    limiter: RateLimiter<NotKeyed, InMemoryState, TokioClock, NoOpMiddleware<Duration>>,
    clock: TokioClock,
}

impl Limiter {
    pub(super) fn new(limit: Limit) -> Self {
        let clock = TokioClock(Instant::now());
        let quota = Quota::per_second(limit.per_second).allow_burst(limit.burst);
        Self {
            limiter: RateLimiter::direct_with_clock(quota, clock),
            clock,
        }
    }

    /// Waits for room; gives up at once when there will be none before `until`.
    pub(super) async fn wait(&self, until: Instant) -> Result<(), ()> {
        while let Err(not_until) = self.limiter.check() {
            let wait = not_until.wait_time_from(self.clock.now());
            if Instant::now() + wait >= until {
                return Err(());
            }
            sleep(wait).await;
        }
        Ok(())
    }
}

/// The limiter's time is tokio's, so that both stand still together in a test.
#[derive(Debug, Clone, Copy)]
struct TokioClock(Instant);

impl Clock for TokioClock {
    type Instant = Duration;

    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}
