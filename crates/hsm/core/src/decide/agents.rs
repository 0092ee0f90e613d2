//! What to do about the agents of an HSMDevice.

mod action;
mod moves;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use trustplane_api::hsm::DEVICE;
use trustplane_api::hsm::conditions::event;
use trustplane_api::hsm::record::{AgentPhase, OFFICER, Outcome, Record};
use trustplane_plan::kinds::{CONFIG_MAP, DEPLOYMENT, ROLE, ROLE_BINDING, SECRET};
use trustplane_plan::{
    Convergence, Deadline, Delete, Fingerprinter, Kind, Manifest, Meta, Note, ObjectRef, OwnedBy, OwnedSet,
    Owner, Plan, Severity, Step, Target, converge_set,
};

pub use action::AgentAction;

use super::certificates::{Desk, Issuing};
use super::refused::{AgentPod, remove_pods};
use super::{DeviceView, PoolView};
use crate::agents::{Agent, agents, is_trusted};
use crate::consent::Consent;
use crate::device::Device;
use crate::objects::{
    DEVICE_NAMESPACE_LABEL, agent_of_record_key, away_name, is_for, mark, ownership, record_key_secret_name,
    so_pin_secret_name, tls_secret_name,
};
use crate::pool::{SOON, grace_period};
use crate::rules::Rules;

/// Everything that a decision about the agents of an HSMDevice rests on.
#[derive(Debug, Clone)]
pub struct AgentsInput {
    /// The name of the HSMDevice: it may be gone, and objects of it may be left.
    pub key: ObjectRef,
    /// The HSMDevice, if it exists.
    pub device: Option<DeviceView>,
    /// The pools that are for it.
    pub pools: Vec<PoolView>,
    /// Live objects of its agents, or that have their names: Deployments, ServiceAccounts, Roles, RoleBindings, ConfigMaps and
    /// Secrets. Those in other namespaces are known by a label ([`is_for`]).
    pub live: Vec<(Kind, Meta)>,
    /// Whether `live` is all there is.
    pub complete: bool,
    /// The records of its agents that could be read, by the name of the agent.
    pub records: BTreeMap<String, Record>,
    /// Pods that may be of its agents.
    pub pods: Vec<AgentPod>,
    /// Whether its agents may read their PIN.
    pub consent: Consent,
    /// What certificates are issued with.
    pub issuing: Issuing,
}

/// What to do about the agents of an HSMDevice.
///
/// An agent is made for a token that is there, and removed when its token has left the pools, which list it until the grace period
/// has passed. Its record stays if anything was written into it: a PIN that was refused must not be tried again when the token
/// comes back, and the tokens that are known are counted by it. It goes with the HSMDevice. Its key stays as long as it does. The
/// manager makes an SO-PIN when the agent has found a blank token to set up. It never deletes an SO-PIN, and never replaces one that
/// a token may have.
///
/// A PIN in another namespace is read only if its Secret consents: without that there is no right to it, and no new agent.
///
/// Certificates are replaced in time, and pods that the kubelet has refused or whose Deployment is gone are removed, whatever the
/// HSMDevice says now.
pub fn decide_agents(
    input: &AgentsInput,
    rules: &Rules,
    fingerprinter: &Fingerprinter,
    now: Timestamp,
) -> Plan<AgentAction> {
    let Some(view) = input
        .device
        .as_ref()
        .filter(|device| !device.meta.is_terminating())
    else {
        let mut plan = farewell(input);
        remove_pods(input, now, &mut plan);
        return plan;
    };
    let desk = Desk {
        issuing: &input.issuing,
        device: &view.meta,
        fingerprinter,
        now,
    };
    let mut plan = tended(input, view, rules, &desk);
    desk.renew(input, &mut plan);
    remove_pods(input, now, &mut plan);
    plan
}

/// Makes and removes agents.
fn tended(input: &AgentsInput, view: &DeviceView, rules: &Rules, desk: &Desk<'_>) -> Plan<AgentAction> {
    let mut plan = Plan::default();
    // What is there goes on as it is until the HSMDevice makes sense again.
    let Ok(device) = &view.read else {
        return plan;
    };
    let Some(owner) = Owner::controller(&DEVICE, &view.meta, Some(&device.namespace)) else {
        return plan;
    };
    let mut round = Round {
        input,
        view,
        device,
        desk,
        removable: is_known(&input.pools, desk.now, &mut plan),
        plan,
        done: BTreeSet::new(),
        wishes: Vec::new(),
    };
    input.consent.ask_again(&mut round.plan);
    for agent in agents(device, &input.pools).into_values() {
        round.tend(&agent, &owner, rules);
    }
    round.end()
}

/// Whether what the pools do not list is gone. A pool of which a part is not heard has its time first: it may have lost its
/// memory, or never had one.
fn is_known(pools: &[PoolView], now: Timestamp, plan: &mut Plan<AgentAction>) -> bool {
    let mut known = !pools.is_empty();
    for pool in pools {
        let settled = pool
            .status
            .last_aggregation_time
            .is_some_and(|last| is_trusted(&pool.status) || has_had_its_time(pool, last, now, plan));
        known &= settled;
    }
    known
}

/// Whether a pool has been as it is for its grace period, and could have told otherwise for as long.
fn has_had_its_time(pool: &PoolView, last: Timestamp, now: Timestamp, plan: &mut Plan<AgentAction>) -> bool {
    let grace = grace_period(&pool.spec);
    let passed = Deadline::after(last, grace).has_passed(now, plan);
    let left = grace.saturating_sub(pool.watched);
    if passed && !left.is_zero() {
        plan.look_again_in(left.max(SOON));
    }
    passed && left.is_zero()
}

/// The HSMDevice is gone. The garbage collector removes what it owned; what is in other namespaces had no owner.
fn farewell(input: &AgentsInput) -> Plan<AgentAction> {
    let mut plan = Plan::default();
    let left = input
        .live
        .iter()
        .filter(|(kind, live)| is_away(input, kind, live));
    let deleted = left.filter_map(|(kind, live)| Delete::seen(kind, live));
    plan.steps.extend(deleted.map(Step::Delete));
    plan
}

/// Whether a live object is one in the namespace of a PIN.
fn is_away(input: &AgentsInput, kind: &Kind, live: &Meta) -> bool {
    let namespace = input.key.namespace().unwrap_or_default();
    [ROLE, ROLE_BINDING].contains(kind)
        && live.labels.contains_key(DEVICE_NAMESPACE_LABEL)
        && is_for(live, namespace, input.key.name())
}

struct Round<'a> {
    input: &'a AgentsInput,
    view: &'a DeviceView,
    device: &'a Device,
    desk: &'a Desk<'a>,
    removable: bool,
    plan: Plan<AgentAction>,
    /// Live objects about which all is said.
    done: BTreeSet<Target>,
    wishes: Vec<Manifest>,
}

impl Round<'_> {
    fn live(&self, kind: &Kind, name: &str) -> Option<&Meta> {
        let object = ObjectRef::new(Some(&self.device.namespace), name);
        let is_it = |(k, live): &&(Kind, Meta)| k == kind && live.object == object;
        self.input.live.iter().find(is_it).map(|(_, live)| live)
    }

    fn tend(&mut self, agent: &Agent<'_>, owner: &Owner, rules: &Rules) {
        let denied = self.input.consent == Consent::Denied;
        if denied {
            self.take_back(agent);
        }
        let is_there = self.live(&DEPLOYMENT, &agent.name).is_some();
        if !is_there && (denied || !agent.ready) {
            self.keep_all(&agent.name);
            return;
        }
        let mut wishes = agent.wishes(owner, rules, self.has_so_pin(&agent.name));
        wishes.retain(|wish| !denied || !agent.is_away(wish.object()));
        let secrets = [tls_secret_name(&agent.name), record_key_secret_name(&agent.name)];
        let secrets = secrets.map(|name| self.target(&SECRET, &name));
        let mut targets = wishes.iter().map(Manifest::target).chain(secrets);
        if let Some(taken) = targets.find(|target| self.is_taken(target)) {
            let text = format!(
                "{taken} belongs to another HSMDevice, so the token {} has no agent",
                shown(&agent.serial)
            );
            self.tell(Severity::Warning, event::AGENT_TAKEN, &text);
            self.keep_all(&agent.name);
            return;
        }
        self.secrets(agent);
        for wish in wishes {
            match *wish.kind() == DEPLOYMENT {
                true => self.deploy(agent, wish),
                false => self.wishes.push(wish),
            }
        }
    }

    /// Removes the right to a PIN that is no longer shared, whatever else is known of the agent.
    fn take_back(&mut self, agent: &Agent<'_>) {
        let name = away_name(&self.device.namespace, &agent.name);
        let input = self.input;
        let rights = input
            .live
            .iter()
            .filter(|(kind, live)| live.object.name() == name && is_away(input, kind, live));
        for (kind, live) in rights {
            self.done.insert(live.target(kind));
            self.plan.steps.extend(Delete::seen(kind, live).map(Step::Delete));
        }
    }

    /// The mark is common to all HSMDevices: an object of another one is as foreign as any.
    fn is_taken(&self, target: &Target) -> bool {
        let is_it = |(kind, live): &&(Kind, Meta)| *kind == target.kind && live.object == target.object;
        let live = self.input.live.iter().find(is_it);
        live.is_some_and(|(_, live)| {
            mark().is_on(live) && !is_for(live, &self.device.namespace, &self.device.name)
        })
    }

    fn secrets(&mut self, agent: &Agent<'_>) {
        let name = ObjectRef::new(Some(&self.device.namespace), &agent.name);
        let tls = tls_secret_name(&agent.name);
        // One that is there is looked at with all others.
        if self.live(&SECRET, &tls).is_none() {
            let first = self.desk.first(name.clone());
            self.plan.steps.extend(first.map(Step::Call));
        }
        self.keep(&SECRET, &tls);
        let key = record_key_secret_name(&agent.name);
        if self.live(&SECRET, &key).is_none() {
            self.plan.push(Step::Call(self.desk.record_key(name.clone())));
        }
        self.keep(&SECRET, &key);
        let so_pin = so_pin_secret_name(&agent.name);
        if !agent.opening.auto_provision || self.live(&SECRET, &so_pin).is_some() {
            return;
        }
        if self.has_used_so_pin(&agent.name) {
            let text = format!(
                "Secret {so_pin} is gone, and the token {} may have its SO-PIN: no other one is made; restore it from a copy",
                shown(&agent.serial)
            );
            self.tell(Severity::Warning, event::SO_PIN_LOST, &text);
        } else if self.wants_so_pin(&agent.name) {
            self.plan.push(Step::Call(self.desk.so_pin(name)));
        }
    }

    /// Whether an agent has found a blank token that it may set up, and waits for an SO-PIN.
    fn wants_so_pin(&self, agent: &str) -> bool {
        let record = self.input.records.get(agent);
        let state = record.and_then(|record| record.state.as_ref());
        state.is_some_and(|state| state.phase == AgentPhase::SoPinWanted)
    }

    /// Whether the token of an agent may have an SO-PIN of ours: another one would not fit it.
    fn has_used_so_pin(&self, agent: &str) -> bool {
        let record = self.input.records.get(agent);
        let mut tries = record.iter().flat_map(|record| &record.tries);
        tries.any(|tried| tried.secret == OFFICER && tried.outcome != Outcome::Withdrawn)
    }

    /// Whether the pod of an agent mounts the Secret with its SO-PIN. A pod whose Secret was lost after use stays as it is.
    fn has_so_pin(&self, agent: &str) -> bool {
        self.live(&SECRET, &so_pin_secret_name(agent)).is_some() || self.has_used_so_pin(agent)
    }

    fn target(&self, kind: &Kind, name: &str) -> Target {
        Target {
            kind: kind.clone(),
            object: ObjectRef::new(Some(&self.device.namespace), name),
        }
    }

    fn keep(&mut self, kind: &Kind, name: &str) {
        self.done.insert(self.target(kind, name));
    }

    /// Leaves all objects of an agent as they are.
    fn keep_all(&mut self, name: &str) {
        let names = [
            name.to_owned(),
            tls_secret_name(name),
            record_key_secret_name(name),
            away_name(&self.device.namespace, name),
        ];
        let named = |live: &Meta| names.iter().any(|name| live.object.name() == name);
        let live = self.input.live.iter().filter(|(_, live)| named(live));
        let targets = live.map(|(kind, live)| live.target(kind));
        self.done.extend(targets.collect::<Vec<_>>());
    }

    fn tell(&mut self, severity: Severity, reason: &'static str, text: &str) {
        let meta = &self.view.meta;
        let note = Note::about(&DEVICE, meta, severity, reason, "Serve", text);
        self.plan.push(Step::Tell(note));
    }

    /// Whether a live object may be removed if nobody wishes it.
    fn is_loose(&self, kind: &Kind, live: &Meta) -> bool {
        let name = live.object.name();
        let is_so_pin = *kind == SECRET && name.ends_with("-so-pin");
        // Without its key a record says nothing: they go together.
        let record = match *kind == SECRET {
            true => agent_of_record_key(name).filter(|agent| self.live(&CONFIG_MAP, agent).is_some()),
            false => (*kind == CONFIG_MAP).then_some(name),
        };
        let is_empty = |agent: &str| self.input.records.get(agent) == Some(&Record::default());
        !self.done.contains(&live.target(kind)) && !is_so_pin && record.is_none_or(is_empty)
    }

    fn end(mut self) -> Plan<AgentAction> {
        let wanted: BTreeSet<Target> = self.wishes.iter().map(Manifest::target).collect();
        let is_wanted = |kind: &Kind, live: &Meta| {
            wanted
                .iter()
                .any(|target| target.kind == *kind && target.object == live.object)
        };
        let live: Vec<(Kind, Meta)> = self
            .input
            .live
            .iter()
            .filter(|(kind, live)| is_wanted(kind, live) || self.is_loose(kind, live))
            .cloned()
            .collect();
        let complete = self.input.complete && self.removable;
        let set = OwnedSet {
            live: &live,
            complete,
            owner: OwnedBy::Reference(&self.view.meta.uid),
        };
        let wishes = std::mem::take(&mut self.wishes);
        let (steps, held_up) = converge_set(wishes, set, &ownership(), self.desk.fingerprinter);
        self.plan.steps.extend(steps);
        if complete {
            let away = live
                .iter()
                .filter(|(kind, live)| is_away(self.input, kind, live) && !is_wanted(kind, live));
            let deleted = away.filter_map(|(kind, live)| Delete::seen(kind, live));
            self.plan.steps.extend(deleted.map(Step::Delete));
        }
        for (target, why) in held_up {
            if matches!(why, Convergence::Foreign { .. }) {
                let text = format!("{target} belongs to somebody else");
                self.tell(Severity::Warning, event::AGENT_TAKEN, &text);
            }
        }
        self.plan
    }
}

/// The beginning of a text that a node has reported.
fn shown(text: &str) -> String {
    format!("{:?}", text.chars().take(64).collect::<String>())
}

#[cfg(test)]
mod tests;
