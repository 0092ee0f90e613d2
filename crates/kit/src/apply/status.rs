//! Writes the status of an object.

use serde_json::json;
use trustplane_plan::{Keep, Meta, Status};

use super::Writer;
use super::error::{Attempt, WriteError};

/// How often a status or a finalizer is tried when others write to the object at the same moment.
pub(super) const TRIES: usize = 3;

impl Writer {
    /// Applies a status, for this uid alone.
    ///
    /// The API server ignores the uid in the body of a status write (it takes all metadata from the live object), so the
    /// uid is checked on a live read, and the version read there ties the write to it.
    pub async fn status(&self, status: &Status) -> Result<Meta, WriteError> {
        let attempt = Attempt::new("set the status of", &status.target);
        let manager = format!("{}-status", self.manager);
        let mut outcome = Err(WriteError::Stale(attempt.clone()));
        for _ in 0..TRIES {
            let live = self.read(&attempt, &Keep::default()).await?;
            let Some(live) = live.filter(|live| live.uid == status.uid) else {
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
        outcome
    }
}
