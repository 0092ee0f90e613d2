//! Which pods of agents are removed because nobody else does.

use trustplane_api::hsm::names::DEVICE_LABEL;
use trustplane_plan::{Delete, Meta, ObjectRef, Step};

use super::{AgentAction, AgentsInput};
use crate::objects::{AGENT, APP_LABEL, COMPONENT_LABEL, DEPLOYMENT, POD, is_for, label_value};

/// Why the kubelet refuses a pod whose token it cannot give away. Such a pod stays for ever, and another is made in its place.
const REFUSED: &str = "UnexpectedAdmissionError";

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
}

impl AgentPod {
    /// Whether it is a pod of this agent, and has not ended. Anybody can copy labels, so its owner has to fit as well.
    pub fn may_run(&self, agent: &ObjectRef) -> bool {
        let ended = matches!(self.phase.as_str(), "Succeeded" | "Failed");
        let here = self.meta.object.namespace() == agent.namespace();
        let label = self.meta.labels.get(APP_LABEL);
        let labelled = label.is_some_and(|label| label == agent.name());
        !ended && here && labelled && is_replica(&self.meta, agent.name())
    }
}

/// Removes the pods of agents that the kubelet has refused.
pub(super) fn removals(input: &AgentsInput) -> impl Iterator<Item = Step<AgentAction>> {
    let refused = input
        .pods
        .iter()
        .filter(|pod| is_refused(pod) && is_agents(pod, input));
    let deleted = refused.filter_map(|pod| Delete::seen(&POD, &pod.meta));
    deleted.map(Step::Delete)
}

fn is_refused(pod: &AgentPod) -> bool {
    pod.phase == "Failed" && pod.reason.as_deref() == Some(REFUSED)
}

/// Whether a pod is one of an agent of the HSMDevice: anybody can copy labels, so its owner has to fit as well.
fn is_agents(pod: &AgentPod, input: &AgentsInput) -> bool {
    let (namespace, device) = (input.key.namespace(), input.key.name());
    let has = |label: &str, value: &str| pod.meta.labels.get(label).is_some_and(|is| is == value);
    let labelled = has(COMPONENT_LABEL, AGENT) && has(DEVICE_LABEL, &label_value(device));
    let mut deployments = input.live.iter().filter(|(kind, _)| *kind == DEPLOYMENT);
    pod.meta.object.namespace() == namespace
        && labelled
        && deployments.any(|(_, live)| {
            let ours = is_for(live, namespace.unwrap_or_default(), device);
            ours && has(APP_LABEL, live.object.name()) && is_replica(&pod.meta, live.object.name())
        })
}

/// Whether a pod belongs to a ReplicaSet that has the name of one of this Deployment.
fn is_replica(pod: &Meta, deployment: &str) -> bool {
    let prefix = format!("{deployment}-");
    let mut owners = pod.owners.iter().filter(|owner| owner.controller);
    owners.any(|owner| owner.kind == "ReplicaSet" && owner.name.starts_with(&prefix))
}

#[cfg(test)]
mod tests;
