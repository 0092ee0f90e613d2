//! SpireOIDCDiscoveryProvider.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CommonConfig, LogFormat, LogLevel, StringBool};

/// The OIDC discovery provider, which serves the keys to verify JWT SVIDs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(
    feature = "crd",
    derive(kube::CustomResource),
    kube(
        group = "operator.openshift.io",
        version = "v1alpha1",
        kind = "SpireOIDCDiscoveryProvider",
        root = "SpireOidcDiscoveryProvider",
        plural = "spireoidcdiscoveryproviders",
        shortname = "spireoidc",
        category = "trustplane",
        category = "spire",
        schema = "manual",
        status = "super::OperandCrStatus",
        printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
        printcolumn = r#"{"name":"Reason","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].reason"}"#,
        printcolumn = r#"{"name":"Issuer","type":"string","jsonPath":".spec.jwtIssuer"}"#,
        printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
    )
)]
#[serde(rename_all = "camelCase", default)]
pub struct SpireOidcDiscoveryProviderSpec {
    /// How much the provider logs.
    pub log_level: LogLevel,
    /// The format of the provider's log.
    pub log_format: LogFormat,
    /// The CSI driver that gives the provider the socket of the agent: pluginName of the SpiffeCSIDriver.
    #[schemars(length(min = 1, max = 127), regex(pattern = super::patterns::NAME))]
    pub csi_driver_name: String,
    /// The URL of the provider; jwtIssuer of the SpireServer if this is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512), regex(pattern = super::patterns::URL))]
    pub jwt_issuer: Option<String>,
    /// The number of pods.
    #[schemars(range(min = 1, max = 5))]
    pub replica_count: i32,
    /// Whether the provider gets a Route, on clusters that know Routes.
    pub managed_route: StringBool,
    /// The Secret, in the namespace of the operands, with a certificate for the Route.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), regex(pattern = super::patterns::OPTIONAL_NAME))]
    pub external_secret_ref: Option<String>,
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
    /// Deprecated and ignored: the name of the agent's socket is always spire-agent.sock.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub agent_socket_name: Option<String>,
}

impl Default for SpireOidcDiscoveryProviderSpec {
    fn default() -> Self {
        Self {
            log_level: LogLevel::default(),
            log_format: LogFormat::default(),
            csi_driver_name: super::names::PLUGIN.to_owned(),
            jwt_issuer: None,
            replica_count: 1,
            managed_route: StringBool::True,
            external_secret_ref: None,
            common: CommonConfig::default(),
            trust_domain: None,
            cluster_name: None,
            bundle_config_map: None,
            agent_socket_name: None,
        }
    }
}
