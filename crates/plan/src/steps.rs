//! The plan: everything a controller means to do about one key, in order.

use std::{fmt, sync::Arc, time::Duration};

use serde_json::Value;

use crate::{Class, Classified, Kind, Manifest, Meta, Note, ObjectRef, Target};

/// Everything that a controller means to do about one key, in order, and when it wants to look again.
///
/// `A` is the controller's own type of outside call, such as "ask the vault to renew this lease". Its `Debug` form is
/// printed by a dry run, so it must not show a secret value.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan<A = Never> {
    /// The steps, carried out one after the other; the first that fails ends the plan.
    pub steps: Vec<Step<A>>,
    /// When to look again even if nothing happens.
    pub look_again: Option<Duration>,
    /// What becomes of the key when the steps have been carried out.
    pub ending: Ending,
}

/// What becomes of a key when the steps of its plan have been carried out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Ending {
    /// All is as it should be. Earlier failures are forgotten.
    #[default]
    Done,
    /// What people want cannot be had, and no step can mend that. It is counted, and tried again.
    Failed(Failure),
    /// It failed before, and the time to try again has not come: nothing is counted, and the next try is when the plan looks
    /// again.
    StillFailing,
}

/// Why what people want cannot be had. Its class drives the backoff and the labels of the metrics; the people are told by
/// the steps of the plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Failure {
    /// Who can mend it.
    pub class: Class,
    /// A CamelCase word from a fixed set.
    pub reason: &'static str,
    /// What is wrong; never a value.
    pub text: String,
    /// When it is tried again, where that does not follow from the class.
    pub retry_in: Option<Duration>,
}

impl Classified for Failure {
    fn class(&self) -> Class {
        self.class
    }

    fn reason(&self) -> &'static str {
        self.reason
    }
}

/// No outside call: the type has no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Never {}

impl<A> Default for Plan<A> {
    fn default() -> Self {
        Self {
            steps: Vec::new(),
            look_again: None,
            ending: Ending::Done,
        }
    }
}

impl<A> Plan<A> {
    /// Appends a step.
    pub fn push(&mut self, step: Step<A>) {
        self.steps.push(step);
    }

    /// Whether a step removes an object.
    pub fn removes(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Delete(_)))
    }

    /// Asks to look again after this time, or sooner if something already asked for that.
    pub fn look_again_in(&mut self, wait: Duration) {
        self.look_again = Some(self.look_again.map_or(wait, |earlier| earlier.min(wait)));
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}

/// One step of a plan.
#[derive(Debug, Clone, PartialEq)]
pub enum Step<A = Never> {
    /// Create or update an object of ours.
    Apply(Apply),
    /// Delete an object of ours.
    Delete(Delete),
    /// Write the status of an object.
    Status(Status),
    /// Add or remove a finalizer.
    Finalizer(Finalizer),
    /// Tell the user something, as an event on an object. If too many notes wait already, the plan goes on, and the key
    /// looks again later.
    Tell(Note),
    /// The same for a controller that tells it once: the call by which it remembers that is made only when the note was
    /// taken.
    TellOnce(Note, A),
    /// Call the outside.
    Call(A),
    /// Keep something in the memory of this process, also in a dry run: without it the next look would do again what this one
    /// has done.
    Remember(A),
}

/// What must be true of the live object for a write to take effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expect {
    /// Nothing of that name exists.
    Absent,
    /// Exactly this version of exactly this object.
    Seen {
        /// The uid.
        uid: Arc<str>,
        /// The version.
        resource_version: Arc<str>,
    },
}

/// What to do when another manager owns a field that we want.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conflicts {
    /// The field is ours by contract: take it.
    Force,
    /// Leave it and report the conflict.
    Report,
}

/// A server-side apply of a whole wish.
#[derive(Debug, Clone, PartialEq)]
pub struct Apply {
    /// The wish.
    pub manifest: Manifest,
    /// What must be true.
    pub expect: Expect,
    /// What to do about the fields of others.
    pub conflicts: Conflicts,
}

impl Apply {
    /// Creates an object, or fails if one of that name exists.
    pub fn create(manifest: Manifest) -> Self {
        Self {
            manifest,
            expect: Expect::Absent,
            conflicts: Conflicts::Report,
        }
    }
}

/// What happens to the children of a deleted object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// They are deleted after it.
    Background,
    /// They are deleted before it.
    Foreground,
    /// They stay.
    Orphan,
}

/// The deletion of exactly one object.
#[derive(Debug, Clone, PartialEq)]
pub struct Delete {
    /// Kind and name.
    pub target: Target,
    /// The uid: another object of the same name is safe.
    pub uid: Arc<str>,
    /// The version, where the decision rests on the content last seen.
    pub resource_version: Option<Arc<str>>,
    /// What happens to its children.
    pub propagation: Propagation,
}

impl Delete {
    /// The deletion of a live object as it was last seen, its children after it: none if it is being deleted already.
    pub fn seen(kind: &Kind, live: &Meta) -> Option<Self> {
        (!live.is_terminating()).then(|| Self {
            target: live.target(kind),
            uid: live.uid.clone(),
            resource_version: Some(live.resource_version.clone()),
            propagation: Propagation::Background,
        })
    }

    /// The children go first: the object stays until none is left.
    #[must_use]
    pub fn children_first(mut self) -> Self {
        self.propagation = Propagation::Foreground;
        self
    }
}

/// A write of the status of an object, as a whole.
#[derive(Debug, Clone, PartialEq)]
pub struct Status {
    /// Kind and name.
    pub target: Target,
    /// The uid: a new object of the same name never gets the status of the old one.
    pub uid: Arc<str>,
    /// The version, where the decision rests on what was last seen: an object that has changed since keeps its status.
    pub seen: Option<Arc<str>>,
    /// The status.
    pub status: Value,
}

impl Status {
    /// The step that brings a status from `live` to `wish`: none if they are equal.
    pub fn step<A>(target: Target, uid: &Arc<str>, live: &Value, wish: Value) -> Option<Step<A>> {
        Self::change(target, uid, None, live, wish)
    }

    /// The same where the status is also the memory of what was: it is written only if the object is still as it was seen.
    pub fn step_from<A>(target: Target, seen: &Meta, live: &Value, wish: Value) -> Option<Step<A>> {
        Self::change(target, &seen.uid, Some(&seen.resource_version), live, wish)
    }

    fn change<A>(
        target: Target,
        uid: &Arc<str>,
        seen: Option<&Arc<str>>,
        live: &Value,
        wish: Value,
    ) -> Option<Step<A>> {
        (*live != wish).then(|| {
            Step::Status(Self {
                target,
                uid: uid.clone(),
                seen: seen.cloned(),
                status: wish,
            })
        })
    }
}

/// A change of one finalizer. Those of others stay, whoever writes at the same time.
#[derive(Debug, Clone, PartialEq)]
pub struct Finalizer {
    /// Kind and name.
    pub target: Target,
    /// The uid.
    pub uid: Arc<str>,
    /// The finalizer, with its domain.
    pub name: &'static str,
    /// Whether it should be there.
    pub present: bool,
}

impl Finalizer {
    /// The step that makes a finalizer present or absent on a live object: none if it is so already, or if it cannot be
    /// added because the object is being deleted.
    pub fn step<A>(kind: &Kind, live: &crate::Meta, name: &'static str, present: bool) -> Option<Step<A>> {
        let has = live.finalizers.iter().any(|f| f == name);
        let possible = !present || !live.is_terminating();
        (has != present && possible).then(|| {
            Step::Finalizer(Self {
                target: live.target(kind),
                uid: live.uid.clone(),
                name,
                present,
            })
        })
    }
}

impl<A: fmt::Debug> fmt::Display for Plan<A> {
    /// One line a step: what `--dry-run` prints.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.steps {
            writeln!(f, "{step}")?;
        }
        if let Ending::Failed(failure) = &self.ending {
            writeln!(f, "fail: {} {failure}", failure.reason)?;
        }
        if let Some(wait) = self.look_again {
            writeln!(f, "look again in {wait:?}")?;
        }
        Ok(())
    }
}

impl<A: fmt::Debug> fmt::Display for Step<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = |kind: &Kind, object: &ObjectRef| format!("{} {object}", kind.kind);
        match self {
            Self::Apply(apply) => {
                let verb = if apply.expect == Expect::Absent {
                    "create"
                } else {
                    "update"
                };
                write!(
                    f,
                    "{verb} {}",
                    named(apply.manifest.kind(), apply.manifest.object())
                )
            }
            Self::Delete(delete) => write!(f, "delete {} (uid {})", delete.target, delete.uid),
            Self::Status(status) => write!(f, "set the status of {}", status.target),
            Self::Finalizer(change) => {
                let verb = if change.present { "add" } else { "remove" };
                write!(f, "{verb} the finalizer {} of {}", change.name, change.target)
            }
            Self::Tell(note) | Self::TellOnce(note, _) => {
                write!(f, "tell {}: {} {}", note.about, note.reason, note.text())
            }
            Self::Call(action) => write!(f, "call {action:?}"),
            Self::Remember(action) => write!(f, "remember {action:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_wish_to_look_again_wins() {
        let mut plan: Plan = Plan::default();
        plan.look_again_in(Duration::from_secs(60));
        plan.look_again_in(Duration::from_secs(5));
        plan.look_again_in(Duration::from_secs(30));
        assert_eq!(plan.look_again, Some(Duration::from_secs(5)));
    }
}
