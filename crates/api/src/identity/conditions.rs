//! The words of the capability in conditions and events. Each word is spelled here and nowhere else.
//!
//! The constants of this module are the types of conditions. People and alerts rely on the words, so a word never changes. Most words
//! are those of the Zero Trust Workload Identity Manager.

pub use trustplane_plan::condition::READY;

/// Whether the spec makes sense.
pub const CONFIGURATION_VALID: &str = "ConfigurationValid";
/// Whether the controller leaves existing children unchanged.
pub const CREATE_ONLY_MODE: &str = "CreateOnlyMode";
/// Whether the ServiceAccount is there.
pub const SERVICE_ACCOUNT_AVAILABLE: &str = "ServiceAccountAvailable";
/// Whether the Services are there.
pub const SERVICE_AVAILABLE: &str = "ServiceAvailable";
/// Whether roles and bindings are there.
pub const RBAC_AVAILABLE: &str = "RBACAvailable";
/// Of SpireServer: whether the ValidatingWebhookConfiguration of the controller-manager is there.
pub const VALIDATING_WEBHOOK_AVAILABLE: &str = "ValidatingWebhookAvailable";
/// Of SpireServer: whether the ConfigMap of the server is there.
pub const SERVER_CONFIG_MAP_AVAILABLE: &str = "ServerConfigMapAvailable";
/// Of SpireServer: whether the ConfigMap of the controller-manager is there.
pub const CONTROLLER_MANAGER_CONFIG_AVAILABLE: &str = "ControllerManagerConfigAvailable";
/// Of SpireServer: whether the ConfigMap for the trust bundle is there.
pub const BUNDLE_CONFIG_AVAILABLE: &str = "BundleConfigAvailable";
/// Of SpireServer: whether the validities fit together.
pub const TTL_CONFIGURATION_VALID: &str = "TTLConfigurationValid";
/// Of SpireServer: whether the StatefulSet is there and ready.
pub const STATEFUL_SET_AVAILABLE: &str = "StatefulSetAvailable";
/// Of SpireServer and SpireOIDCDiscoveryProvider: whether the Route is there.
pub const ROUTE_AVAILABLE: &str = "RouteAvailable";
/// Of SpireAgent and SpiffeCSIDriver: whether the SecurityContextConstraints are there, where they exist.
pub const SECURITY_CONTEXT_CONSTRAINTS_AVAILABLE: &str = "SecurityContextConstraintsAvailable";
/// Of SpireAgent and SpireOIDCDiscoveryProvider: whether the ConfigMap is there.
pub const CONFIG_MAP_AVAILABLE: &str = "ConfigMapAvailable";
/// Of SpireAgent and SpiffeCSIDriver: whether the DaemonSet is there and ready.
pub const DAEMON_SET_AVAILABLE: &str = "DaemonSetAvailable";
/// Of SpiffeCSIDriver: whether the CSIDriver is there.
pub const CSI_DRIVER_AVAILABLE: &str = "CSIDriverAvailable";
/// Of SpireOIDCDiscoveryProvider: whether its ClusterSPIFFEID is there.
pub const CLUSTER_SPIFFE_ID_AVAILABLE: &str = "ClusterSPIFFEIDAvailable";
/// Of SpireOIDCDiscoveryProvider: whether the Deployment is there and ready.
pub const DEPLOYMENT_AVAILABLE: &str = "DeploymentAvailable";
/// Of ZTWIM: whether the operands are there and ready.
pub const OPERANDS_AVAILABLE: &str = "OperandsAvailable";

/// Of an operand: whether the namespace of its children exists and permits their pods. Only set while it does not.
pub const NAMESPACE_READY: &str = "NamespaceReady";
/// Of SpireServer and SpireOIDCDiscoveryProvider: whether the PodDisruptionBudget is there.
pub const POD_DISRUPTION_BUDGET_AVAILABLE: &str = "PodDisruptionBudgetAvailable";
/// Of SpireOIDCDiscoveryProvider: whether the Secret with its certificate is there.
pub const CERTIFICATE_AVAILABLE: &str = "CertificateAvailable";

/// The reasons of conditions.
pub mod reason {
    /// The object, or the part of it, is ready.
    pub const READY: &str = "Ready";
    /// The object, or the part of it, is not ready yet.
    pub const PROGRESSING: &str = "Progressing";
    /// The object, or the part of it, cannot get ready without a change.
    pub const FAILED: &str = "Failed";

    /// Of ConfigurationValid: the spec makes sense.
    pub const CONFIGURATION_VALID: &str = "ConfigurationValid";
    /// Of ConfigurationValid: affinity makes no sense.
    pub const INVALID_AFFINITY: &str = "InvalidAffinity";
    /// Of ConfigurationValid: a toleration makes no sense.
    pub const INVALID_TOLERATIONS: &str = "InvalidTolerations";
    /// Of ConfigurationValid: nodeSelector makes no sense.
    pub const INVALID_NODE_SELECTOR: &str = "InvalidNodeSelector";
    /// Of ConfigurationValid: resources make no sense.
    pub const INVALID_RESOURCES: &str = "InvalidResources";
    /// Of ConfigurationValid: a label makes no sense.
    pub const INVALID_LABELS: &str = "InvalidLabels";
    /// Of ConfigurationValid: a proxy is set, and no ConfigMap with the CA of the proxy.
    pub const PROXY_CONFIGURATION_INVALID: &str = "ProxyConfigurationInvalid";
    /// Of ConfigurationValid: jwtIssuer makes no sense.
    pub const INVALID_JWT_ISSUER_URL: &str = "InvalidJWTIssuerURL";
    /// Of ConfigurationValid: federation makes no sense.
    pub const INVALID_FEDERATION_CONFIGURATION: &str = "InvalidFederationConfiguration";

    /// Of ConfigurationValid: a value is needed, and no object has it.
    pub const VALUE_REQUIRED: &str = "ValueRequired";
    /// Of ConfigurationValid: a value makes no sense.
    pub const VALUE_INVALID: &str = "ValueInvalid";
    /// Of ConfigurationValid: two objects say different things. What runs is left as it is.
    pub const CONFIGURATION_CONFLICT: &str = "ConfigurationConflict";
    /// Of ConfigurationValid: the data of the server belongs to another trust domain. What runs is left as it is.
    pub const TRUST_DOMAIN_CHANGE_PENDING: &str = "TrustDomainChangePending";
    /// Of ConfigurationValid: the manager may not run operands in the namespace.
    pub const NAMESPACE_NOT_SERVED: &str = "NamespaceNotServed";
    /// Of NamespaceReady: there is no such namespace.
    pub const NAMESPACE_MISSING: &str = "NamespaceMissing";
    /// Of NamespaceReady: the manager has no rights in it.
    pub const NAMESPACE_FORBIDDEN: &str = "NamespaceForbidden";
    /// Of NamespaceReady: it enforces a pod security level that refuses the pods.
    pub const POD_SECURITY_TOO_STRICT: &str = "PodSecurityTooStrict";
    /// An object of ours, or one of its name, is being deleted.
    pub const TERMINATING: &str = "Terminating";

    /// Of CreateOnlyMode: the mode is on.
    pub const CREATE_ONLY_MODE_ENABLED: &str = "CreateOnlyModeEnabled";
    /// Of CreateOnlyMode: the mode is off, and was on.
    pub const CREATE_ONLY_MODE_DISABLED: &str = "CreateOnlyModeDisabled";

    /// A foreign object has the name of a child. The controller leaves the object alone.
    pub const RESOURCE_CONFLICT: &str = "ResourceConflict";

    /// Of ServerConfigMapAvailable: the object is there.
    pub const SPIRE_CONFIG_MAP_RESOURCE_CREATED: &str = "SpireConfigMapResourceCreated";
    /// Of ServerConfigMapAvailable: the object is not there.
    pub const SPIRE_SERVER_CONFIG_MAP_GENERATION_FAILED: &str = "SpireServerConfigMapGenerationFailed";
    /// Of ControllerManagerConfigAvailable: the object is there.
    pub const SPIRE_CONTROLLER_MANAGER_CONFIG_MAP_CREATED: &str = "SpireControllerManagerConfigMapCreated";
    /// Of ControllerManagerConfigAvailable: the object is not there.
    pub const SPIRE_CONTROLLER_MANAGER_CONFIG_MAP_GENERATION_FAILED: &str =
        "SpireControllerManagerConfigMapGenerationFailed";
    /// Of BundleConfigAvailable: the object is there.
    pub const SPIRE_BUNDLE_CONFIG_MAP_CREATED: &str = "SpireBundleConfigMapCreated";
    /// Of BundleConfigAvailable: the object is not there.
    pub const SPIRE_BUNDLE_CONFIG_MAP_GENERATION_FAILED: &str = "SpireBundleConfigMapGenerationFailed";

    /// Of TTLConfigurationValid: the validities fit together.
    pub const TTL_VALIDATION_SUCCEEDED: &str = "TTLValidationSucceeded";
    /// Of TTLConfigurationValid, which is True: SVIDs may be valid for a shorter time than the spec says.
    pub const TTL_VALIDATION_WARNING: &str = "TTLValidationWarning";
    /// Of TTLConfigurationValid: the validities do not fit together.
    pub const TTL_VALIDATION_FAILED: &str = "TTLValidationFailed";

    /// Of StatefulSetAvailable: the workload is ready.
    pub const STATEFUL_SET_READY: &str = "StatefulSetReady";
    /// Of StatefulSetAvailable: the workload is not ready yet.
    pub const STATEFUL_SET_NOT_READY: &str = "StatefulSetNotReady";
    /// Of StatefulSetAvailable: the object is not there.
    pub const STATEFUL_SET_NOT_FOUND: &str = "StatefulSetNotFound";
    /// Of DaemonSetAvailable: the workload is ready.
    pub const DAEMON_SET_READY: &str = "DaemonSetReady";
    /// Of DaemonSetAvailable: the workload is not ready yet.
    pub const DAEMON_SET_NOT_READY: &str = "DaemonSetNotReady";
    /// Of DaemonSetAvailable: the object is not there.
    pub const DAEMON_SET_NOT_FOUND: &str = "DaemonSetNotFound";
    /// Of DeploymentAvailable: the workload is ready.
    pub const DEPLOYMENT_READY: &str = "DeploymentReady";
    /// Of DeploymentAvailable: the workload is not ready yet.
    pub const DEPLOYMENT_NOT_READY: &str = "DeploymentNotReady";
    /// Of DeploymentAvailable: the object is not there.
    pub const DEPLOYMENT_NOT_FOUND: &str = "DeploymentNotFound";

    /// Of ConfigMapAvailable of SpireAgent: the object is there.
    pub const SPIRE_AGENT_CONFIG_MAP_RESOURCE_CREATED: &str = "SpireAgentConfigMapResourceCreated";
    /// Of ConfigMapAvailable of SpireAgent: the object is not there.
    pub const SPIRE_AGENT_CONFIG_MAP_GENERATION_FAILED: &str = "SpireAgentConfigMapGenerationFailed";
    /// Of ConfigMapAvailable of SpireOIDCDiscoveryProvider: the object is there.
    pub const SPIRE_OIDC_CONFIG_MAP_CREATION_SUCCEEDED: &str = "SpireOIDCConfigMapCreationSucceeded";
    /// Of ConfigMapAvailable of SpireOIDCDiscoveryProvider: the object is not there.
    pub const SPIRE_OIDC_CONFIG_MAP_CREATION_FAILED: &str = "SpireOIDCConfigMapCreationFailed";
    /// Of ClusterSPIFFEIDAvailable: the object is there.
    pub const SPIRE_CLUSTER_SPIFFE_ID_RESOURCES_READY: &str = "SpireClusterSpiffeIDResourcesReady";
    /// Of ClusterSPIFFEIDAvailable: the object is not there.
    pub const SPIRE_CLUSTER_SPIFFE_ID_CREATION_FAILED: &str = "SpireClusterSpiffeIDCreationFailed";
}

/// The reasons of events that are no reason of a condition.
pub mod event {
    /// Of ZTWIM: it gets values that only operands had.
    pub const INITIALIZING_ZTWIM: &str = "InitializingZTWIM";
    /// Of ZTWIM: a value that it got had better be written there by hand.
    pub const CONSIDER_MOVING_TO_ZTWIM: &str = "ConsiderMovingToZTWIM";
    /// SVIDs may be valid for a shorter time than the SpireServer says.
    pub const TTL_CONFIGURATION_WARNING: &str = "TTLConfigurationWarning";
}
