//! Deletes exactly one object.

use http::Method;
use serde_json::json;
use trustplane_plan::{Delete, Propagation};

use super::call::{Call, JSON};
use super::error::{Attempt, WriteError};
use super::written::{Effect, note};
use super::{Writer, path};

impl Writer {
    /// Deletes the object of this uid. If it is gone already, also if another has taken its name, all is well.
    pub async fn delete(&self, delete: &Delete) -> Result<(), WriteError> {
        let attempt = Attempt::new("delete", &delete.target);
        let mut preconditions = json!({ "uid": delete.uid.as_ref() });
        if let Some(version) = &delete.resource_version {
            preconditions["resourceVersion"] = version.as_ref().into();
        }
        let options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions",
            "preconditions": preconditions,
            "propagationPolicy": propagation(delete.propagation),
        });
        let call = Call::write(Method::DELETE, path(&attempt)?, JSON, &options);
        let started = std::time::Instant::now();
        let answer = call.send(&self.client).await;
        let gone = answer.as_ref().is_ok_and(|answer| {
            let other_uid = answer.code == 409 && answer.text.contains("UID in the precondition");
            other_uid || super::is_absent(&attempt, answer)
        });
        let outcome = if gone {
            Ok(())
        } else {
            super::judge(&attempt, answer).map(drop)
        };
        self.metrics.note(self.manager, &attempt, started, &outcome);
        match (&outcome, &delete.resource_version) {
            (Ok(()), _) => note(&delete.target, Effect::Deleted(delete.uid.clone())),
            (Err(WriteError::Stale(_)), Some(seen)) => note(&delete.target, Effect::Refused(seen.clone())),
            (Err(_), _) => {}
        }
        outcome
    }
}

fn propagation(propagation: Propagation) -> &'static str {
    match propagation {
        Propagation::Background => "Background",
        Propagation::Foreground => "Foreground",
        Propagation::Orphan => "Orphan",
    }
}
