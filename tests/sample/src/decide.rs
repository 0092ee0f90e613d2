//! What to do about a mirror: a pure function.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use strum::IntoStaticStr;
use trustplane_plan::condition::READY;
use trustplane_plan::kinds::SECRET;
use trustplane_plan::{
    ConditionStatus, Conflicts, Convergence, Deadline, Finalizer, Fingerprinter, Kind, Manifest, Mark, Meta,
    Note, OwnedBy, OwnedSet, Owner, Ownership, Plan, Severity, Status, Step, converge_set,
};

use crate::api::{ADOPT, FINALIZER, MIRROR, MirrorSpec, MirrorStatus, PANIC, PATIENCE};

/// Everything that a decision about a mirror rests on. It has no `Debug` form: it holds the values of a Secret.
pub struct Input {
    /// The mirror.
    pub mirror: Meta,
    /// What it wants.
    pub spec: MirrorSpec,
    /// What its status says now.
    pub status: Value,
    /// The `data` of its source, if there is one.
    pub source: Option<Value>,
    /// Live Secrets that are its copies, or have the name of one.
    pub live: Vec<(Kind, Meta)>,
    /// Whether `live` is all there is.
    pub complete: bool,
}

/// How a mirror is doing; the word is the reason of its condition and of the event that tells of a change.
#[derive(Debug, Clone, PartialEq, Eq, IntoStaticStr)]
enum Verdict {
    InStep,
    SourceMissing,
    TargetInvalid(String),
    TargetForeign(String),
    TargetEnding(String),
}

impl Verdict {
    fn message(&self) -> String {
        match self {
            Self::InStep => "all copies are in step".to_owned(),
            Self::SourceMissing => "the source does not exist, or does not offer itself".to_owned(),
            Self::TargetInvalid(name) => format!("{name:?} cannot be the name of a copy"),
            Self::TargetForeign(name) => format!("the Secret {name:?} belongs to somebody else"),
            Self::TargetEnding(name) => format!("the Secret {name:?} is being deleted"),
        }
    }
}

/// How the copies of all mirrors are known.
pub fn mark() -> Mark {
    Mark::new("app.kubernetes.io/managed-by", "trustplane-sample")
}

/// What to do about a mirror.
pub fn decide(input: &Input, fingerprinter: &Fingerprinter, now: Timestamp) -> Plan {
    assert!(
        !input.mirror.annotations.contains_key(PANIC),
        "this mirror asks for a panic"
    );
    if input.mirror.is_terminating() {
        return farewell(input, fingerprinter, now);
    }
    let mut plan = Plan::default();
    plan.steps
        .extend(Finalizer::step(&MIRROR, &input.mirror, FINALIZER, true));
    let (steps, verdict) = copies(input, fingerprinter);
    plan.steps.extend(steps);
    tell(&mut plan, input, &verdict, now);
    plan
}

/// Removes the copies; the mirror may go when none is left, or when it has waited long enough for those that others hold.
fn farewell(input: &Input, fingerprinter: &Fingerprinter, now: Timestamp) -> Plan {
    let (steps, _) = converge_set(Vec::new(), owned(input), &ownership(input), fingerprinter);
    let mut plan = Plan {
        steps,
        ..Plan::default()
    };
    let left = input.live.iter().any(|(_, live)| is_ours(input, live));
    let done = input.complete && !left;
    if plan.is_empty() && (done || is_out_of_patience(input, now, &mut plan)) {
        plan.steps
            .extend(Finalizer::step(&MIRROR, &input.mirror, FINALIZER, false));
    }
    plan
}

fn is_out_of_patience(input: &Input, now: Timestamp, plan: &mut Plan) -> bool {
    let seconds = input.mirror.annotations.get(PATIENCE);
    let patience = seconds.and_then(|seconds| seconds.parse().ok().map(Duration::from_secs));
    patience
        .and_then(|patience| Deadline::after_deletion(&input.mirror, patience))
        .is_some_and(|deadline| deadline.has_passed(now, plan))
}

fn copies(input: &Input, fingerprinter: &Fingerprinter) -> (Vec<Step>, Verdict) {
    let names: BTreeSet<&str> = input.spec.targets.iter().map(String::as_str).collect();
    if let Some(bad) = names
        .iter()
        .find(|name| !is_name(name) || **name == input.spec.source)
    {
        return (Vec::new(), Verdict::TargetInvalid((*bad).to_owned()));
    }
    // The mark is common to all mirrors: a copy of another one is as foreign as any.
    let taken = |(_, live): &&(Kind, Meta)| {
        let other = live
            .owners
            .iter()
            .any(|owner| owner.controller && *owner.uid != *input.mirror.uid);
        other && names.contains(live.object.name())
    };
    if let Some((_, live)) = input.live.iter().find(taken) {
        return (Vec::new(), Verdict::TargetForeign(live.object.name().to_owned()));
    }
    // Without a source the copies stay as they are: an outage never empties a Secret.
    let Some(data) = &input.source else {
        return (Vec::new(), Verdict::SourceMissing);
    };
    let namespace = input.mirror.object.namespace();
    let wish = |name: &&str| {
        let wish = Manifest::new(SECRET, namespace, name).with("data", data.clone());
        match Owner::controller(&MIRROR, &input.mirror, namespace) {
            Some(owner) => wish.owner(owner),
            None => wish,
        }
    };
    let wishes = names.iter().map(wish).collect();
    let (steps, held_up) = converge_set(wishes, owned(input), &ownership(input), fingerprinter);
    let verdict = match held_up.into_iter().next() {
        Some((target, Convergence::Terminating)) => Verdict::TargetEnding(target.object.name().to_owned()),
        Some((target, _)) => Verdict::TargetForeign(target.object.name().to_owned()),
        None => Verdict::InStep,
    };
    (steps, verdict)
}

/// The status, and an event when it says something new.
fn tell(plan: &mut Plan, input: &Input, verdict: &Verdict, now: Timestamp) {
    let last: MirrorStatus = serde_json::from_value(input.status.clone()).unwrap_or_default();
    let ready = *verdict == Verdict::InStep;
    let (condition, severity) = match ready {
        true => (ConditionStatus::True, Severity::Normal),
        false => (ConditionStatus::False, Severity::Warning),
    };
    let (reason, message): (&'static str, String) = (verdict.into(), verdict.message());
    let mut status = last.clone();
    status
        .conditions
        .set(READY, condition, reason, &message, input.mirror.generation, now);
    if ready {
        status.copies = input
            .spec
            .targets
            .iter()
            .collect::<BTreeSet<_>>()
            .len()
            .try_into()
            .unwrap_or(i64::MAX);
    }
    // Texts and numbers always have a JSON form.
    let wish = serde_json::to_value(&status).unwrap_or_default();
    plan.steps.extend(Status::step(
        input.mirror.target(&MIRROR),
        &input.mirror.uid,
        &input.status,
        wish,
    ));
    let news = last
        .conditions
        .get(READY)
        .is_none_or(|last| last.reason != reason);
    if news {
        let note = Note::about(&MIRROR, &input.mirror, severity, reason, "Mirror", &message);
        plan.push(Step::Tell(note));
    }
}

fn ownership(input: &Input) -> Ownership {
    Ownership {
        mark: mark(),
        adopt: input
            .mirror
            .annotations
            .get(ADOPT)
            .is_some_and(|value| value == "true"),
        conflicts: Conflicts::Force,
    }
}

fn owned(input: &Input) -> OwnedSet<'_> {
    OwnedSet {
        live: &input.live,
        complete: input.complete,
        owner: OwnedBy::Reference(&input.mirror.uid),
    }
}

fn is_ours(input: &Input, live: &Meta) -> bool {
    mark().is_on(live)
        && live
            .owners
            .iter()
            .any(|owner| owner.controller && *owner.uid == *input.mirror.uid)
}

/// What the API server takes as the name of a Secret.
fn is_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    name.len() <= 253
        && name
            .split('.')
            .all(|label| label.starts_with(edge) && label.ends_with(edge))
        && name.chars().all(allowed)
}

#[cfg(test)]
mod tests;
