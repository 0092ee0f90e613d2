//! Makes the plan for an HSMSecret.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value as Json};
use trustplane_api::hsm::HSM_SECRET;
use trustplane_api::hsm::delivery::{DELIVERED, reason, sync_status};
use trustplane_api::hsm::names::{SECRET_FINALIZER, SYNCED_AT_ANNOTATION};
use trustplane_plan::kinds::SECRET;
use trustplane_plan::{
    Apply, Class, Delete, Ending, Failure, Finalizer, Meta, Note, Plan, Severity, Step, secret_type,
};

use super::assess::{Assessment, Delivery, Problem, Scope};
use super::copies::{Agreed, TokenView};
use super::status::{WantedStatus, changed};
use super::{DeliveryInput, LiveSecret, Situation};
use crate::path::SecretPath;
use crate::secret::{Data, Secret, Value};

/// The time between two looks at a Secret of another owner that has the wanted name: without our label no watch shows it.
const TAKEN: Duration = Duration::from_secs(15);
/// The time between two looks while a token has yet to be asked.
const UNSETTLED: Duration = Duration::from_secs(2);
/// How many reads may fail in a row before the status says so: an agent that restarts is back by then.
const FAILED_READS: u32 = 3;

/// What a plan does besides writes of the HSMSecret and its Secret.
#[derive(Debug, Clone, PartialEq)]
pub enum DeliveryAction {
    /// Claim a location for a namespace. This fails if another namespace has claimed the location.
    Claim {
        /// The location.
        path: SecretPath,
        /// The namespace.
        namespace: String,
    },
    /// End the claim of a namespace to a location.
    Release {
        /// The location.
        path: SecretPath,
        /// The namespace that has claimed it.
        namespace: String,
    },
    /// Make fields of other field managers ours; the next look then writes the Secret.
    Inherit(Box<Meta>, Vec<Json>),
}

type DeliveryPlan = Plan<DeliveryAction>;

/// Makes the plan for an HSMSecret.
///
/// One look writes the Secret, and the look that sees the written Secret writes the status: a status never tells of a write that no
/// look has seen.
pub fn decide_delivery(input: &DeliveryInput, now: Timestamp) -> DeliveryPlan {
    let situation = &input.situation;
    let mut plan = Plan::default();
    match &input.assessment {
        Assessment::Ignore => {}
        Assessment::Remove => remove(situation, &mut plan),
        Assessment::Wait => {
            keep(situation, &mut plan);
            plan.look_again_in(UNSETTLED);
        }
        Assessment::Unwatched => keep(situation, &mut plan),
        Assessment::Stay(problem) => {
            keep(situation, &mut plan);
            stay(situation, problem, now, &mut plan);
        }
        Assessment::InLine(agreed) => {
            keep(situation, &mut plan);
            in_line(situation, agreed, now, &mut plan);
        }
        Assessment::Deliver(delivery) => {
            keep(situation, &mut plan);
            deliver(input, delivery, now, &mut plan);
        }
    }
    plan
}

/// Adds the finalizer: the HSMSecret stays until its Secret is deleted.
fn keep(situation: &Situation, plan: &mut DeliveryPlan) {
    let step = Finalizer::step(&HSM_SECRET, &situation.object, SECRET_FINALIZER, true);
    plan.steps.extend(step);
}

/// Deletes the Secret, then removes the finalizer. No token is asked, and the secret on the tokens stays.
fn remove(situation: &Situation, plan: &mut DeliveryPlan) {
    if let LiveSecret::Found { meta, .. } = &situation.live
        && situation.owns(meta)
    {
        plan.steps.extend(Delete::seen(&SECRET, meta).map(Step::Delete));
    }
    let step = Finalizer::step(&HSM_SECRET, &situation.object, SECRET_FINALIZER, false);
    plan.steps.extend(step);
}

/// Reports a problem, and leaves the Secret as it is.
fn stay(situation: &Situation, problem: &Problem, now: Timestamp, plan: &mut DeliveryPlan) {
    if problem.releases
        && let Ok(placement) = &situation.placement
    {
        plan.push(Step::Call(DeliveryAction::Release {
            path: placement.path.clone(),
            namespace: situation.namespace().to_owned(),
        }));
    }
    let wanted_status = WantedStatus::problem(situation, problem, now);
    if wanted_status.is_news(situation) {
        plan.push(warn(situation, problem.reason, &problem.text));
    }
    plan.steps.extend(wanted_status.step(situation));
    if problem.reason == reason::SECRET_TAKEN {
        plan.look_again_in(TAKEN);
    }
}

/// Reports that the Secret is in line.
fn in_line(situation: &Situation, agreed: &Agreed, now: Timestamp, plan: &mut DeliveryPlan) {
    let LiveSecret::Found {
        meta,
        content: Some(content),
    } = &situation.live
    else {
        return;
    };
    let wanted_status = WantedStatus::in_line(situation, agreed, (meta, content), now);
    if changed(&situation.status, &wanted_status.status) {
        let path = situation
            .placement
            .as_ref()
            .map(|placement| placement.path.as_str());
        let keys = content.keys.len();
        let text = format!(
            "Secret {} holds {keys} key{} of {} on token {}",
            meta.object.name(),
            if keys == 1 { "" } else { "s" },
            path.unwrap_or_default(),
            agreed.primary
        );
        plan.push(tell(situation, Severity::Normal, DELIVERED, &text));
    }
    if wanted_status.is_newly_degraded(situation) {
        let text = agreed.degraded.join("; ");
        plan.push(warn(situation, reason::TOKEN_UNREACHABLE, &text));
    }
    plan.steps.extend(wanted_status.step(situation));
}

/// Writes the Secret, if the data that was read suits its type.
fn deliver(input: &DeliveryInput, delivery: &Delivery, now: Timestamp, plan: &mut DeliveryPlan) {
    let situation = &input.situation;
    if delivery.takes_over.is_some() {
        if let (LiveSecret::Found { meta, .. }, Some(fields)) = (&situation.live, &input.managed_fields) {
            plan.push(Step::Call(DeliveryAction::Inherit(meta.clone(), fields.clone())));
        }
        return;
    }
    let secret = match &input.reading {
        Some(Ok(secret)) => secret,
        Some(Err(why)) => return unread(situation, delivery, why, now, plan),
        None => return,
    };
    if let Err(why) = suits(&secret.data, delivery) {
        let problem = Problem {
            sync_status: sync_status::ERROR,
            reason: reason::UNSUITABLE,
            text: why,
            scope: Scope::Tokens,
            releases: false,
        };
        return stay(situation, &problem, now, plan);
    }
    if let Some(trouble) = &situation.trouble {
        let problem = Problem {
            sync_status: sync_status::OUT_OF_SYNC,
            reason: reason::WRITE_FAILED,
            text: trouble.clone(),
            scope: Scope::Tokens,
            releases: false,
        };
        // The event was sent when the write failed.
        plan.steps
            .extend(WantedStatus::problem(situation, &problem, now).step(situation));
    }
    if delivery.claims
        && let Ok(placement) = &situation.placement
    {
        plan.push(Step::Call(DeliveryAction::Claim {
            path: placement.path.clone(),
            namespace: situation.namespace().to_owned(),
        }));
    }
    plan.push(Step::Apply(filled(&delivery.write, secret, now)));
}

/// Handles a read that failed after the token had listed the secret. The Secret stays, and the read is tried again with backoff.
fn unread(situation: &Situation, delivery: &Delivery, why: &str, now: Timestamp, plan: &mut DeliveryPlan) {
    let token = situation.tokens.get(delivery.agreed.source);
    let name = token
        .map(|token: &TokenView| token.name.as_str())
        .unwrap_or_default();
    let text = format!("the secret could not be read from token {name}: {why}");
    if situation.failures >= FAILED_READS {
        let problem = Problem {
            sync_status: sync_status::ERROR,
            reason: reason::READ_FAILED,
            text: text.clone(),
            scope: Scope::Tokens,
            releases: false,
        };
        stay(situation, &problem, now, plan);
    }
    plan.ending = Ending::Failed(Failure {
        class: Class::Transient,
        reason: reason::READ_FAILED,
        text,
        retry_in: None,
    });
}

/// Whether data can be a Secret of the wanted type.
fn suits(data: &Data, delivery: &Delivery) -> Result<(), String> {
    let wish = delivery.write.manifest.wish();
    let wanted = wish["type"].as_str().unwrap_or_default();
    let bytes: usize = data.values().map(Value::len).sum();
    if bytes > secret_type::MOST_BYTES {
        return Err(format!(
            "the values have {bytes} bytes together; a Secret takes at most {}",
            secret_type::MOST_BYTES
        ));
    }
    let get = |key: &str| {
        let mut pairs = data.iter();
        pairs
            .find(|(name, _)| name.as_str() == key)
            .map(|(_, value)| value)
    };
    secret_type::check(wanted, get).map_err(|rule| {
        format!("a Secret of type {wanted} {rule}; change the secret on the token or spec.secretType")
    })
}

/// The write with the values, and with the time of the delivery.
fn filled(write: &Apply, secret: &Secret, now: Timestamp) -> Apply {
    let encoded: Map<String, Json> = secret
        .data
        .iter()
        .map(|(key, value)| (key.as_str().to_owned(), STANDARD.encode(value.expose()).into()))
        .collect();
    let manifest = write.manifest.clone().with("data", Json::Object(encoded));
    Apply {
        manifest: manifest.stamp(SYNCED_AT_ANNOTATION, &format!("{now:.0}")),
        expect: write.expect.clone(),
        conflicts: write.conflicts,
    }
}

fn warn(situation: &Situation, reason: &'static str, text: &str) -> Step<DeliveryAction> {
    tell(situation, Severity::Warning, reason, text)
}

fn tell(situation: &Situation, severity: Severity, reason: &'static str, text: &str) -> Step<DeliveryAction> {
    Step::Tell(Note::about(
        &HSM_SECRET,
        &situation.object,
        severity,
        reason,
        "Deliver",
        text,
    ))
}
