//! The words that a sender and the task of its platform exchange.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::Trouble;
use crate::InventoryKind;
use crate::index::{Excluded, Uid};
use crate::pending::Record;
use crate::snapshot::Snapshot;

/// How a platform wants to be served.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Changes per second, in the long run.
    pub per_second: u32,
    /// Changes at once, after a quiet time.
    pub burst: u32,
    /// How often a heartbeat is sent.
    pub heartbeat: Duration,
    /// How often a snapshot is sent although nothing is known to be missing.
    pub full_sync: Option<Duration>,
    /// Namespaces whose objects are not sent.
    pub excluded: Excluded,
    /// How much memory waiting changes may take, in bytes.
    pub max_pending: usize,
}

/// A request to make.
#[derive(Debug, Clone)]
pub enum Call {
    /// A heartbeat.
    Heartbeat,
    /// A whole snapshot.
    Snapshot(Arc<Snapshot>),
    /// One change.
    Event(Record),
}

/// Which request was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answered {
    /// The heartbeat.
    Heartbeat,
    /// The snapshot.
    Snapshot,
    /// The change of this object.
    Event(Uid),
}

/// What became of a request, after the token was renewed where that could help.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The platform has it.
    Accepted,
    /// No answer, or the platform says that it is broken (408, 425, 5xx).
    Unreachable(String),
    /// The platform asks to wait (429).
    Throttled(Option<Duration>),
    /// The platform refuses the credentials (401), also with a new token.
    Unauthorized(String),
    /// The platform permits nothing to this client (403).
    Forbidden(String),
    /// The platform does not want this request (any other 4xx).
    Refused(u16, String),
}

/// What a sender says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// What is the matter with the platform.
    pub trouble: Option<Trouble>,
    /// Why the platform does not have the last snapshot, if it was refused or could not be delivered.
    pub snapshot_failed: Option<String>,
    /// Why the last heartbeat was refused, if it was.
    pub heartbeat_refused: Option<String>,
    /// When the platform last took a snapshot.
    pub last_snapshot: Option<Timestamp>,
    /// When the platform last took a snapshot or a heartbeat.
    pub last_sync: Option<Timestamp>,
    /// Whether the platform has the state of the cluster, but for the changes that wait.
    pub is_live: bool,
    /// Kinds that the last snapshot lacks.
    pub left_out: BTreeSet<InventoryKind>,
    /// How many objects the platform refused.
    pub refused: usize,
    /// Some of them by name.
    pub refused_names: Vec<String>,
    /// How many changes wait.
    pub pending: usize,
    /// How many bytes they take.
    pub pending_bytes: usize,
    /// How many changes the platform has taken.
    pub sent: u64,
    /// How many deletions found no room or were refused. A platform that sweeps learns of them by the next snapshot.
    pub lost_deletions: u64,
}
