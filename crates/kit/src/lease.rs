//! One leader among the replicas of a process, and no write of any other.
//!
//! The [`Elector`] is pure: it decides who leads by a Lease, on the monotonic clock of each process alone. The [`Election`]
//! drives it against the API server and opens the [`Fence`] until the deadline of the lease; the clients of the process
//! check the fence when the body of a write is sent ([`FenceLayer`]). A leader that could not renew its lease stops by
//! itself, before another may start, and then the process ends.
//!
//! It is not for work that every replica does: webhooks, reads and warm caches need no leader.
//!
//! A write that has been sent may still land after the lease has ended: the margin between the renew deadline and the end
//! of the lease makes that rare, and the preconditions of [`crate::apply`] make it harmless.

mod clock;
mod election;
mod elector;
mod fence;
mod identity;
mod layer;
#[cfg(test)]
mod model;
mod timing;

pub use clock::{BootClock, Clock, ManualClock};
pub use election::{Election, ElectionError};
pub use elector::{Elector, Record, Step, View, Written};
pub use fence::{Fence, Fenced};
pub use identity::Identity;
pub use layer::{FenceLayer, FenceService, FencedBody};
pub use timing::Timing;
