//! Writes the status of an object.

use std::sync::Arc;

use serde_json::json;
use trustplane_plan::{Keep, Meta, Status};

use super::Writer;
use super::error::{Attempt, WriteError};
use super::written::{Effect, note};

/// How often a status or a finalizer is tried when others write to the object at the same moment.
pub(super) const TRIES: usize = 3;

impl Writer {
    /// Applies a status, for this uid alone, and for this version alone if the decision rests on it.
    ///
    /// The API server ignores the uid in the body of a status write (it takes all metadata from the live object), so the
    /// uid is checked on a live read, and the version read there ties the write to it.
    pub async fn status(&self, status: &Status) -> Result<Meta, WriteError> {
        let attempt = Attempt::new("set the status of", &status.target);
        let manager = format!("{}-status", self.manager);
        // A decision about one version does not get better by being tried on the next.
        let tries = if status.seen.is_some() { 1 } else { TRIES };
        let mut outcome = Err(WriteError::Stale(attempt.clone()));
        for _ in 0..tries {
            let live = self.read(&attempt, &Keep::default()).await?;
            let is_meant = |live: &Meta| {
                let same = |seen: &Arc<str>| *seen == live.resource_version;
                live.uid == status.uid && status.seen.as_ref().is_none_or(same)
            };
            let Some(live) = live.filter(is_meant) else {
                if let Some(seen) = &status.seen {
                    note(&status.target, Effect::Refused(seen.clone()));
                }
                return Err(WriteError::Stale(attempt));
            };
            let mut body = json!({
                "apiVersion": status.target.kind.api_version(),
                "kind": status.target.kind.kind,
                "metadata": { "name": status.target.object.name(), "resourceVersion": live.resource_version.as_ref() },
                "status": status.status,
            });
            if let Some(namespace) = status.target.object.namespace() {
                body["metadata"]["namespace"] = namespace.into();
            }
            // The status of our kinds is ours by contract, condition by condition.
            outcome = self.patch(&attempt, "/status", &manager, true, &body).await;
            if !matches!(outcome, Err(WriteError::Stale(_))) {
                break;
            }
        }
        if let Ok(live) = &outcome {
            note(&status.target, Effect::Updated(live.resource_version.clone()));
        }
        outcome
    }
}
