//! Which pods of agents are removed because nobody else does.

use trustplane_api::hsm::names::DEVICE_LABEL;
use trustplane_plan::{Delete, Meta, Propagation, Step, Target};

use super::{AgentAction, AgentsInput};
use crate::objects::{AGENT, COMPONENT_LABEL, DEPLOYMENT, POD, is_for, label_value};

/// Why the kubelet refuses a pod whose token it cannot give away. Such a pod stays for ever, and another is made in its place.
const REFUSED: &str = "UnexpectedAdmissionError";

/// A pod that may be of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentPod {
    /// Its metadata.
    pub meta: Meta,
    /// `status.phase`.
    pub phase: String,
    /// `status.reason`.
    pub reason: Option<String>,
}

/// Removes the pods of agents that the kubelet has refused.
pub(super) fn removals(input: &AgentsInput) -> impl Iterator<Item = Step<AgentAction>> {
    let refused = input
        .pods
        .iter()
        .filter(|pod| is_refused(pod) && is_agents(pod, input));
    refused.map(|pod| {
        Step::Delete(Delete {
            target: Target {
                kind: POD,
                object: pod.meta.object.clone(),
            },
            uid: pod.meta.uid.clone(),
            resource_version: Some(pod.meta.resource_version.clone()),
            propagation: Propagation::Background,
        })
    })
}

fn is_refused(pod: &AgentPod) -> bool {
    pod.phase == "Failed" && pod.reason.as_deref() == Some(REFUSED) && !pod.meta.is_terminating()
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
            ours && has("app", live.object.name()) && is_replica(&pod.meta, live)
        })
}

/// Whether a pod belongs to a ReplicaSet that has the name of one of this Deployment.
fn is_replica(pod: &Meta, deployment: &Meta) -> bool {
    let prefix = format!("{}-", deployment.object.name());
    let mut owners = pod.owners.iter().filter(|owner| owner.controller);
    owners.any(|owner| owner.kind == "ReplicaSet" && owner.name.starts_with(&prefix))
}

#[cfg(test)]
#[path = "refused_tests.rs"]
mod tests;
