//! Which pods of agents the manager deletes, because no controller does: pods that the kubelet has refused, and ghosts.
//!
//! A ghost is a pod of an agent whose Deployment is gone. It holds the token, so no other agent can.

use std::time::Duration;

use jiff::Timestamp;
use trustplane_api::hsm::names::DEVICE_LABEL;
use trustplane_plan::kinds::{DEPLOYMENT, POD};
use trustplane_plan::{Deadline, Delete, Meta, ObjectRef, Plan, Step};

use super::{AgentAction, AgentsInput};
use crate::objects::{AGENT, APP_LABEL, COMPONENT_LABEL, is_for, label_value};

/// Why the kubelet refuses a pod whose token it cannot give away. Such a pod stays for ever, and another is made in its place.
const REFUSED: &str = "UnexpectedAdmissionError";

/// How old a pod has to be before it is a ghost because no Deployment is seen: pods and Deployments come by different watches, and
/// the pod of a new Deployment may be seen first.
const GHOST_AFTER: Duration = Duration::from_secs(60);

/// A pod that may be of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentPod {
    /// Its metadata.
    pub meta: Meta,
    /// `spec.nodeName`.
    pub node: Option<String>,
    /// `status.phase`.
    pub phase: String,
    /// `status.reason`.
    pub reason: Option<String>,
    /// `spec.serviceAccountName`.
    pub account: Option<String>,
    /// Whether its condition `Ready` is true.
    pub ready: bool,
}

impl AgentPod {
    /// Whether it is a pod of this agent, and has not ended. Anybody can copy labels, so its owner has to fit as well.
    pub fn may_run(&self, agent: &ObjectRef) -> bool {
        let here = self.meta.object.namespace() == agent.namespace();
        let label = self.meta.labels.get(APP_LABEL);
        let labelled = label.is_some_and(|label| label == agent.name());
        !self.has_ended() && here && labelled && is_replica(&self.meta, agent.name())
    }

    fn has_ended(&self) -> bool {
        matches!(self.phase.as_str(), "Succeeded" | "Failed")
    }
}

/// Removes the pods of agents that the kubelet has refused, and ghosts.
pub(super) fn remove_pods(input: &AgentsInput, now: Timestamp, plan: &mut Plan<AgentAction>) {
    for pod in &input.pods {
        let refused = is_refused(pod) && is_agents(pod, input);
        if refused || is_ghost(pod, input, now, plan) {
            plan.steps.extend(Delete::seen(&POD, &pod.meta).map(Step::Delete));
        }
    }
}

/// Whether a pod holds a token for an agent that is gone: its Deployment does not exist, or is younger than the pod.
fn is_ghost(pod: &AgentPod, input: &AgentsInput, now: Timestamp, plan: &mut Plan<AgentAction>) -> bool {
    let (namespace, device) = (input.key.namespace(), input.key.name());
    let Some(agent) = pod.meta.labels.get(APP_LABEL) else {
        return false;
    };
    // The original's agents have the same names and labels, and other accounts.
    let ours = pod.account.as_ref() == Some(agent) && is_labelled(pod, input);
    let its = ObjectRef::new(namespace, agent);
    if !ours || !input.complete || pod.meta.is_terminating() || !pod.may_run(&its) {
        return false;
    }
    let is_its = |live: &Meta| live.object == its && is_for(live, namespace.unwrap_or_default(), device);
    let mut live = input.live.iter().filter(|(kind, _)| *kind == DEPLOYMENT);
    match live.find(|(_, live)| is_its(live)) {
        // Its pods end before it does.
        Some((_, deployment)) if deployment.is_terminating() => false,
        Some((_, deployment)) => deployment.created > pod.meta.created,
        None => {
            let created = pod.meta.created.unwrap_or(Timestamp::MIN);
            Deadline::after(created, GHOST_AFTER).has_passed(now, plan)
        }
    }
}

fn is_refused(pod: &AgentPod) -> bool {
    pod.phase == "Failed" && pod.reason.as_deref() == Some(REFUSED)
}

/// Whether a pod is one of an agent of the HSMDevice: anybody can copy labels, so its owner has to fit as well.
fn is_agents(pod: &AgentPod, input: &AgentsInput) -> bool {
    let (namespace, device) = (input.key.namespace(), input.key.name());
    let agent = pod.meta.labels.get(APP_LABEL).map(String::as_str);
    let mut deployments = input.live.iter().filter(|(kind, _)| *kind == DEPLOYMENT);
    is_labelled(pod, input)
        && deployments.any(|(_, live)| {
            let ours = is_for(live, namespace.unwrap_or_default(), device);
            ours && agent == Some(live.object.name()) && is_replica(&pod.meta, live.object.name())
        })
}

/// Whether a pod has the labels of an agent of the HSMDevice.
fn is_labelled(pod: &AgentPod, input: &AgentsInput) -> bool {
    let has = |label: &str, value: &str| pod.meta.labels.get(label).is_some_and(|is| is == value);
    let labelled = has(COMPONENT_LABEL, AGENT) && has(DEVICE_LABEL, &label_value(input.key.name()));
    labelled && pod.meta.object.namespace() == input.key.namespace()
}

/// Whether a pod belongs to a ReplicaSet that has the name of one of this Deployment.
fn is_replica(pod: &Meta, deployment: &str) -> bool {
    let prefix = format!("{deployment}-");
    let mut owners = pod.owners.iter().filter(|owner| owner.controller);
    owners.any(|owner| owner.kind == "ReplicaSet" && owner.name.starts_with(&prefix))
}

#[cfg(test)]
mod tests;
