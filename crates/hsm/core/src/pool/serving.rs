//! Which tokens are served, and why the others are not.

use std::collections::{BTreeMap, BTreeSet};

use trustplane_api::hsm::AggregatedDevice;
use trustplane_api::hsm::record::{AgentPhase, AgentState, Record};
use trustplane_plan::ObjectRef;

use super::{PoolDevice, bounded, info};
use crate::decide::AgentPod;
use crate::objects::{APP_LABEL, agent_name};

/// The agents that serve their token, each with its node.
#[derive(Debug, Default)]
pub(crate) struct Serving(BTreeSet<(String, String)>);

impl Serving {
    /// Agents whose record says that they serve, and whose pod that has written it is ready. A pod of a node that has died is not.
    pub fn of(namespace: Option<&str>, records: &BTreeMap<String, Record>, pods: &[AgentPod]) -> Self {
        let mut serving = BTreeSet::new();
        for (agent, record) in records {
            let state = record.state.as_ref();
            let Some(state) = state.filter(|state| state.phase == AgentPhase::Serving) else {
                continue;
            };
            let its = ObjectRef::new(namespace, agent);
            let is_its = |pod: &&AgentPod| {
                let alive = pod.ready && !pod.meta.is_terminating() && pod.may_run(&its);
                alive && *pod.meta.uid == *state.by
            };
            let nodes = pods.iter().filter(is_its).filter_map(|pod| pod.node.clone());
            serving.extend(nodes.map(|node| (agent.clone(), node)));
        }
        Self(serving)
    }

    /// Whether the agent of a token serves it on this node. Then the token is there, whoever is silent.
    pub fn on(&self, device: &str, serial: Option<&str>, node: &str) -> bool {
        let agent = serial.map(|serial| agent_name(device, serial));
        agent.is_some_and(|agent| self.0.contains(&(agent, node.to_owned())))
    }

    /// Whether the agent of a token serves it, where the token is. A static token may be there from any node.
    pub fn has(&self, token: &AggregatedDevice) -> bool {
        let device = token.device_info.get(info::DEVICE);
        let agent = device.zip(token.serial_number.as_deref());
        let agent = agent.map(|(device, serial)| agent_name(device, serial));
        agent.is_some_and(|agent| {
            let mut its = self.0.iter().filter(|(name, _)| *name == agent);
            its.any(|(_, node)| token.node_name.is_empty() || *node == token.node_name)
        })
    }
}

/// What stands between a token that is there and its service, with what a person can do about it; `None` if nothing is known to.
pub(crate) fn obstacle(
    token: &AggregatedDevice,
    device: &PoolDevice,
    records: &BTreeMap<String, Record>,
    pods: &[AgentPod],
) -> Option<String> {
    let read = device.device.read.as_ref().ok()?;
    let namespace = &read.namespace;
    let Some(serial) = token.serial_number.as_deref() else {
        return Some(format!(
            "the token at {} on node {} has no serial number, so it has no agent",
            bounded(&token.device_path, 256),
            token.node_name
        ));
    };
    let shown = format!("token {:?}", bounded(serial, 64));
    if read.opening.is_none() {
        return Some(format!(
            "{shown}: has no agent, because the HSMDevice does not say how to open it: set spec.pkcs11.pinSecret"
        ));
    }
    let agent = agent_name(&read.name, serial);
    let its = ObjectRef::new(Some(namespace), &agent);
    let mut pods: Vec<_> = pods.iter().filter(|pod| pod.may_run(&its)).collect();
    pods.sort_by_key(|pod| (pod.meta.is_terminating(), std::cmp::Reverse(pod.meta.created)));
    let Some(pod) = pods.first() else {
        return Some(format!(
            "{shown}: its agent has no pod yet: kubectl describe deployment --namespace {namespace} {agent}"
        ));
    };
    // Not by the name of the pod: with each new pod this would be another text.
    let describe = format!("kubectl describe pods --namespace {namespace} --selector {APP_LABEL}={agent}");
    Some(match (pod.phase.as_str(), &pod.node) {
        ("Pending", None) if !token.node_name.is_empty() => format!(
            "{shown}: no node takes the pod of its agent; is {:?} a node of this cluster, and ready? {describe}",
            bounded(&token.node_name, 253)
        ),
        ("Pending", None) => format!("{shown}: no node takes the pod of its agent: {describe}"),
        ("Pending", Some(_)) => format!("{shown}: the pod of its agent does not start: {describe}"),
        _ => match records.get(&agent).and_then(|record| record.state.as_ref()) {
            Some(state) if state.phase != AgentPhase::Serving => {
                format!("{shown}: {}", complaint(state, namespace, &read.name))
            }
            _ => format!("{shown}: its agent has not opened it yet: {describe}"),
        },
    })
}

/// What an agent says, with what a person can do about it.
fn complaint(state: &AgentState, namespace: &str, device: &str) -> String {
    let said = format!(
        "its agent says {}: {}",
        state.phase.as_str(),
        bounded(&state.message, 256)
    );
    match state.phase {
        AgentPhase::Unavailable | AgentPhase::ProvisionSkipped => format!(
            "{said}; what the module sees: kubectl trustplane hsm test --namespace {namespace} {device} -- info"
        ),
        _ => said,
    }
}
