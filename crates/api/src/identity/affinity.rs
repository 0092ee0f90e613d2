//! Affinity of pods, in the form of Kubernetes. The schema checks types alone: a condition of the operand tells of affinity that
//! Kubernetes would refuse in a pod.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The nodes that pods need or prefer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Affinity {
    /// The nodes, chosen by their labels and fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_affinity: Option<NodeAffinity>,
    /// The pods that pods should run near to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_affinity: Option<PodAffinity>,
    /// The pods that pods should run away from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_anti_affinity: Option<PodAffinity>,
}

/// Nodes that a pod needs or prefers, chosen by labels and fields.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeAffinity {
    /// The nodes that the pod needs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required_during_scheduling_ignored_during_execution: Option<NodeSelector>,
    /// The nodes that the pod prefers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub preferred_during_scheduling_ignored_during_execution: Vec<PreferredNodes>,
}

/// Nodes that match at least one term.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct NodeSelector {
    /// The terms.
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub node_selector_terms: Vec<NodeSelectorTerm>,
}

/// Nodes that meet every requirement of the term.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct NodeSelectorTerm {
    /// Requirements on labels.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub match_expressions: Vec<NodeRequirement>,
    /// Requirements on fields.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub match_fields: Vec<NodeRequirement>,
}

/// A requirement on a label or a field of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeRequirement {
    /// The label or the field.
    pub key: String,
    /// In, NotIn, Exists, DoesNotExist, Gt or Lt.
    pub operator: String,
    /// The values for In, NotIn, Gt and Lt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub values: Vec<String>,
}

/// Nodes that a pod prefers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreferredNodes {
    /// How strongly the pod prefers these nodes, from 1 to 100.
    pub weight: i32,
    /// The nodes.
    pub preference: NodeSelectorTerm,
}

/// Pods that a pod should run near to, or away from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PodAffinity {
    /// The terms that the scheduler must meet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub required_during_scheduling_ignored_during_execution: Vec<PodAffinityTerm>,
    /// The terms that the scheduler meets if it can.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub preferred_during_scheduling_ignored_during_execution: Vec<PreferredPods>,
}

/// Pods that a pod prefers to run near to, or away from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreferredPods {
    /// How strongly the pod prefers this term, from 1 to 100.
    pub weight: i32,
    /// The pods.
    pub pod_affinity_term: PodAffinityTerm,
}

/// Pods, and the nodes that count as near to those pods.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodAffinityTerm {
    /// The labels of the pods; no pod matches if this is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
    /// The names of the namespaces of the pods. If this and namespaceSelector are absent: the namespace of the pod itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub namespaces: Vec<String>,
    /// The labels of the namespaces of the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// The node label that defines near: nodes with the same value of this label are near to each other.
    pub topology_key: String,
    /// Labels whose values the pods must have in common with the pod itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub match_label_keys: Vec<String>,
    /// Labels whose values the pods must not have in common with the pod itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub mismatch_label_keys: Vec<String>,
}

/// Chooses objects by their labels. Kubernetes and SPIRE read this selector and check it themselves, so the bounds and rules of
/// [`LabelSelector`](crate::selector::LabelSelector) do not apply.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(
    description = "Chooses objects by their labels: an object must have every label and meet every requirement.",
    extend("x-kubernetes-map-type" = "atomic")
)]
pub struct LabelSelector {
    /// The labels and values that an object must have.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// The requirements that an object must meet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub match_expressions: Vec<LabelRequirement>,
}

/// A requirement on one label.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LabelRequirement {
    /// The label.
    pub key: String,
    /// In, NotIn, Exists or DoesNotExist.
    pub operator: String,
    /// The values for In and NotIn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub values: Vec<String>,
}
