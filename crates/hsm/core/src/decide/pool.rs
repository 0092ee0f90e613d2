//! What to do about a pool.

mod problems;
mod sharing;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::to_value;
use trustplane_api::hsm::conditions::{self, PINS, SERVED, event, phase, reason};
use trustplane_api::hsm::record::{AgentPhase, Record};
use trustplane_api::hsm::{AggregatedDevice, DEVICE, HsmPoolSpec, HsmPoolStatus, POOL};
use trustplane_plan::condition::reason::RESOLVED;
use trustplane_plan::{
    ConditionStatus, Conditions, Deadline, Meta, Note, ObjectRef, Plan, Severity, Status, Step,
};

use super::AgentPod;
use crate::consent::Consent;
use crate::device::{Device, Search};
use crate::pool::serving::Serving;
use crate::pool::status::{self, said, tokens};
use crate::pool::{
    Claim, Past, Picture, PoolDevice, Silence, Situation, bounded, device_names, grace_period, info,
    whole_second,
};

/// The most bytes of a message.
const LONGEST: usize = 900;

/// Everything that a decision about a pool rests on.
#[derive(Debug, Clone)]
pub struct PoolInput {
    /// The pool.
    pub pool: Meta,
    /// What it wants.
    pub spec: HsmPoolSpec,
    /// What its status says now, if it has one: the memory of what was.
    pub status: Option<HsmPoolStatus>,
    /// The HSMDevices that it is for ([`device_names`]), as far as they exist.
    pub devices: Vec<PoolDevice>,
    /// What other HSMDevices hold, in all namespaces that are served.
    pub claims: Vec<Claim>,
    /// The records of agents of these HSMDevices that could be read, by the name of the agent.
    pub records: BTreeMap<String, Record>,
    /// The agents that the pool waits for ([`awaited`](crate::pool::awaited)), as far as a pod of theirs may run
    /// ([`AgentPod::may_run`](crate::decide::AgentPod::may_run)).
    pub running: BTreeSet<ObjectRef>,
    /// Pods that may be of the agents of these HSMDevices.
    pub agent_pods: Vec<AgentPod>,
    /// How long reports have been silent while they could have been renewed.
    pub silence: Silence,
    /// Whether the agents of these HSMDevices may read their PIN, by the name of the HSMDevice.
    pub consents: BTreeMap<String, Consent>,
}

/// What to do about a pool: its status, and events on its HSMDevices when something is wrong.
///
/// The status is different only if a verdict is: signs of life change nothing in it. When one fails to come, the plan looks
/// again at that moment.
pub fn decide_pool(input: &PoolInput, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    if input.pool.is_terminating() {
        return plan;
    }
    let before = input.status.clone().unwrap_or_default();
    let past = Past::of(&before);
    let names = device_names(&input.spec, &input.pool.owners);
    let serving = Serving::of(input.pool.object.namespace(), &input.records, &input.agent_pods);
    let situation = Situation {
        names: &names,
        devices: &input.devices,
        claims: &input.claims,
        records: &input.records,
        running: &input.running,
        serving: &serving,
        past: &past,
        silence: &input.silence,
        grace: grace_period(&input.spec),
        now,
    };
    let picture = Picture::of(&situation, &mut plan);
    input
        .consents
        .values()
        .for_each(|consent| consent.ask_again(&mut plan));
    let round = Round {
        input,
        before: &before,
        picture: &picture,
        serving: &serving,
        now,
    };
    let tokens = tokens(&picture, &past, &input.records);
    let (status, notes) = round.status(&names, tokens, &mut plan);
    round.write(&mut plan, status);
    plan.steps.extend(notes.into_iter().map(Step::Tell));
    plan
}

struct Round<'a> {
    input: &'a PoolInput,
    before: &'a HsmPoolStatus,
    picture: &'a Picture,
    serving: &'a Serving,
    now: Timestamp,
}

impl Round<'_> {
    fn status(
        &self,
        names: &[String],
        tokens: Vec<AggregatedDevice>,
        plan: &mut Plan,
    ) -> (HsmPoolStatus, Vec<Note>) {
        let faults = self.faults(names);
        let is_on_nodes = |device: &PoolDevice| {
            !matches!(
                device.device.read,
                Ok(Device {
                    search: Search::Fixed(_),
                    ..
                })
            )
        };
        let phase = match faults.is_empty() {
            true => status::phase(self.picture, self.input.devices.iter().any(is_on_nodes)),
            false => phase::ERROR,
        };
        let unserved = self.unserved(&tokens);
        let mut status = HsmPoolStatus {
            served_devices: Some(count(
                tokens.iter().filter(|token| self.serving.has(token)).count(),
            )),
            total_devices: count(tokens.len()),
            available_devices: count(tokens.iter().filter(|token| token.available).count()),
            expected_pods: count(self.picture.expected),
            // Nodes that report are not enough: whoever reads this wants tokens that are served.
            phase: Some(match phase {
                phase::READY if !unserved.is_empty() => phase::PARTIAL.to_owned(),
                phase => phase.to_owned(),
            }),
            last_aggregation_time: self.before.last_aggregation_time,
            aggregated_devices: tokens,
            reporting_pods: self.picture.pods.clone(),
            conditions: Conditions::default(),
            // Whoever mirrors writes it.
            mirroring: None,
        };
        let mut notes = self.news(&status);
        let mut ledger = Ledger {
            round: self,
            conditions: self.before.conditions.clone(),
            notes: Vec::new(),
        };
        ledger.aggregation(phase, &faults, status.total_devices);
        ledger.problem(conditions::INVALID_DEVICE, reason::INVALID, &self.invalid());
        ledger.problem(conditions::DEVICE_WARNING, reason::WARNING, &self.warnings());
        let conflicts = [self.conflicts(), self.doubles()].concat();
        ledger.problem(conditions::CONFLICT, reason::CLAIMED, &conflicts);
        let duplicates = [self.duplicates(), self.rivals()].concat();
        ledger.problem(conditions::DUPLICATE_SERIAL, reason::DUPLICATE, &duplicates);
        let left_out = self.left_out(&status.aggregated_devices);
        ledger.problem(conditions::TOKENS_LEFT_OUT, reason::TOO_MANY, &left_out);
        ledger.problem(
            conditions::PIN_SECRET_NOT_SHARED,
            reason::NOT_SHARED,
            &self.unshared(),
        );
        ledger.pins(&status);
        ledger.served(&unserved, plan);
        notes.extend(ledger.notes);
        status.conditions = ledger.conditions;
        (status, notes)
    }

    fn write(&self, plan: &mut Plan, mut status: HsmPoolStatus) {
        let before = HsmPoolStatus {
            mirroring: None,
            ..self.before.clone()
        };
        if status == before && self.input.status.is_some() {
            return;
        }
        status.last_aggregation_time = Some(whole_second(self.now));
        let target = self.input.pool.target(&POOL);
        // Texts, numbers and times always have a JSON form. If one had none, the memory would stay as it is.
        let (Ok(live), Ok(wish)) = (to_value(&self.input.status), to_value(&status)) else {
            return;
        };
        // The status is also the memory: one that has changed since is not written over.
        plan.steps
            .extend(Status::step_from(target, &self.input.pool, &live, wish));
    }

    /// What has become of agents since.
    fn news(&self, status: &HsmPoolStatus) -> Vec<Note> {
        let past = Past::of(self.before);
        let news = status.aggregated_devices.iter().filter_map(|token| {
            let (phase, message) = said(token, &self.input.records)?;
            let device = token.device_info.get(info::DEVICE)?;
            let known = past.token(device, token.serial_number.as_deref());
            if known.is_some_and(|known| known.health == token.health) {
                return None;
            }
            let severity = severity(phase)?;
            let serial = bounded(token.serial_number.as_deref()?, 64);
            let text = format!("token {serial:?}: {}", bounded(message, LONGEST));
            let told = note(self.device(device)?, severity, phase.as_str(), &text);
            Some(told.by("hsm-agent"))
        });
        news.collect()
    }
}

/// Conditions, and what is told when they change.
struct Ledger<'a> {
    round: &'a Round<'a>,
    conditions: Conditions,
    notes: Vec<Note>,
}

impl Ledger<'_> {
    fn set(&mut self, type_: &str, status: ConditionStatus, reason: &str, message: &str) {
        let generation = self.round.input.pool.generation;
        self.conditions.set(
            type_,
            status,
            reason,
            &bounded(message, LONGEST),
            generation,
            self.round.now,
        );
    }

    fn aggregation(&mut self, phase: &str, faults: &[String], total: i32) {
        let (status, message) = match faults.is_empty() {
            true => {
                let pods = self.round.picture.fresh;
                let message = format!("Aggregated {total} devices from {pods} pods");
                (ConditionStatus::True, message)
            }
            false => (ConditionStatus::False, faults.join("; ")),
        };
        self.set(conditions::DEVICE_AGGREGATION, status, phase, &message);
    }

    /// A condition that is there while something is wrong, and stays to say that it no longer is. What is new is told to the
    /// HSMDevice.
    fn problem(&mut self, type_: &'static str, reason: &'static str, problems: &[(&PoolDevice, String)]) {
        let message = problems
            .iter()
            .map(|(_, text)| text.as_str())
            .collect::<Vec<_>>()
            .join("; ");
        let message = bounded(&message, LONGEST);
        let last = self.conditions.get(type_);
        if problems.is_empty() {
            if last.is_some() {
                self.set(type_, ConditionStatus::False, RESOLVED, "");
            }
            return;
        }
        let known = last.is_some_and(|last| last.status == ConditionStatus::True && last.message == message);
        if !known {
            let told = problems.iter();
            let told = told.map(|(device, text)| note(device, Severity::Warning, type_, text));
            self.notes.extend(told.collect::<Vec<_>>());
        }
        self.set(type_, ConditionStatus::True, reason, &message);
    }

    /// Whether all tokens that are there are served. What stands in the way is told when it has stood there for a time.
    fn served(&mut self, unserved: &[(&PoolDevice, String)], plan: &mut Plan) {
        if unserved.is_empty() {
            if self.conditions.get(SERVED).is_some() {
                self.set(SERVED, ConditionStatus::True, reason::ALL_SERVED, "");
            }
            return;
        }
        let texts: Vec<&str> = unserved.iter().map(|(_, text)| text.as_str()).collect();
        let message = bounded(&texts.join("; "), LONGEST);
        let is_false = ConditionStatus::False;
        let late = match Deadline::after_transition(&self.conditions, SERVED, is_false, STARTS) {
            Some(late) => late,
            None => Deadline::after(self.round.now, STARTS),
        };
        if !late.has_passed(self.round.now, plan) {
            return self.set(SERVED, is_false, reason::STARTING, &message);
        }
        let last = self.conditions.get(SERVED);
        let known = last.is_some_and(|last| last.reason == reason::NOT_SERVED && last.message == message);
        if !known {
            let told = unserved.iter();
            let told =
                told.map(|(device, text)| note(device, Severity::Warning, event::TOKEN_NOT_SERVED, text));
            self.notes.extend(told.collect::<Vec<_>>());
        }
        self.set(SERVED, is_false, reason::NOT_SERVED, &message);
    }

    /// What agents say of PINs. It is told as an event when the agent says it, so the conditions need no other.
    fn pins(&mut self, status: &HsmPoolStatus) {
        for phase in PINS {
            let type_ = phase.as_str();
            let tokens = status.aggregated_devices.iter();
            let texts: Vec<String> = tokens
                .filter_map(|token| {
                    let (said, message) = said(token, &self.round.input.records)?;
                    let serial = bounded(token.serial_number.as_deref()?, 64);
                    (said == phase).then(|| format!("token {serial:?}: {}", bounded(message, 256)))
                })
                .collect();
            if !texts.is_empty() {
                self.set(type_, ConditionStatus::True, type_, &texts.join("; "));
            } else if self.conditions.get(type_).is_some() {
                self.set(type_, ConditionStatus::False, RESOLVED, "");
            }
        }
    }
}

/// How long a token may take to be served before people are told: its pod has to start, and to read all its objects.
const STARTS: Duration = Duration::from_secs(60);

/// The severity of the event that tells of an agent's phase; `None` for a phase that makes no event.
fn severity(phase: AgentPhase) -> Option<Severity> {
    match phase {
        AgentPhase::Provisioning | AgentPhase::Provisioned => Some(Severity::Normal),
        AgentPhase::ProvisionSkipped | AgentPhase::ProvisionFailed => Some(Severity::Warning),
        _ => PINS.contains(&phase).then_some(Severity::Warning),
    }
}

fn note(device: &PoolDevice, severity: Severity, reason: &'static str, text: &str) -> Note {
    let meta = &device.device.meta;
    Note::about(&DEVICE, meta, severity, reason, "Aggregate", text)
}

fn count(n: usize) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
}
