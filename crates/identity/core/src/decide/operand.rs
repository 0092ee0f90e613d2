//! The plan for one operand: its children and its status.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use trustplane_api::identity::conditions::{self, event, reason};
use trustplane_api::identity::{OperandCrStatus, OperandKind, names};
use trustplane_plan::{
    ConditionStatus, Conditions, Fingerprinter, Kind, Manifest, Note, ObjectRef, Plan, Severity, Status,
    Step, Target,
};

use super::aggregate::conditions_of;
use super::certificate::{Verdict, Wish};
use super::children::{Children, about, conflict, is_of_another_operator, mark, ownership, remove_all};
use super::facts::Facts;
use super::setup::{Setup, TRUST_DOMAIN};
use super::{NamespaceState, Needs, OperandAction, OperandInput, Seen};
use crate::Settings;

/// How soon a namespace that lacks something is looked at again: nothing tells of its changes.
const NAMESPACE_AGAIN: Duration = Duration::from_secs(30);
/// How soon an object of somebody else that has the name of a child is looked at again: without our label no watch shows it.
const CONFLICT_AGAIN: Duration = Duration::from_secs(15);

/// What has to be read before the decision, if children are to be made at all.
pub fn needs(input: &OperandInput, settings: &Settings) -> Option<Needs> {
    let operand = input.operand()?;
    if operand.meta.is_terminating() {
        return None;
    }
    let mut facts = Facts::default();
    let setup = Setup::of(input, settings, &mut facts)?;
    let mut children: Vec<Target> = setup.children.iter().map(Manifest::target).collect();
    children.extend(setup.certificate.iter().map(|(bare, _)| bare.target()));
    Some(Needs {
        workload: setup.workload(),
        bundle: ObjectRef::new(Some(&setup.shared.namespace), &setup.shared.bundle),
        namespace: setup.shared.namespace.clone(),
        children,
    })
}

/// What to do about an operand.
pub fn decide_operand(
    input: &OperandInput,
    settings: &Settings,
    fingerprinter: &Fingerprinter,
    now: Timestamp,
) -> Plan<OperandAction> {
    let Some(operand) = input.operand() else {
        let steps = match must_stay(input) {
            true => Vec::new(),
            false => remove_all(input),
        };
        return Plan {
            steps,
            ..Plan::default()
        };
    };
    let mut plan = Plan::default();
    // Nothing is made anew on the way out.
    if operand.meta.is_terminating() {
        return plan;
    }
    let mut facts = Facts::default();
    let create_only = is_create_only(operand, settings);
    let setup = Setup::of(input, settings, &mut facts);
    let cut_short = setup.is_none();
    if let Some(setup) = setup {
        let children = Children {
            input,
            uid: &operand.meta.uid,
            fingerprinter,
            create_only,
        };
        carry_on(&setup, &children, &mut facts, &mut plan, now);
    }
    note_create_only(create_only, &conditions_of(&operand.status), &mut facts);
    tell(input.operand, operand, &facts, cut_short, &mut plan, now);
    plan
}

/// Whether the CSI driver of a deleted operand has to stay for a while: the pods of the OIDC discovery provider, which go too, could not unmount
/// their volumes without it.
fn must_stay(input: &OperandInput) -> bool {
    let goes = |seen: Option<&Seen>| seen.is_none_or(|seen| seen.meta.is_terminating());
    let provider = input.operands.get(&OperandKind::SpireOidcDiscoveryProvider);
    input.operand == OperandKind::SpiffeCsiDriver
        && input.has_discovery
        && (goes(provider) || goes(input.manager.as_ref()))
}

/// The children, where nothing speaks against making them.
fn carry_on(
    setup: &Setup,
    children: &Children<'_>,
    facts: &mut Facts,
    plan: &mut Plan<OperandAction>,
    now: Timestamp,
) {
    let input = children.input;
    if let Some((reason, message)) = namespace_problem(input, setup) {
        facts.bad(conditions::NAMESPACE_READY, reason, message);
        plan.look_again_in(NAMESPACE_AGAIN);
    }
    if matches!(
        input.namespace,
        NamespaceState::Missing | NamespaceState::Forbidden
    ) {
        return;
    }
    let mut steps = children.converge(setup.children.clone(), setup.bundle.clone(), facts);
    if let Some((bare, names)) = &setup.certificate {
        steps.extend(certificate(bare, names, children, facts, plan, now));
    }
    if facts.tell_of(reason::RESOURCE_CONFLICT) {
        plan.look_again_in(CONFLICT_AGAIN);
    }
    children.rollouts(&mut steps);
    workload(setup, children, &steps, facts);
    plan.steps.extend(steps);
}

fn certificate(
    bare: &Manifest,
    names: &[String],
    children: &Children<'_>,
    facts: &mut Facts,
    plan: &mut Plan<OperandAction>,
    now: Timestamp,
) -> Option<Step<OperandAction>> {
    let (input, target) = (children.input, bare.target());
    let (type_, good) = about(input.operand, &target);
    facts.good(type_, good);
    let live = children.live(&target);
    if live.is_some_and(is_of_another_operator) {
        facts.bad(type_, reason::RESOURCE_CONFLICT, conflict(&target, None));
        return None;
    }
    let wish = Wish {
        bare: bare.clone(),
        names: names.to_vec(),
        issuing: &input.issuing,
        owner: children.uid,
        ownership: &ownership(),
        fingerprinter: children.fingerprinter,
    };
    match wish.judge(live, now) {
        Verdict::Good(time) => {
            plan.look_again_in(time);
            None
        }
        Verdict::Due(certificate) => Some(Step::Call(OperandAction::Certificate(certificate))),
        Verdict::Foreign(holder) => {
            facts.bad(type_, reason::RESOURCE_CONFLICT, conflict(&target, holder));
            None
        }
        Verdict::Terminating => {
            facts.bad(type_, reason::TERMINATING, format!("{target} is being deleted"));
            None
        }
    }
}

/// How the workload is doing, and what it waits for.
fn workload(setup: &Setup, children: &Children<'_>, steps: &[Step<OperandAction>], facts: &mut Facts) {
    let input = children.input;
    let target = setup.workload();
    let (type_, _) = about(input.operand, &target);
    let not_ready = match input.operand {
        OperandKind::SpireServer => reason::STATEFUL_SET_NOT_READY,
        OperandKind::SpireAgent | OperandKind::SpiffeCsiDriver => reason::DAEMON_SET_NOT_READY,
        OperandKind::SpireOidcDiscoveryProvider => reason::DEPLOYMENT_NOT_READY,
    };
    let is_write =
        |step: &Step<OperandAction>| matches!(step, Step::Apply(apply) if apply.manifest.target() == target);
    let health = match &input.workload {
        // What was seen is how the pods of the last spec did.
        Some(_) if steps.iter().any(is_write) => Err(format!("{target} is being changed")),
        Some(workload) => workload.health(),
        None => Err(format!("{target} is being created")),
    };
    let Err(mut message) = health else { return };
    if let Some(awaited) = awaited(input, setup) {
        message = format!("{message}; {awaited}");
    }
    facts.bad(type_, not_ready, message);
}

/// What the pods of an operand wait for, if that is known to be missing.
fn awaited(input: &OperandInput, setup: &Setup) -> Option<String> {
    let has_bundle = input.bundle.as_ref().is_some_and(|(_, has_bundle)| *has_bundle);
    let (namespace, bundle) = (&setup.shared.namespace, &setup.shared.bundle);
    let lacks = |operand: OperandKind| !input.exists(operand);
    match input.operand {
        OperandKind::SpireServer => None,
        OperandKind::SpireAgent if lacks(OperandKind::SpireServer) => {
            Some("waiting for a SpireServer".to_owned())
        }
        OperandKind::SpireAgent if !has_bundle => Some(format!(
            "waiting for SpireServer to write {} into ConfigMap {namespace}/{bundle}",
            names::BUNDLE_KEY
        )),
        OperandKind::SpiffeCsiDriver if lacks(OperandKind::SpireAgent) => {
            Some("pods get no SVID without a SpireAgent".to_owned())
        }
        OperandKind::SpireOidcDiscoveryProvider if lacks(OperandKind::SpireAgent) => {
            Some("waiting for a SpireAgent".to_owned())
        }
        OperandKind::SpireOidcDiscoveryProvider if lacks(OperandKind::SpiffeCsiDriver) => {
            Some("waiting for a SpiffeCSIDriver".to_owned())
        }
        _ => None,
    }
}

/// What is wrong with the namespace of the children, with the command that mends it.
fn namespace_problem(input: &OperandInput, setup: &Setup) -> Option<(&'static str, String)> {
    let namespace = &setup.shared.namespace;
    let privileged = matches!(
        input.operand,
        OperandKind::SpireAgent | OperandKind::SpiffeCsiDriver
    );
    match &input.namespace {
        NamespaceState::Missing => Some((
            reason::NAMESPACE_MISSING,
            format!("namespace {namespace} does not exist: kubectl create namespace {namespace}"),
        )),
        NamespaceState::Forbidden => Some((
            reason::NAMESPACE_FORBIDDEN,
            format!(
                "the manager has no rights in namespace {namespace}: create the namespace if there is none (kubectl create namespace \
                 {namespace}), and have the chart grant the rights: helm upgrade with capabilities.identity.namespaces={{{namespace}}}"
            ),
        )),
        NamespaceState::Enforces(level) if privileged && level != "privileged" => Some((
            reason::POD_SECURITY_TOO_STRICT,
            format!(
                "namespace {namespace} enforces the pod security level {level}, and the pods need directories of the node: \
                 kubectl label namespace {namespace} pod-security.kubernetes.io/enforce=privileged --overwrite"
            ),
        )),
        NamespaceState::Enforces(_) | NamespaceState::Free | NamespaceState::Unread => None,
    }
}

fn is_create_only(operand: &Seen, settings: &Settings) -> bool {
    let asked = operand.meta.annotations.get(names::CREATE_ONLY);
    settings.create_only || asked.is_some_and(|word| word.eq_ignore_ascii_case("true"))
}

/// Create-only mode is told while it is on, and once more when it has ended.
pub(super) fn note_create_only(on: bool, last: &Conditions, facts: &mut Facts) {
    let was = last
        .get(conditions::CREATE_ONLY_MODE)
        .map(|condition| condition.status);
    match (on, was) {
        (true, _) => facts.note(
            conditions::CREATE_ONLY_MODE,
            reason::CREATE_ONLY_MODE_ENABLED,
            "existing objects of operands are left as they are".to_owned(),
        ),
        (false, Some(_)) => facts.ended(conditions::CREATE_ONLY_MODE, reason::CREATE_ONLY_MODE_DISABLED),
        (false, None) => {}
    }
}

/// The status, if it says something new, and an event when Ready changes.
fn tell(
    kind: OperandKind,
    operand: &Seen,
    facts: &Facts,
    cut_short: bool,
    plan: &mut Plan<OperandAction>,
    now: Timestamp,
) {
    let last = conditions_of(&operand.status);
    let conditions = facts.conditions(&last, cut_short, operand.meta.generation, now);
    plan.steps
        .extend(ready_note(kind.kind(), operand, &last, &conditions));
    plan.steps.extend(ttl_note(kind, operand, &last, &conditions));
    let wish = serde_json::to_value(OperandCrStatus { conditions }).unwrap_or(Value::Null);
    let target = operand.meta.target(kind.kind());
    plan.steps
        .extend(Status::step(target, &operand.meta.uid, &operand.status, wish));
}

/// An event when the validities of a SpireServer begin not to come out as it says.
fn ttl_note(
    kind: OperandKind,
    operand: &Seen,
    last: &Conditions,
    now: &Conditions,
) -> Option<Step<OperandAction>> {
    let warned = |conditions: &Conditions| {
        let ttl = conditions.get(conditions::TTL_CONFIGURATION_VALID);
        ttl.filter(|ttl| ttl.reason == reason::TTL_VALIDATION_WARNING)
            .map(|ttl| ttl.message.clone())
    };
    let message = warned(now).filter(|message| warned(last).as_ref() != Some(message))?;
    Some(Step::Tell(Note::about(
        kind.kind(),
        &operand.meta,
        Severity::Warning,
        event::TTL_CONFIGURATION_WARNING,
        "Reconcile",
        &message,
    )))
}

/// An event if the reason of Ready has changed.
pub(super) fn ready_note<A>(
    kind: &Kind,
    object: &Seen,
    last: &Conditions,
    now: &Conditions,
) -> Option<Step<A>> {
    let ready = now.get(conditions::READY)?;
    if last
        .get(conditions::READY)
        .is_some_and(|last| last.reason == ready.reason)
    {
        return None;
    }
    let (severity, reason) = match (ready.status, ready.reason.as_str()) {
        (ConditionStatus::True, _) => (Severity::Normal, reason::READY),
        (_, reason::PROGRESSING) => (Severity::Normal, reason::PROGRESSING),
        _ => (Severity::Warning, reason::FAILED),
    };
    let text = match ready.message.as_str() {
        "" => "everything runs as the spec says",
        message => message,
    };
    Some(Step::Tell(Note::about(
        kind,
        &object.meta,
        severity,
        reason,
        "Reconcile",
        text,
    )))
}

/// The trust domain that the running server was started with, if there is one.
pub(super) fn running_trust_domain(input: &OperandInput) -> Option<&str> {
    let server = input.server.as_ref().filter(|server| mark().is_on(server))?;
    server.annotations.get(TRUST_DOMAIN).map(String::as_str)
}
