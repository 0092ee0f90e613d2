//! The wall clock as a parameter.
//!
//! Certificates live by the wall clock; everything that waits sleeps on tokio's monotonic one.

use std::fmt;
use std::sync::Mutex;

use jiff::{SignedDuration, Timestamp};

/// Tells the time of day.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// The time now.
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// A clock that moves when it is told to, for tests of what depends on the date.
#[derive(Debug)]
pub struct ManualClock(Mutex<Timestamp>);

impl ManualClock {
    /// A clock that stands at `now`.
    pub fn new(now: Timestamp) -> Self {
        Self(Mutex::new(now))
    }

    /// Moves the clock, and returns where it stands then. Stops at the end of representable time.
    pub fn advance(&self, by: SignedDuration) -> Timestamp {
        let mut now = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *now = now.saturating_add(by).unwrap_or(Timestamp::MAX);
        *now
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
