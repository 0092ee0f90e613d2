//! The queue of a controller: which key is worked on next, and when.
//!
//! Keys, not events, are queued, so a burst of a thousand events on one object is one piece of work. The promises:
//!
//! - **Nothing is lost.** After every [`Queue::add`] the key is worked on once more, whatever happens in between.
//! - **No key is on two workers.** A key that is added while it is worked on runs again afterwards.
//! - **Nobody starves.** [`Lane`]s have priority, but a lower lane gets its share of turns; within a lane the
//!   tenants (namespaces) take turns, so that one namespace with ten thousand objects does not hold up the others.
//! - **Failures wait.** Each key has its own backoff by the [`Class`] of its error, which a success resets. See
//!   [`Retry`].
//! - **Memory follows the keys.** An entry exists while its key is due, delayed or worked on, and no longer.
//!
//! [`Schedule`] is all of the logic, with time as a parameter; [`Queue`] is the lock and the alarm clock round it.
//! It is not for carrying data: what a worker needs to know it reads from the stores when its turn has come.
//!
//! ```
//! use std::time::Duration;
//! use trustplane_kit::queue::{Lane, Outcome, Policy, Queue};
//! use trustplane_plan::ObjectRef;
//! use trustplane_process::metrics::Metrics;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
//! let queue = Queue::new("sample", Policy::default(), 7, &Metrics::new());
//! queue.add(ObjectRef::new(Some("shop"), "greeting"), Lane::Normal);
//! queue.add(ObjectRef::new(Some("shop"), "greeting"), Lane::Normal);
//! while let Some(work) = queue.next().await {
//!     assert_eq!(work.key().name(), "greeting");
//!     work.done(Outcome::Success { look_again: None });
//!     queue.close();
//! }
//! # });
//! ```

mod handle;
mod metrics;
mod ready;
mod retry;
mod schedule;
mod state;
#[cfg(test)]
mod tests;

use std::fmt::{Debug, Display};
use std::hash::Hash;
use std::time::Duration;

use serde::Serialize;
use strum::{EnumCount, EnumIter, IntoStaticStr};
use trustplane_plan::{Class, ObjectRef};

pub use handle::{Queue, Work};
pub use retry::Retry;
pub use schedule::{Schedule, Turn};
pub use state::{BackoffState, Depths, FailingKey, QueueState, RunningKey};

/// What a controller works on: mostly the name of an object.
pub trait Key: Clone + Eq + Hash + Ord + Debug + Display + Send + Sync + 'static {
    /// Whose key it is: tenants take turns within a lane.
    fn tenant(&self) -> &str;
}

impl Key for ObjectRef {
    fn tenant(&self) -> &str {
        self.namespace().unwrap_or_default()
    }
}

/// How urgent a key is. The order is the order of service.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, IntoStaticStr, EnumIter, EnumCount,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Lane {
    /// A person or a deadline waits for it. Debounce windows do not hold it up.
    Urgent,
    /// Something has changed.
    Normal,
    /// Nothing has changed as far as we know: the initial list, the periodic look at everything.
    Bulk,
}

impl Lane {
    /// The label value in metrics.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// How a piece of work ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// All is well. The backoff of the key is reset.
    Success {
        /// When to work on it again even if nothing happens, and in which lane.
        look_again: Option<(Duration, Lane)>,
    },
    /// It failed, and will be tried again as [`Retry`] says.
    Failed {
        /// Who can mend it.
        class: Class,
        /// How long the other side asked us to wait, where it did. Not even an event shortens this.
        retry_after: Option<Duration>,
        /// When to try again, where that does not follow from the class.
        retry_in: Option<Duration>,
    },
    /// It failed before, and it was not yet time to try again. The backoff of the key stays as it is.
    StillFailing {
        /// When it is time.
        look_again: Option<Duration>,
    },
}

/// Events on one key that come in quick succession become one piece of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Debounce {
    /// How long it must be quiet before the work starts. Each event begins this time anew.
    pub quiet: Duration,
    /// How long events can hold up the work in all.
    pub longest: Duration,
}

/// The rules of one queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Whether events are gathered for a while before the work starts.
    pub debounce: Option<Debounce>,
    /// How long failures wait.
    pub retry: Retry,
    /// A lane that has work gets at least one of this many turns, however full the lanes above it are. At least 3.
    pub turns: u32,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            debounce: None,
            retry: Retry::default(),
            turns: 8,
        }
    }
}
