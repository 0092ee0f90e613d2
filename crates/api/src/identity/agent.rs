//! SpireAgent.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CommonConfig, LogFormat, LogLevel, StringBool, VerificationType};

/// The SPIRE agents, one on each node. An agent attests the workloads of its node and gives them their SVIDs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(
    feature = "crd",
    derive(kube::CustomResource),
    kube(
        group = "operator.openshift.io",
        version = "v1alpha1",
        kind = "SpireAgent",
        plural = "spireagents",
        shortname = "spireag",
        category = "trustplane",
        category = "spire",
        schema = "manual",
        status = "super::OperandCrStatus",
        printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
        printcolumn = r#"{"name":"Reason","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].reason"}"#,
        printcolumn = r#"{"name":"Trust Domain","type":"string","jsonPath":".spec.trustDomain"}"#,
        printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
    )
)]
#[serde(rename_all = "camelCase", default)]
pub struct SpireAgentSpec {
    /// The directory on nodes that holds the socket of the agent. agentSocketPath of the SpiffeCSIDriver must name the same
    /// directory.
    #[schemars(
        length(min = 1, max = 256),
        regex(pattern = super::patterns::PATH),
        extend("x-kubernetes-validations" = [{"rule": super::patterns::NO_STEP_BACK, "message": super::patterns::NO_STEP_BACK_MESSAGE}])
    )]
    pub socket_path: String,
    /// How much the agents log.
    pub log_level: LogLevel,
    /// The format of the agents' logs.
    pub log_format: LogFormat,
    /// How an agent proves to the server on which node it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_attestor: Option<NodeAttestor>,
    /// How an agent finds out which workload calls it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload_attestors: Option<WorkloadAttestors>,
    /// Settings of pods.
    #[serde(flatten)]
    pub common: CommonConfig,
    /// Deprecated: use trustDomain of the ZeroTrustWorkloadIdentityManager, which fills this in.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255), regex(pattern = super::patterns::TRUST_DOMAIN))]
    pub trust_domain: Option<String>,
    /// Deprecated: use clusterName of the ZeroTrustWorkloadIdentityManager, which fills this in.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = super::patterns::CLUSTER_NAME))]
    pub cluster_name: Option<String>,
    /// Deprecated: use bundleConfig of the ZeroTrustWorkloadIdentityManager, which fills this in.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = super::patterns::CONFIG_MAP))]
    pub bundle_config_map: Option<String>,
}

impl Default for SpireAgentSpec {
    fn default() -> Self {
        Self {
            socket_path: super::names::SOCKET_DIRECTORY.to_owned(),
            log_level: LogLevel::default(),
            log_format: LogFormat::default(),
            node_attestor: None,
            workload_attestors: None,
            common: CommonConfig::default(),
            trust_domain: None,
            cluster_name: None,
            bundle_config_map: None,
        }
    }
}

/// How an agent proves to the server on which node it runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeAttestor {
    /// Whether agents use a token of their service account. There is no other way yet.
    #[serde(rename = "k8sPSATEnabled")]
    pub k8s_psat_enabled: StringBool,
}

impl Default for NodeAttestor {
    fn default() -> Self {
        Self {
            k8s_psat_enabled: StringBool::True,
        }
    }
}

/// How an agent finds out which workload calls it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadAttestors {
    /// Whether agents ask kubelet for the pod of the workload. There is no other way yet.
    pub k8s_enabled: StringBool,
    /// How an agent verifies the certificate of kubelet; not at all if this is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload_attestors_verification: Option<Verification>,
    /// Whether agents leave out the selectors of single containers. A workload then gets its SVID before every container of its
    /// pod has started.
    pub disable_container_selectors: StringBool,
    /// Whether agents find the container of a process by the newer algorithm of SPIRE.
    pub use_new_container_locator: StringBool,
}

impl Default for WorkloadAttestors {
    fn default() -> Self {
        Self {
            k8s_enabled: StringBool::True,
            workload_attestors_verification: None,
            disable_container_selectors: StringBool::False,
            use_new_container_locator: StringBool::True,
        }
    }
}

/// How an agent verifies the certificate of kubelet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "self.type != 'hostCert' || (has(self.hostCertFileName) && self.hostCertFileName != '')",
    "message": "hostCertFileName: required if type is hostCert",
}]))]
pub struct Verification {
    /// auto: with the file in hostCertFileName, or with the CA of the cluster if no file is given. hostCert: with the file in
    /// hostCertFileName. skip: not at all.
    #[serde(rename = "type")]
    pub r#type: VerificationType,
    /// The directory on nodes that holds the file of hostCertFileName; /var/lib/kubelet/pki if this is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 256),
        regex(pattern = super::patterns::OPTIONAL_PATH),
        extend("x-kubernetes-validations" = [{"rule": super::patterns::NO_STEP_BACK, "message": super::patterns::NO_STEP_BACK_MESSAGE}])
    )]
    pub host_cert_base_path: Option<String>,
    /// The name of the file with the CA of kubelet.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 256),
        regex(pattern = r"^[a-zA-Z0-9._-]+$"),
        extend("x-kubernetes-validations" = [{"rule": super::patterns::NO_STEP_BACK, "message": super::patterns::NO_STEP_BACK_MESSAGE}])
    )]
    pub host_cert_file_name: Option<String>,
}
