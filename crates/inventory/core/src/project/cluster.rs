//! Namespaces and Nodes.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::input::Text;
use super::output::Object;
use super::{Metadata, Projection, ProjectionError};
use crate::kind::InventoryKind;

/// Labels with this prefix name the roles of a Node.
const ROLE: &str = "node-role.kubernetes.io/";

#[derive(Deserialize)]
struct Namespace<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
    status: Option<NamespaceStatus<'a>>,
}

#[derive(Default, Deserialize)]
struct NamespaceStatus<'a> {
    #[serde(borrow)]
    phase: Option<Text<'a>>,
}

/// What is sent of a Namespace.
pub(super) fn namespace(json: &str) -> Result<Projection, ProjectionError> {
    let Namespace { metadata, status } = serde_json::from_str(json)?;
    let fields = Object::default().optional("phase", status.unwrap_or_default().phase);
    metadata.finish(InventoryKind::Namespace, fields)
}

#[derive(Deserialize)]
struct Node<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
    status: Option<NodeStatus<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct NodeStatus<'a> {
    #[serde(borrow)]
    conditions: Option<Vec<Condition<'a>>>,
    node_info: Option<NodeInfo<'a>>,
    capacity: Option<Capacity<'a>>,
}

#[derive(Deserialize)]
struct Condition<'a> {
    #[serde(borrow, rename = "type")]
    type_: Option<Text<'a>>,
    status: Option<Text<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct NodeInfo<'a> {
    #[serde(borrow)]
    kubelet_version: Option<Text<'a>>,
    container_runtime_version: Option<Text<'a>>,
    os_image: Option<Text<'a>>,
    architecture: Option<Text<'a>>,
}

#[derive(Default, Deserialize)]
struct Capacity<'a> {
    #[serde(borrow)]
    cpu: Option<Text<'a>>,
    memory: Option<Text<'a>>,
    pods: Option<Text<'a>>,
}

/// What is sent of a Node.
pub(super) fn node(json: &str) -> Result<Projection, ProjectionError> {
    let Node { metadata, status } = serde_json::from_str(json)?;
    let status = status.unwrap_or_default();
    let info = status.node_info.unwrap_or_default();
    let capacity = status.capacity.unwrap_or_default();
    let fields = Object::default()
        .always("status", readiness(status.conditions))
        .optional("roles", roles(&metadata))
        .optional("kubelet_version", info.kubelet_version)
        .optional("container_runtime", info.container_runtime_version)
        .optional("os_image", info.os_image)
        .optional("architecture", info.architecture)
        .always("cpu_capacity", quantity(capacity.cpu))
        .always("memory_capacity", quantity(capacity.memory))
        .always("pod_capacity", quantity(capacity.pods));
    metadata.finish(InventoryKind::Node, fields)
}

fn quantity(given: Option<Text<'_>>) -> Text<'_> {
    given.unwrap_or_else(|| "0".into())
}

/// `Ready` if the first condition of this type is true.
fn readiness(conditions: Option<Vec<Condition<'_>>>) -> &'static str {
    let is = |text: &Option<Text<'_>>, word: &str| text.as_ref().is_some_and(|text| text.as_str() == word);
    let ready = conditions
        .into_iter()
        .flatten()
        .find(|condition| is(&condition.type_, "Ready"));
    match ready {
        Some(condition) if is(&condition.status, "True") => "Ready",
        _ => "NotReady",
    }
}

fn roles<'a>(metadata: &Metadata<'a>) -> BTreeSet<Text<'a>> {
    let labels = metadata.labels.iter().flatten();
    labels
        .filter_map(|(key, _)| key.clone().strip_prefix(ROLE))
        .map(|role| match role.as_str() {
            "master" => "control-plane".into(),
            _ => role,
        })
        .collect()
}
