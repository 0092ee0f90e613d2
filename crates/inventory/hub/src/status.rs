//! The status of an object in one word, and how bad it is: pure functions of its projection.

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use strum::{EnumString, IntoStaticStr};
use trustplane_inventory_core::InventoryKind;
use utoipa::ToSchema;

/// How good or bad a status is.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    ToSchema,
    IntoStaticStr,
    EnumString,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum StatusClass {
    /// As it should be.
    Ok,
    /// On its way.
    Progress,
    /// Someone should look at it.
    Warning,
    /// It does not work.
    Error,
    /// This kind has no good or bad.
    None,
}

impl StatusClass {
    /// The word of the class.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// A status for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Status {
    /// How good or bad it is.
    pub class: StatusClass,
    /// In one or two words.
    pub word: String,
}

impl Status {
    fn new(class: StatusClass, word: impl Into<String>) -> Self {
        Self {
            class,
            word: word.into(),
        }
    }

    /// The status of an object without content, such as a tombstone.
    pub fn unknown() -> Self {
        Self::new(StatusClass::None, "")
    }
}

/// The status of an object of a kind; kinds that the hub does not know have none.
pub fn status(kind: Option<InventoryKind>, object: &Value) -> Status {
    use InventoryKind as Kind;
    let Some(kind) = kind else {
        return Status::unknown();
    };
    match kind {
        Kind::Pod => pod(object),
        Kind::Deployment => deployment(object),
        Kind::StatefulSet => replicas(number(object, "replicas"), number(object, "ready_replicas")),
        Kind::DaemonSet => replicas(
            number(object, "desired_number_scheduled"),
            number(object, "number_ready"),
        ),
        Kind::Node => node(object),
        Kind::Namespace => namespace(object),
        Kind::Job => job(object),
        Kind::CronJob => cron_job(object),
        Kind::PersistentVolumeClaim => claim(object),
        Kind::Event => event(object),
        Kind::Service => Status::new(StatusClass::None, word(object, "service_type")),
        _ => Status::unknown(),
    }
}

pub(crate) fn word<'a>(object: &'a Value, key: &str) -> &'a str {
    object.get(key).and_then(Value::as_str).unwrap_or_default()
}

pub(crate) fn number(object: &Value, key: &str) -> i64 {
    object.get(key).and_then(Value::as_i64).unwrap_or_default()
}

pub(crate) fn list<'a>(object: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    object.get(key).and_then(Value::as_array).into_iter().flatten()
}

fn flag(object: &Value, key: &str) -> bool {
    object.get(key).and_then(Value::as_bool).unwrap_or_default()
}

fn pod(pod: &Value) -> Status {
    match word(pod, "phase") {
        "Succeeded" => Status::new(StatusClass::Ok, "Succeeded"),
        "Failed" => Status::new(StatusClass::Error, "Failed"),
        "Pending" => pending_pod(pod),
        "Running" => running_pod(pod),
        "" => Status::unknown(),
        other => Status::new(StatusClass::Warning, other),
    }
}

fn pending_pod(pod: &Value) -> Status {
    let unscheduled = list(pod, "conditions")
        .any(|condition| word(condition, "type") == "PodScheduled" && word(condition, "status") == "False");
    if unscheduled {
        return Status::new(StatusClass::Warning, "Unscheduled");
    }
    let mut containers = list(pod, "containers").chain(list(pod, "init_containers"));
    if containers.any(crashes) {
        return Status::new(StatusClass::Error, "Crashing");
    }
    Status::new(StatusClass::Progress, "Pending")
}

/// The worst container decides.
fn running_pod(pod: &Value) -> Status {
    let containers: Vec<&Value> = list(pod, "containers").collect();
    let any = |test: fn(&Value) -> bool| containers.iter().any(|container| test(container));
    if any(crashes) {
        Status::new(StatusClass::Error, "Crashing")
    } else if any(|container| word(container, "state") == "terminated") {
        Status::new(StatusClass::Warning, "Container ended")
    } else if any(|container| word(container, "state") == "waiting") {
        Status::new(StatusClass::Progress, "Starting")
    } else if any(|container| !flag(container, "ready")) {
        Status::new(StatusClass::Warning, "Not ready")
    } else {
        Status::new(StatusClass::Ok, "Running")
    }
}

/// A container that has been restarted and waits, or has ended, again.
fn crashes(container: &Value) -> bool {
    matches!(word(container, "state"), "waiting" | "terminated")
        && !flag(container, "ready")
        && number(container, "restart_count") > 0
}

fn deployment(deployment: &Value) -> Status {
    let (desired, ready) = (
        number(deployment, "replicas"),
        number(deployment, "ready_replicas"),
    );
    if desired > 0 && ready >= desired && number(deployment, "updated_replicas") < desired {
        return Status::new(StatusClass::Progress, "Rolling out");
    }
    replicas(desired, ready)
}

fn replicas(desired: i64, ready: i64) -> Status {
    if desired <= 0 {
        Status::new(StatusClass::None, "Scaled to 0")
    } else if ready >= desired {
        Status::new(StatusClass::Ok, "Ready")
    } else if ready <= 0 {
        Status::new(StatusClass::Error, "Not ready")
    } else {
        Status::new(StatusClass::Warning, "Partly ready")
    }
}

fn node(node: &Value) -> Status {
    match word(node, "status") {
        "Ready" => Status::new(StatusClass::Ok, "Ready"),
        "" => Status::unknown(),
        _ => Status::new(StatusClass::Error, "Not ready"),
    }
}

fn namespace(namespace: &Value) -> Status {
    match word(namespace, "phase") {
        "Active" => Status::new(StatusClass::Ok, "Active"),
        "" => Status::unknown(),
        other => Status::new(StatusClass::Progress, other),
    }
}

fn job(job: &Value) -> Status {
    let completed = number(job, "succeeded") >= number(job, "completions").max(1);
    if completed || !word(job, "completion_time").is_empty() {
        Status::new(StatusClass::Ok, "Complete")
    } else if number(job, "active") > 0 {
        Status::new(StatusClass::Progress, "Running")
    } else if number(job, "failed") > 0 {
        Status::new(StatusClass::Error, "Failed")
    } else {
        Status::new(StatusClass::Progress, "Pending")
    }
}

fn cron_job(cron_job: &Value) -> Status {
    if flag(cron_job, "suspend") {
        Status::new(StatusClass::None, "Suspended")
    } else if number(cron_job, "active_jobs") > 0 {
        Status::new(StatusClass::Progress, "Running")
    } else {
        Status::new(StatusClass::Ok, "Scheduled")
    }
}

fn claim(claim: &Value) -> Status {
    match word(claim, "phase") {
        "Bound" => Status::new(StatusClass::Ok, "Bound"),
        "Pending" => Status::new(StatusClass::Progress, "Pending"),
        "" => Status::unknown(),
        other => Status::new(StatusClass::Error, other),
    }
}

fn event(event: &Value) -> Status {
    match word(event, "type") {
        "Warning" => Status::new(StatusClass::Warning, "Warning"),
        other => Status::new(StatusClass::None, other),
    }
}
