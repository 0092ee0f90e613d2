//! The times of an election, all made from one.

use std::time::Duration;

/// How long a lease lasts, and what follows from it. For the usual 15 s: renew every 2 s, give up after 10 s without
/// success, look every second whether the lease is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    lease: Duration,
}

impl Timing {
    /// A lease of so many seconds; 3 at least.
    pub fn for_lease(seconds: u16) -> Self {
        Self {
            lease: Duration::from_secs(u64::from(seconds.max(3))),
        }
    }

    /// For how long after the last change of the record a rival waits.
    pub fn lease(self) -> Duration {
        self.lease
    }

    /// How long after the start of its last successful write the leader stops. The rest of the lease is the margin
    /// in which what was sent last can land.
    pub fn renew_deadline(self) -> Duration {
        self.lease * 2 / 3
    }

    /// How often the leader renews.
    pub fn renew(self) -> Duration {
        self.lease * 2 / 15
    }

    /// How often a standby looks, and how soon a failed call is tried again.
    pub fn poll(self) -> Duration {
        self.lease / 15
    }

    /// How long one call may take: at least two tries fit into the renew deadline.
    pub fn call(self) -> Duration {
        self.renew_deadline() * 2 / 5
    }

    pub(super) fn lease_seconds(self) -> i32 {
        i32::try_from(self.lease.as_secs()).unwrap_or(i32::MAX)
    }
}

impl Default for Timing {
    fn default() -> Self {
        Self::for_lease(15)
    }
}
