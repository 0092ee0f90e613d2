//! ZeroTrustWorkloadIdentityManager (ZTWIM): the settings that all operands share.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trustplane_plan::Conditions;

use super::{ChangePolicy, CommonConfig, OperandKind, StringBool};

/// The settings that all operands share: trust domain, cluster name, ConfigMap of the trust bundle, and settings of pods.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(
    feature = "crd",
    derive(kube::CustomResource),
    kube(
        group = "operator.openshift.io",
        version = "v1alpha1",
        kind = "ZeroTrustWorkloadIdentityManager",
        plural = "zerotrustworkloadidentitymanagers",
        shortname = "ztwim",
        category = "trustplane",
        category = "spire",
        schema = "manual",
        status = "ZtwimStatus",
        printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
        printcolumn = r#"{"name":"Reason","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].reason"}"#,
        printcolumn = r#"{"name":"Trust Domain","type":"string","jsonPath":".spec.trustDomain"}"#,
        printcolumn = r#"{"name":"Cluster Name","type":"string","priority":1,"jsonPath":".spec.clusterName"}"#,
        printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
    )
)]
#[serde(rename_all = "camelCase", default)]
pub struct ZtwimSpec {
    /// The trust domain: the name after spiffe:// in every SPIFFE ID of this cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255), regex(pattern = super::patterns::TRUST_DOMAIN))]
    pub trust_domain: Option<String>,
    /// The name of this cluster, by which the server knows its agents. Choose a name without dots.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = super::patterns::CLUSTER_NAME))]
    pub cluster_name: Option<String>,
    /// The ConfigMap of the trust bundle: the server writes the bundle, agents read it. If this and bundleConfigMap are absent:
    /// spire-bundle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bundle_config: Option<BundleConfig>,
    /// The name of the ConfigMap of the trust bundle: the short form of bundleConfig. The two names must not differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = super::patterns::CONFIG_MAP))]
    pub bundle_config_map: Option<String>,
    /// The namespace of the operands. The installation must serve this namespace. If this is absent: the first namespace that
    /// the installation serves.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = super::patterns::LABEL))]
    pub namespace: Option<String>,
    /// Settings of pods, for every operand.
    #[serde(flatten)]
    pub common: CommonConfig,
    /// Whether trustDomain, clusterName and the ConfigMap of the trust bundle may change after they were set; Allow if this is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change_policy: Option<ChangePolicy>,
    /// The operands that must be ready before the ZeroTrustWorkloadIdentityManager is ready; all four if this is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4), extend("x-kubernetes-list-type" = "set"))]
    pub expected_operands: Option<Vec<OperandKind>>,
    /// Deprecated and ignored: a setting of releases 0.x.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 5))]
    pub log_level: Option<i32>,
}

/// The ConfigMap of the trust bundle.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BundleConfig {
    /// The name of the ConfigMap.
    #[schemars(length(min = 1, max = 253), regex(pattern = super::patterns::CONFIG_MAP))]
    pub name: String,
    /// The namespace of the ConfigMap; the namespace of the operands if this is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = super::patterns::LABEL))]
    pub namespace: Option<String>,
}

/// The state of identity as a whole.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ZtwimStatus {
    /// The conditions; Ready sums up the others.
    #[serde(skip_serializing_if = "Conditions::is_empty")]
    pub conditions: Conditions,
    /// The operands, in the order SpireServer, SpireAgent, SpiffeCSIDriver, SpireOIDCDiscoveryProvider.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["kind"]))]
    pub operands: Vec<OperandStatus>,
}

/// The state of one operand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperandStatus {
    /// The name of the operand.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The kind of the operand.
    pub kind: OperandKind,
    /// Whether the operand is ready.
    pub ready: StringBool,
    /// Why the operand is not ready.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 32768))]
    pub message: String,
    /// The conditions of the operand.
    #[serde(default, skip_serializing_if = "Conditions::is_empty")]
    pub conditions: Conditions,
}
