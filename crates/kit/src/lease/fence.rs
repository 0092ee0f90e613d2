//! The fence: no write leaves this process after its lease has ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::clock::{BootClock, Clock};

const CLOSED: u64 = 0;
const ALWAYS: u64 = u64::MAX;

/// A write was held back: the lease of this process has ended, or has not begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this process does not hold the lease")]
pub struct Fenced;

/// Tells whether this process may write, from the deadline of its lease. A cheap clone; all clones are one fence.
///
/// The elector opens it until an instant. It closes by itself when the instant passes, also while the process is
/// stopped and nothing of it runs.
///
/// ```
/// use trustplane_kit::lease::Fence;
///
/// assert!(Fence::always().is_open()); // for a process that has no rival
/// assert!(!Fence::closed().is_open()); // until an election is won
/// ```
#[derive(Debug, Clone)]
pub struct Fence(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    clock: Arc<dyn Clock>,
    /// Nanoseconds on the clock.
    until: AtomicU64,
}

impl Fence {
    /// A fence that is always open.
    pub fn always() -> Self {
        Self::new(Arc::new(BootClock), ALWAYS)
    }

    /// A fence that is closed until an election opens it.
    pub fn closed() -> Self {
        Self::on(Arc::new(BootClock))
    }

    /// A closed fence that runs on this clock.
    pub fn on(clock: Arc<dyn Clock>) -> Self {
        Self::new(clock, CLOSED)
    }

    fn new(clock: Arc<dyn Clock>, until: u64) -> Self {
        Self(Arc::new(Inner {
            clock,
            until: AtomicU64::new(until),
        }))
    }

    /// The clock it runs on.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.0.clock
    }

    /// Opens the fence until this instant of its clock.
    pub fn open_until(&self, until: Duration) {
        let nanos = u64::try_from(until.as_nanos()).unwrap_or(ALWAYS - 1);
        self.0.until.store(nanos, Ordering::SeqCst);
    }

    /// Closes the fence now.
    pub fn close(&self) {
        self.0.until.store(CLOSED, Ordering::SeqCst);
    }

    /// Whether a write may leave now.
    pub fn is_open(&self) -> bool {
        match self.0.until.load(Ordering::SeqCst) {
            ALWAYS => true,
            until => self.0.clock.now() < Duration::from_nanos(until),
        }
    }

    /// [`Fence::is_open`] as a result.
    pub fn check(&self) -> Result<(), Fenced> {
        if self.is_open() { Ok(()) } else { Err(Fenced) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::clock::ManualClock;

    #[test]
    fn closes_by_itself_at_the_deadline() {
        let clock = Arc::new(ManualClock::default());
        let fence = Fence::on(clock.clone());
        let clone = fence.clone();
        assert_eq!(clone.check(), Err(Fenced));
        clock.advance(Duration::from_secs(100));
        fence.open_until(Duration::from_secs(110));
        assert!(clone.is_open());
        clock.advance(Duration::from_secs(10) - Duration::from_nanos(1));
        assert!(clone.is_open());
        clock.advance(Duration::from_nanos(1));
        assert_eq!(clone.check(), Err(Fenced), "the deadline itself is too late");
    }

    #[test]
    fn an_instant_beyond_the_range_is_not_for_ever_by_accident() {
        let fence = Fence::closed();
        fence.open_until(Duration::MAX);
        assert!(fence.is_open());
        fence.close();
        assert!(!fence.is_open());
    }
}
