//! SpiffeCSIDriver.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CommonConfig, Resources};

/// The SPIFFE CSI driver, which gives pods the socket of the agent as a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(
    feature = "crd",
    derive(kube::CustomResource),
    kube(
        group = "operator.openshift.io",
        version = "v1alpha1",
        kind = "SpiffeCSIDriver",
        root = "SpiffeCsiDriver",
        plural = "spiffecsidrivers",
        shortname = "spiffecsi",
        category = "trustplane",
        category = "spire",
        schema = "manual",
        status = "super::OperandCrStatus",
        printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
        printcolumn = r#"{"name":"Reason","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].reason"}"#,
        printcolumn = r#"{"name":"Driver","type":"string","jsonPath":".spec.pluginName"}"#,
        printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
    )
)]
#[serde(rename_all = "camelCase", default)]
pub struct SpiffeCsiDriverSpec {
    /// The directory on nodes that holds the socket of the agent: socketPath of the SpireAgent. In releases 0.x this was the path
    /// of the socket itself: a last part that ends with .sock is ignored.
    #[schemars(
        length(min = 1, max = 256),
        regex(pattern = super::patterns::PATH),
        extend("x-kubernetes-validations" = [{"rule": super::patterns::NO_STEP_BACK, "message": super::patterns::NO_STEP_BACK_MESSAGE}])
    )]
    pub agent_socket_path: String,
    /// The name of the driver in volumes. csiDriverName of the SpireOIDCDiscoveryProvider must be the same name.
    #[schemars(length(min = 1, max = 127), regex(pattern = super::patterns::NAME))]
    pub plugin_name: String,
    /// Requests and limits of the container of the node-driver-registrar; resources if this is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registrar_resources: Option<Resources>,
    /// Settings of pods.
    #[serde(flatten)]
    pub common: CommonConfig,
    /// Deprecated: use trustDomain of the ZeroTrustWorkloadIdentityManager. The driver does not need it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255), regex(pattern = super::patterns::TRUST_DOMAIN))]
    pub trust_domain: Option<String>,
    /// Deprecated: use clusterName of the ZeroTrustWorkloadIdentityManager. The driver does not need it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = super::patterns::CLUSTER_NAME))]
    pub cluster_name: Option<String>,
    /// Deprecated: use bundleConfig of the ZeroTrustWorkloadIdentityManager. The driver does not need it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = super::patterns::CONFIG_MAP))]
    pub bundle_config_map: Option<String>,
}

impl Default for SpiffeCsiDriverSpec {
    fn default() -> Self {
        Self {
            agent_socket_path: super::names::SOCKET_DIRECTORY.to_owned(),
            plugin_name: super::names::PLUGIN.to_owned(),
            registrar_resources: None,
            common: CommonConfig::default(),
            trust_domain: None,
            cluster_name: None,
            bundle_config_map: None,
        }
    }
}
