//! Writes: carries out the steps of a plan on the API server, and decides nothing.
//!
//! Every write says what must be true for it to take effect, and the API server checks that in the same transaction. So a
//! write that was decided on an old view, is repeated after a crash, or lands after the lease has ended does no harm: it
//! fails with [`WriteError::Stale`], and the next look decides anew.
//!
//! | step | the write | what must be true |
//! |---|---|---|
//! | apply, expected absent | server-side apply with resourceVersion "1" | nothing of that name exists |
//! | apply, seen before | server-side apply with uid and resourceVersion | exactly this version of this object |
//! | delete | DELETE with preconditions | this uid, and this version if the decision rests on it |
//! | status | server-side apply on `/status` with the version just read | this uid, and this version if the decision rests on it |
//! | finalizer | JSON patch of the list | this uid, and the list as just read |
//! | inherit | merge patch of `managedFields` alone | exactly this version of this object |
//!
//! No write reads content back: answers are metadata only, and errors hold no values.
//!
//! It is not for deciding what to write: that is [`trustplane_plan::converge`]. It does not try again by itself, but for
//! finalizers and a status that rests on no version, whose writes hold whatever else happened to the object.

mod call;
mod delete;
mod error;
mod finalizer;
mod inherit;
mod kept;
mod key;
mod metrics;
mod scrub;
mod status;
mod verdict;
mod written;

use std::time::Instant;

use http::Method;
use kube::Client;
use serde::de::DeserializeOwned;
use serde_json::Value;
use trustplane_plan::{Apply, Conflicts, Expect, Keep, Kind, Meta, ObjectRef, Target};
use trustplane_process::metrics::Metrics;

use crate::read::read_object;
pub(crate) use call::{Call, JSON, MERGE_PATCH};
pub use error::{Attempt, HeldField, WriteError};
pub(crate) use kept::{kept_secret, read_kept};
pub use key::{INSTALLATION_KEY, installation_key, installation_key_rights, rehearsal_key};
use metrics::WriteMetrics;
pub(crate) use verdict::{is_absent, judge};
pub(crate) use written::{Effect, Journal, Written, note_update};

/// Writes of one controller: one field manager. A cheap clone.
///
/// ```no_run
/// # async fn example(client: kube::Client, metrics: trustplane_process::metrics::Metrics)
/// # -> Result<(), trustplane_kit::apply::WriteError> {
/// use trustplane_kit::apply::Writer;
/// use trustplane_plan::{Apply, Manifest, kinds::CONFIG_MAP};
///
/// let writer = Writer::new(client, "trustplane-greeter", &metrics);
/// let wish = Manifest::new(CONFIG_MAP, Some("shop"), "greeting")
///     .with("data", serde_json::json!({ "hello": "world" }));
/// let live = writer.apply(&Apply::create(wish)).await?;
/// println!("now at version {}", live.resource_version);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Writer {
    client: Client,
    manager: &'static str,
    metrics: WriteMetrics,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer")
            .field("manager", &self.manager)
            .finish_non_exhaustive()
    }
}

impl Writer {
    /// A writer under this field manager, such as `trustplane-sync`. No two controllers share one.
    pub fn new(client: Client, manager: &'static str, metrics: &Metrics) -> Self {
        Self {
            client,
            manager,
            metrics: WriteMetrics::shared(metrics),
        }
    }

    /// The field manager.
    pub fn manager(&self) -> &'static str {
        self.manager
    }

    /// Applies a whole wish, and returns the metadata of the object as it is now.
    pub async fn apply(&self, apply: &Apply) -> Result<Meta, WriteError> {
        let target = apply.manifest.target();
        let mut body = apply.manifest.body();
        let metadata = &mut body["metadata"];
        let verb = match &apply.expect {
            Expect::Absent => {
                // A version that no object has: without it an apply would merge into a stranger's object.
                metadata["resourceVersion"] = "1".into();
                "create"
            }
            Expect::Seen {
                uid,
                resource_version,
            } => {
                metadata["uid"] = uid.as_ref().into();
                metadata["resourceVersion"] = resource_version.as_ref().into();
                "update"
            }
        };
        let attempt = Attempt::new(verb, &target);
        let force = apply.conflicts == Conflicts::Force;
        let written = self.patch(&attempt, "", self.manager, force, &body).await;
        match written {
            // The API server compares fields before versions: who holds one of them has the object.
            Err(WriteError::Stale(attempt) | WriteError::FieldConflict { attempt, .. })
                if apply.expect == Expect::Absent =>
            {
                Err(self.who_is_there(attempt).await)
            }
            Ok(live) => {
                let effect = match &apply.expect {
                    Expect::Absent => Effect::Created(Box::new(live.clone())),
                    Expect::Seen { .. } => Effect::Updated(live.resource_version.clone()),
                };
                written::note(&target, effect);
                Ok(live)
            }
            Err(error) => {
                if let (WriteError::Stale(_), Expect::Seen { resource_version, .. }) = (&error, &apply.expect)
                {
                    written::note(&target, Effect::Refused(resource_version.clone()));
                }
                Err(error)
            }
        }
    }

    /// The metadata of a live object, not from a cache; `None` if there is no such object.
    pub async fn get_meta(
        &self,
        kind: &Kind,
        object: &ObjectRef,
        keep: &Keep,
    ) -> Result<Option<Meta>, WriteError> {
        let target = Target {
            kind: kind.clone(),
            object: object.clone(),
        };
        self.read(&Attempt::new("read", &target), keep).await
    }

    /// Some fields of a live object, by [`read_object`](crate::read::read_object).
    pub async fn get_slim<T: DeserializeOwned>(
        &self,
        kind: &Kind,
        object: &ObjectRef,
    ) -> Result<Option<T>, WriteError> {
        read_object(&self.client, kind, object).await
    }

    /// One server-side apply.
    async fn patch(
        &self,
        attempt: &Attempt,
        subresource: &str,
        manager: &str,
        force: bool,
        body: &Value,
    ) -> Result<Meta, WriteError> {
        let path = path(attempt)?;
        let force = if force { "&force=true" } else { "" };
        let path = format!("{path}{subresource}?fieldManager={manager}&fieldValidation=Strict{force}");
        let call = Call::write(Method::PATCH, path, call::APPLY, body);
        let text = self.write(attempt, call).await?;
        decode(attempt, &text, &Keep::owned_by(self.manager))
    }

    /// Sends one write and counts it.
    async fn write(&self, attempt: &Attempt, call: Call) -> Result<String, WriteError> {
        let started = Instant::now();
        let outcome = judge(attempt, call.send(&self.client).await);
        self.metrics.note(self.manager, attempt, started, &outcome);
        outcome
    }

    async fn read(&self, attempt: &Attempt, keep: &Keep) -> Result<Option<Meta>, WriteError> {
        let answer = Call::get(path(attempt)?, call::METADATA).send(&self.client).await;
        if let Ok(answer) = &answer
            && is_absent(attempt, answer)
        {
            return Ok(None);
        }
        decode(attempt, &judge(attempt, answer)?, keep).map(Some)
    }

    /// After a creation that met an object: is it one of ours that we had not seen yet, or somebody else's?
    async fn who_is_there(&self, attempt: Attempt) -> WriteError {
        match self.read(&attempt, &Keep::owned_by(self.manager)).await {
            Ok(Some(live)) if live.fields == Default::default() => WriteError::Foreign {
                holder: live.labels.get("app.kubernetes.io/managed-by").cloned(),
                attempt,
            },
            _ => WriteError::Stale(attempt),
        }
    }
}

/// The path of the object. A name that no object can have is refused before any call.
pub(crate) fn path(attempt: &Attempt) -> Result<String, WriteError> {
    let object = &attempt.target().object;
    if is_segment(object.name()) && object.namespace().is_none_or(is_segment) {
        Ok(attempt.target().kind.object_path(object))
    } else {
        Err(WriteError::Invalid {
            attempt: attempt.clone(),
            problem: "this is no name of an object".into(),
        })
    }
}

fn is_segment(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | ':' | '@' | '~');
    !name.is_empty() && name != "." && name != ".." && name.chars().all(allowed)
}

/// The metadata in an answer, if it is that of the object.
fn decode(attempt: &Attempt, text: &str, keep: &Keep) -> Result<Meta, WriteError> {
    let meta = Meta::decode(text, keep).ok();
    meta.filter(|meta| meta.object == attempt.target().object)
        .ok_or_else(|| WriteError::WrongAnswer(attempt.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_that_no_object_has_gets_no_path() {
        let is_refused = |namespace: &str, name: &str| {
            let target = Target {
                kind: trustplane_plan::kinds::SECRET,
                object: ObjectRef::new(Some(namespace), name),
            };
            matches!(
                path(&Attempt::new("read", &target)),
                Err(WriteError::Invalid { .. })
            )
        };
        assert!(!is_refused("shop", "db"));
        assert!(is_refused("shop", "db?watch=1") && is_refused("shop", "") && is_refused("../x", "db"));
    }

    #[test]
    fn a_name_never_leads_elsewhere() {
        for bad in [
            "",
            ".",
            "..",
            "a/b",
            "a?b",
            "a%2fb",
            "a#b",
            "ä",
            "a b",
            "../secrets/x",
        ] {
            assert!(!is_segment(bad), "{bad:?}");
        }
        for good in ["a", "a.b-c", "system:node:x", "v1.apps", "a_b"] {
            assert!(is_segment(good), "{good:?}");
        }
    }
}
