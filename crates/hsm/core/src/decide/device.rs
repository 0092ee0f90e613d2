//! What to do about an HSMDevice.

use std::time::Duration;

use serde_json::json;
use trustplane_api::hsm::conditions::event;
use trustplane_api::hsm::names::{DEVICE_LABEL, OPERATOR, TEST_MODE_ANNOTATION};
use trustplane_api::hsm::{DEVICE, HsmPoolSpec, POOL};
use trustplane_plan::{
    Convergence, Delete, Fingerprinter, Kind, Manifest, Meta, Note, OwnedBy, OwnedSet, Owner, Plan, Severity,
    Step, Target, converge, converge_set,
};

use super::{DeviceView, PoolView};
use crate::device::Device;
use crate::discovery_set;
use crate::objects::{COMPONENT_LABEL, label_value, ownership, pool_name};
use crate::pool::{device_names, grace_period};
use crate::rules::Rules;

/// Everything that a decision about an HSMDevice rests on.
#[derive(Debug, Clone)]
pub struct DeviceInput {
    /// The HSMDevice.
    pub device: DeviceView,
    /// The pool of its name ([`pool_name`]), if there is one.
    pub pool: Option<PoolView>,
    /// All pools that are for it.
    pub pools: Vec<PoolView>,
    /// DaemonSets that are for it or have the name of its own.
    pub live: Vec<(Kind, Meta)>,
    /// Whether `live` is all there is.
    pub complete: bool,
}

/// What to do about an HSMDevice: its pool and its DaemonSet.
///
/// What is wrong with it is said by its pool, so there is one even then; the DaemonSet stays as it is until that is mended.
pub fn decide_device(input: &DeviceInput, rules: &Rules, fingerprinter: &Fingerprinter) -> Plan {
    let mut plan = Plan::default();
    let meta = &input.device.meta;
    let namespace = meta.object.namespace();
    // The garbage collector removes what it owns.
    let Some(owner) = Owner::controller(&DEVICE, meta, namespace).filter(|_| !meta.is_terminating()) else {
        return plan;
    };
    pool(&mut plan, input, owner.clone(), fingerprinter);
    if let Ok(device) = &input.device.read {
        daemon_set(&mut plan, input, device, owner, rules, fingerprinter);
    }
    plan
}

fn pool(plan: &mut Plan, input: &DeviceInput, owner: Owner, fingerprinter: &Fingerprinter) {
    let name = input.device.meta.object.name();
    // The grace period is left to the schema, which says 5m, so that people can change it.
    let wish = Manifest::new(POOL, input.device.meta.object.namespace(), &pool_name(name))
        .label("app.kubernetes.io/name", OPERATOR)
        .label(COMPONENT_LABEL, "pool")
        .label(DEVICE_LABEL, &label_value(name))
        .owner(owner)
        .with("spec", json!({ "hsmDeviceRef": name }));
    let live = input.pool.as_ref();
    match converge(wish, live.map(|pool| &pool.meta), &ownership(), fingerprinter) {
        Convergence::Write(apply) => plan.push(Step::Apply(apply)),
        Convergence::Foreign { .. } => {
            let is_for_it = |pool: &PoolView| {
                device_names(&pool.spec, &pool.meta.owners)
                    .iter()
                    .any(|n| n == name)
            };
            // One that somebody made for it is as good as ours.
            if !live.is_some_and(is_for_it) {
                let text = format!("the HSMPool {} is for another HSMDevice", pool_name(name));
                plan.push(tell(&input.device.meta, event::POOL_TAKEN, &text));
            }
        }
        Convergence::Settled | Convergence::Terminating => {}
    }
}

fn daemon_set(
    plan: &mut Plan,
    input: &DeviceInput,
    device: &Device,
    owner: Owner,
    rules: &Rules,
    fingerprinter: &Fingerprinter,
) {
    let meta = &input.device.meta;
    let test_mode = meta
        .annotations
        .get(TEST_MODE_ANNOTATION)
        .is_some_and(|value| value == "true");
    let wish = discovery_set::manifest(device, owner, rules, grace(input), test_mode);
    let set = OwnedSet {
        live: &input.live,
        complete: input.complete,
        owner: OwnedBy::Reference(&meta.uid),
    };
    let (steps, held_up) = converge_set(wish.into_iter().collect(), set, &ownership(), fingerprinter);
    plan.steps.extend(steps);
    for (target, why) in held_up {
        if !matches!(why, Convergence::Foreign { .. }) {
            continue;
        }
        match controlled(input, &target) {
            Some(live) => plan
                .steps
                .extend(Delete::seen(&target.kind, live).map(Step::Delete)),
            None => {
                let text = format!("the DaemonSet {} belongs to somebody else", target.object.name());
                plan.push(tell(meta, event::DISCOVERY_TAKEN, &text));
            }
        }
    }
}

/// The live object, if this HSMDevice controls it: then the original has made it. Its selector and its mounts are others than ours,
/// and neither could be changed, so it makes room.
fn controlled<'a>(input: &'a DeviceInput, target: &Target) -> Option<&'a Meta> {
    let is_it = |(kind, live): &&(Kind, Meta)| *kind == target.kind && live.object == target.object;
    let (_, live) = input.live.iter().find(is_it)?;
    let uid = &*input.device.meta.uid;
    let ours = live
        .owners
        .iter()
        .any(|owner| owner.controller && owner.uid == uid);
    ours.then_some(live)
}

/// The shortest grace period of all its pools: each of them would take a longer silence for a loss.
fn grace(input: &DeviceInput) -> Duration {
    let graces = input.pools.iter().map(|pool| grace_period(&pool.spec));
    graces
        .min()
        .unwrap_or_else(|| grace_period(&HsmPoolSpec::default()))
}

/// Notes are told again with every look; equal ones become one event.
fn tell(device: &Meta, reason: &'static str, text: &str) -> Step {
    Step::Tell(Note::about(
        &DEVICE,
        device,
        Severity::Warning,
        reason,
        "Serve",
        text,
    ))
}

#[cfg(test)]
mod tests;
