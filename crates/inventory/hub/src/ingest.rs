//! What agents send: snapshots, single changes and heartbeats.
//!
//! - [`body`]: a request's body, inflated and within limits, piece by piece.
//! - [`splitter`]: the objects of a snapshot, cut out of the body as it arrives; [`pieces`] holds few of them at a time.
//! - [`snapshot`], [`events`], [`heartbeat`]: the three paths.
//!
//! **Guarantees.** A request is acknowledged after its commit. The body of a snapshot is never in memory as a whole. Nothing of an agent
//! reaches another cluster than the one that its client is bound to.

pub mod body;
pub mod events;
pub mod heartbeat;
pub mod pieces;
pub mod snapshot;
pub mod splitter;

use serde::Serialize;
use serde_json::Value;

use crate::record::{self, Rejection};

/// The longest name of a cluster.
const MAX_CLUSTER_NAME: usize = 253;
/// The longest version, platform and region.
const MAX_WORD: usize = 128;

/// What every accepted request is answered with.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Acknowledged {
    /// Always `accepted`.
    pub status: &'static str,
    /// How many objects the request named.
    pub objects: usize,
    /// How many of them changed something.
    pub changed: usize,
}

impl Acknowledged {
    fn new(objects: usize, changed: usize) -> Self {
        Self {
            status: "accepted",
            objects,
            changed,
        }
    }
}

/// The uid that binds a client to its cluster.
fn cluster_uid(from: &Value) -> Result<String, Rejection> {
    record::required(from, "cluster_uid", record::MAX_UID)
}
