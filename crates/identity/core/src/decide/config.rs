//! The plan for ZTWIM: its values reach the operands, and its status says how they are doing.

use jiff::Timestamp;
use serde_json::{Value, json};
use trustplane_api::identity::conditions::{self, event, reason};
use trustplane_api::identity::{OperandKind, ZTWIM, ZtwimSpec, ZtwimStatus, names};
use trustplane_plan::{Convergence, Manifest, Meta, Note, Plan, Severity, Status, Step, converge_fields};

use super::aggregate::{OperandState, conditions_of, operands, sum_up};
use super::facts::Facts;
use super::operand::{note_create_only, ready_note};
use super::setup::{unresolved, world};
use super::{ConfigAction, ConfigInput, Seen};
use crate::Settings;
use crate::inherit::{Field, Follow, Holder, Initialise, Resolution, resolve};

/// What to do about ZTWIM.
pub fn decide_config(input: &ConfigInput, settings: &Settings, now: Timestamp) -> Plan<ConfigAction> {
    let mut plan = Plan::default();
    let Some(manager) = input.manager.as_ref() else {
        return plan;
    };
    // On its way out, nothing of it reaches anybody.
    if manager.meta.is_terminating() {
        return plan;
    }
    let resolution = resolve(&world(Some(manager), input.operands.iter()), settings);
    initialise(manager, &resolution.initialise, &mut plan);
    let writes = resolution
        .follows
        .iter()
        .filter_map(|follow| Some((follow.kind, fill(input.operands.get(&follow.kind)?, follow)?)));
    let (written, writes): (Vec<_>, Vec<_>) = writes.unzip();
    plan.steps.extend(writes);
    if !written.is_empty() {
        let generation = manager.meta.generation;
        plan.push(Step::Remember(ConfigAction::Synchronised { generation }));
    }
    let states = OperandKind::ALL.map(|kind| (kind, state(input, kind, &written)));
    tell(manager, &states, &resolution, settings, &mut plan, now);
    plan
}

/// Copies what the operands agree on into ZTWIM, and says so.
fn initialise(manager: &Seen, fields: &[Initialise], plan: &mut Plan<ConfigAction>) {
    if fields.is_empty() {
        return;
    }
    let mut spec = json!({});
    let mut say = |field: Field, value: &str| {
        for (name, value) in mirrors(field, value) {
            spec[name] = value;
        }
    };
    // What is ours already is said again: a field that is left out of an apply is given up.
    for field in Field::said_in(Holder::Ztwim) {
        let is_ours = manager.meta.fields.has_field(&["spec"], field.name());
        if let Some(value) = field.of_home(&manager.spec).filter(|_| is_ours) {
            say(field, value);
        }
    }
    for Initialise { field, value, .. } in fields {
        say(*field, value);
    }
    let wish = Manifest::new(ZTWIM, None, names::SINGLETON).with("spec", spec);
    let Convergence::Write(apply) = converge_fields(wish, &manager.meta, &current(manager)) else {
        return;
    };
    plan.push(Step::Apply(apply));
    let note = |severity, reason, text: String| {
        Step::Tell(Note::about(
            &ZTWIM,
            &manager.meta,
            severity,
            reason,
            "Configure",
            &text,
        ))
    };
    for field in fields {
        plan.push(note(
            Severity::Normal,
            event::INITIALIZING_ZTWIM,
            field.to_string(),
        ));
        plan.push(note(
            Severity::Warning,
            event::CONSIDER_MOVING_TO_ZTWIM,
            field.advice(),
        ));
    }
}

/// The fields of ZTWIM that hold a shared value: the bundle has two mirrors.
fn mirrors(field: Field, value: &str) -> Vec<(&'static str, Value)> {
    match field {
        Field::BundleConfigMap => vec![
            ("bundleConfig", json!({ "name": value })),
            ("bundleConfigMap", json!(value)),
        ],
        field => vec![(field.name(), json!(value))],
    }
}

/// What an operand lacks of what it should have of us.
fn fill(operand: &Seen, follow: &Follow) -> Option<Step<ConfigAction>> {
    // Kubernetes takes one controller only. One that somebody else has set stays, and the values follow all the same.
    let mut owners = operand.meta.owners.iter();
    let wish =
        match owners.any(|owner| owner.controller && owner.uid != follow.owner && owner.kind != ZTWIM.kind) {
            true => follow.values_alone(),
            false => follow.manifest(),
        };
    match converge_fields(wish, &operand.meta, &current(operand)) {
        Convergence::Write(apply) => Some(Step::Apply(apply)),
        Convergence::Settled | Convergence::Foreign { .. } | Convergence::Terminating => None,
    }
}

/// The live object, as far as we keep fields of it.
fn current(seen: &Seen) -> Value {
    let Meta {
        annotations, owners, ..
    } = &seen.meta;
    json!({
        "metadata": {
            "annotations": annotations,
            "ownerReferences": owners.iter().map(trustplane_plan::Owner::to_json).collect::<Vec<_>>(),
        },
        "spec": seen.spec,
    })
}

/// How an operand is doing. The status of one that this pass writes to speaks of the spec before.
fn state(input: &ConfigInput, kind: OperandKind, written: &[OperandKind]) -> OperandState {
    let Some(seen) = input.operands.get(&kind) else {
        return OperandState::default();
    };
    OperandState {
        exists: true,
        conditions: conditions_of(&seen.status),
        generation: seen.meta.generation + i64::from(written.contains(&kind)),
    }
}

fn tell(
    manager: &Seen,
    states: &[(OperandKind, OperandState)],
    resolution: &Resolution,
    settings: &Settings,
    plan: &mut Plan<ConfigAction>,
    now: Timestamp,
) {
    let spec: ZtwimSpec = serde_json::from_value(manager.spec.clone()).unwrap_or_default();
    let expected = spec
        .expected_operands
        .unwrap_or_else(|| OperandKind::ALL.to_vec());
    let mut facts = Facts::default();
    match resolution.shared() {
        Ok(_) => facts.good(conditions::CONFIGURATION_VALID, reason::CONFIGURATION_VALID),
        Err(reasons) => reasons.iter().for_each(|why| unresolved(why, &mut facts)),
    }
    sum_up(states, &expected, &mut facts);
    let last = conditions_of(&manager.status);
    note_create_only(settings.create_only, &last, &mut facts);
    let conditions = facts.conditions(&last, false, manager.meta.generation, now);
    plan.steps.extend(ready_note(&ZTWIM, manager, &last, &conditions));
    let status = ZtwimStatus {
        conditions,
        operands: operands(states, &expected),
    };
    let wish = serde_json::to_value(status).unwrap_or(Value::Null);
    let target = manager.meta.target(&ZTWIM);
    plan.steps
        .extend(Status::step(target, &manager.meta.uid, &manager.status, wish));
}
