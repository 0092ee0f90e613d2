//! What to do about one `ObsykAgent`: run or end its stream, and what its status says.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use trustplane_api::inventory::{
    DEFAULT_SYNC_INTERVAL, OBSYK_AGENT, ObsykAgentSpec, ObsykAgentStatus, condition, reason,
};
use trustplane_plan::{ConditionStatus, Meta, Note, ObjectRef, Plan, Severity, Status, Step};

use crate::InventoryKind;
use crate::sender::{Report, Trouble};

/// Everything that a decision about an agent rests on.
#[derive(Debug)]
pub enum Input {
    /// The object of this name does not exist.
    Gone(ObjectRef),
    /// The object exists.
    Agent(Box<Agent>),
}

/// An agent, and what is known of its stream.
#[derive(Debug)]
pub struct Agent {
    /// The metadata of the object.
    pub meta: Meta,
    /// Its spec.
    pub spec: ObsykAgentSpec,
    /// Its status as the API server has it.
    pub status: Value,
    /// Whether its credentials and settings can be used.
    pub readiness: Readiness,
    /// What its stream runs with, if it runs.
    pub running: Option<String>,
    /// What the stream says of itself, if it runs.
    pub report: Option<Report>,
    /// By what platforms know the cluster, if that was read.
    pub cluster_uid: Option<String>,
    /// How many objects of each kind there are.
    pub counts: BTreeMap<InventoryKind, usize>,
    /// Why kinds cannot be read.
    pub unreadable: BTreeMap<InventoryKind, String>,
}

/// Whether an agent can run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Readiness {
    /// It can: what it would run with, as a text that changes with each setting and each credential.
    Ready(String),
    /// Its Secret was not read yet.
    Waiting,
    /// Its credentials cannot be used. The text names the Secret, its key and the rule.
    BadCredentials(String),
    /// A field of its spec cannot be used. The text names the field and the rule.
    BadSpec(String),
}

/// What is done besides writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Let the stream of this agent run with its present settings and credentials.
    Run(ObjectRef),
    /// End the stream of this agent.
    Stop(ObjectRef),
}

/// What to do about an agent.
pub fn decide(input: &Input, now: Timestamp) -> Plan<Action> {
    let mut plan = Plan::default();
    let agent = match input {
        Input::Gone(object) => {
            plan.push(Step::Call(Action::Stop(object.clone())));
            return plan;
        }
        Input::Agent(agent) => agent,
    };
    let object = &agent.meta.object;
    match &agent.readiness {
        Readiness::Ready(wanted) if agent.running.as_ref() != Some(wanted) => {
            plan.push(Step::Call(Action::Run(object.clone())));
        }
        Readiness::Ready(_) | Readiness::Waiting => {}
        Readiness::BadCredentials(_) | Readiness::BadSpec(_) if agent.running.is_some() => {
            plan.push(Step::Call(Action::Stop(object.clone())));
        }
        Readiness::BadCredentials(_) | Readiness::BadSpec(_) => {}
    }
    let live: ObsykAgentStatus = serde_json::from_value(agent.status.clone()).unwrap_or_default();
    if live.observed_generation != Some(agent.meta.generation) {
        plan.steps.extend(warning(agent).map(Step::Tell));
    }
    let every = agent.spec.heartbeat().unwrap_or(DEFAULT_SYNC_INTERVAL);
    let wish = status(agent, &live, every, now);
    let target = agent.meta.target(&OBSYK_AGENT);
    // A struct of texts and numbers can be written.
    let wish = serde_json::to_value(wish).unwrap_or_default();
    plan.steps
        .extend(Status::step(target, &agent.meta.uid, &agent.status, wish));
    plan.look_again_in(every);
    plan
}

/// What is permitted but should be seen, told once for each generation of the spec.
fn warning(agent: &Agent) -> Option<Note> {
    let is_plain = agent.spec.platform_url.starts_with("http://");
    is_plain.then(|| {
        let text = "spec.platformURL: plain http sends the token and the inventory unencrypted; use https";
        Note::about(
            &OBSYK_AGENT,
            &agent.meta,
            Severity::Warning,
            "PlainHTTP",
            "Sync",
            text,
        )
    })
}

/// The status. What moves all the time, counts and the time of the last sync, moves when something else does, and counts also once
/// in an interval.
fn status(agent: &Agent, live: &ObsykAgentStatus, every: Duration, now: Timestamp) -> ObsykAgentStatus {
    let report = agent.report.clone().unwrap_or_default();
    let generation = agent.meta.generation;
    let mut conditions = live.conditions.clone();
    for (type_, status, reason, message) in [
        available(agent, &report),
        syncing(agent, &report),
        degraded(agent, &report),
    ] {
        conditions.set(type_, status, reason, &message, generation, now);
    }
    let quiet = ObsykAgentStatus {
        cluster_uid: live.cluster_uid.clone().or_else(|| agent.cluster_uid.clone()),
        conditions,
        last_snapshot_time: report.last_snapshot.map(whole).or(live.last_snapshot_time),
        observed_generation: Some(generation),
        ..live.clone()
    };
    let counts = counts(agent, live);
    let is_due = live.last_sync_time.is_none_or(|last| {
        now.duration_since(last) >= SignedDuration::try_from(every).unwrap_or(SignedDuration::MAX)
    });
    if quiet == *live && (counts == live.resource_counts || !is_due) {
        return quiet;
    }
    ObsykAgentStatus {
        resource_counts: counts,
        last_sync_time: report.last_sync.map(whole).or(live.last_sync_time),
        ..quiet
    }
}

/// The API server keeps whole seconds; more would differ from what it answers.
fn whole(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// Counts of kinds that were read; the others stay as they were.
fn counts(agent: &Agent, live: &ObsykAgentStatus) -> BTreeMap<String, i32> {
    let mut counts = live.resource_counts.clone();
    for (kind, count) in &agent.counts {
        match i32::try_from(*count).unwrap_or(i32::MAX) {
            0 => drop(counts.remove(kind.count())),
            count => drop(counts.insert(kind.count().to_owned(), count)),
        }
    }
    counts
}

/// Why a kind is not sent that can be read.
const SLOW: &str = "its list is not complete yet";

/// Type, status, reason and message of a condition.
type ConditionParts = (&'static str, ConditionStatus, &'static str, String);

/// What keeps the agent from running at all, or the platform from being reached.
fn obstacle(agent: &Agent, report: &Report) -> Option<(&'static str, String)> {
    match (&agent.readiness, &report.trouble) {
        (Readiness::BadCredentials(why), _) => Some((reason::AUTHENTICATION_ERROR, why.clone())),
        (Readiness::BadSpec(why), _) => Some((reason::INVALID_SPEC, why.clone())),
        (_, Some(Trouble::Unauthorized(why))) => Some((
            reason::AUTHENTICATION_ERROR,
            format!(
                "the platform refuses the credentials of Secret {}: {why}",
                agent.spec.credentials_secret_ref.name
            ),
        )),
        (_, Some(Trouble::Forbidden(why))) => Some((
            reason::PLATFORM_REFUSED,
            format!("the platform permits nothing to this client: {why}"),
        )),
        (_, Some(Trouble::Unreachable(why))) => Some((
            reason::PLATFORM_UNREACHABLE,
            format!(
                "failed to reach {}: {why}; changes are kept and sent when it answers",
                agent.spec.platform_url
            ),
        )),
        (_, None) => None,
    }
}

fn available(agent: &Agent, report: &Report) -> ConditionParts {
    let (status, reason, message) = match obstacle(agent, report) {
        Some((reason, message)) => (ConditionStatus::False, reason, message),
        None if report.last_sync.is_some() => (
            ConditionStatus::True,
            reason::AGENT_RUNNING,
            reason::AGENT_RUNNING_TEXT.to_owned(),
        ),
        None => (ConditionStatus::False, reason::STARTING, starting(agent)),
    };
    (condition::AVAILABLE, status, reason, message)
}

fn syncing(agent: &Agent, report: &Report) -> ConditionParts {
    let failed = report.snapshot_failed.as_ref().filter(|_| !report.is_live);
    let (status, reason, message) = match obstacle(agent, report) {
        Some((_, message)) if !report.is_live => (ConditionStatus::False, reason::SNAPSHOT_FAILED, message),
        Some((_, message)) => (ConditionStatus::False, reason::HEARTBEAT_FAILED, message),
        None if let Some(why) = failed => (ConditionStatus::False, reason::SNAPSHOT_FAILED, why.clone()),
        None if report.heartbeat_refused.is_some() => {
            let why = report.heartbeat_refused.clone().unwrap_or_default();
            (
                ConditionStatus::False,
                reason::HEARTBEAT_FAILED,
                format!("the platform refused the heartbeat: {why}"),
            )
        }
        None if report.is_live => (
            ConditionStatus::True,
            reason::SYNC_ACTIVE,
            reason::SYNC_ACTIVE_TEXT.to_owned(),
        ),
        // A new snapshot is gathered after the first: changes still reach the platform by it.
        None if report.last_snapshot.is_some() => (
            ConditionStatus::True,
            reason::SYNC_ACTIVE,
            reason::SYNC_ACTIVE_TEXT.to_owned(),
        ),
        None => (ConditionStatus::False, reason::STARTING, starting(agent)),
    };
    (condition::SYNCING, status, reason, message)
}

fn degraded(agent: &Agent, report: &Report) -> ConditionParts {
    let mut problems: Vec<(&'static str, String)> = Vec::new();
    problems.extend(obstacle(agent, report).filter(|(reason, _)| *reason != reason::PLATFORM_UNREACHABLE));
    if agent.spec.heartbeat().is_none() {
        let text = format!(
            "spec.syncInterval: {:?} is not a duration of at least 5s; 5m is used",
            agent.spec.sync_interval
        );
        problems.push((reason::INVALID_SPEC, text));
    }
    let mut unread: BTreeMap<_, _> = report.left_out.iter().map(|kind| (kind, SLOW)).collect();
    unread.extend(agent.unreadable.iter().map(|(kind, why)| (kind, why.as_str())));
    if !unread.is_empty() {
        let kinds: Vec<_> = unread
            .iter()
            .map(|(kind, why)| format!("{}: {why}", kind.name()))
            .collect();
        problems.push((
            reason::KINDS_UNREADABLE,
            format!("kinds that are not sent, or not completely: {}", kinds.join("; ")),
        ));
    }
    if report.refused > 0 {
        let text = format!(
            "the platform refused {} object(s), which are tried again when they change: {}{}",
            report.refused,
            report.refused_names.join(", "),
            if report.refused > report.refused_names.len() {
                ", …"
            } else {
                ""
            },
        );
        problems.push((reason::OBJECTS_REFUSED, text));
    }
    let Some((first, _)) = problems.first() else {
        return (
            condition::DEGRADED,
            ConditionStatus::False,
            reason::AGENT_HEALTHY,
            reason::AGENT_HEALTHY_TEXT.to_owned(),
        );
    };
    let texts: Vec<_> = problems.iter().map(|(_, text)| text.as_str()).collect();
    (
        condition::DEGRADED,
        ConditionStatus::True,
        first,
        texts.join("; "),
    )
}

fn starting(agent: &Agent) -> String {
    match agent.readiness {
        Readiness::Waiting => format!("reading the Secret {}", agent.spec.credentials_secret_ref.name),
        _ => "reading the cluster for the first snapshot".to_owned(),
    }
}

#[cfg(test)]
mod tests;
