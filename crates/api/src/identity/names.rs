//! Names, labels and annotations that the parts of the capability, and people, know things by.

/// The name of the one object of each kind.
pub const SINGLETON: &str = "cluster";
/// The annotation of an operand with the fields that we filled in, and what with, as JSON.
pub const INHERITED: &str = "ztwim.io/inherited";
/// The annotation that asks for create-only mode, with the value `true`.
pub const CREATE_ONLY: &str = "ztwim.openshift.io/create-only";
/// What every object that we make bears in the label `app.kubernetes.io/managed-by` and in `app.kubernetes.io/part-of`.
pub const MANAGED_BY: &str = "zero-trust-workload-identity-manager";
/// What every object that we make bears in the label `app.kubernetes.io/instance`.
pub const INSTANCE: &str = "cluster-zero-trust-workload-identity-manager";
/// The class of our controller-manager: it heeds ClusterSPIFFEIDs and their like with this class alone.
pub const CLASS_NAME: &str = "zero-trust-workload-identity-manager-spire";
/// The namespace in which operands usually run.
pub const DEFAULT_NAMESPACE: &str = "zero-trust-workload-identity-manager";
/// The ConfigMap with the trust bundle, if no other is named; also the Role and RoleBinding that let the server write it.
pub const BUNDLE: &str = "spire-bundle";
/// The key of the ConfigMap with the trust bundle.
pub const BUNDLE_KEY: &str = "bundle.crt";
/// The directory of nodes in which the socket of the agent is, if no other is said.
pub const SOCKET_DIRECTORY: &str = "/run/spire/agent-sockets";
/// The file name of the socket of the agent.
pub const SOCKET: &str = "spire-agent.sock";
/// The name of the CSI driver, if no other is said.
pub const PLUGIN: &str = "csi.spiffe.io";

/// The objects of the server: StatefulSet, ConfigMap, Service, ServiceAccount and ClusterRoleBinding.
pub const SERVER: &str = "spire-server";
/// The objects of the controller-manager: ConfigMap and ClusterRoleBinding.
pub const CONTROLLER_MANAGER: &str = "spire-controller-manager";
/// The Role and RoleBinding of the election among controller-managers.
pub const CONTROLLER_MANAGER_ELECTION: &str = "spire-controller-manager-leader-election";
/// The Service and the ValidatingWebhookConfiguration of the controller-manager.
pub const CONTROLLER_MANAGER_WEBHOOK: &str = "spire-controller-manager-webhook";
/// The Role and RoleBinding that let a router read the certificate of the federation endpoint.
pub const SERVER_CERT_READER: &str = "spire-server-external-cert-reader";
/// The Route of the federation endpoint.
pub const SERVER_FEDERATION: &str = "spire-server-federation";
/// The Secret with the certificate of the federation endpoint.
pub const SERVER_CERT: &str = "spire-server-serving-cert";
/// The objects of the agents: DaemonSet, ConfigMap, Service, ServiceAccount and ClusterRoleBinding.
pub const AGENT: &str = "spire-agent";
/// The DaemonSet and ServiceAccount of the CSI driver.
pub const CSI_DRIVER: &str = "spire-spiffe-csi-driver";
/// The Deployment, ConfigMap, Service and ServiceAccount of the OIDC discovery provider.
pub const OIDC: &str = "spire-spiffe-oidc-discovery-provider";
/// The Route of the OIDC discovery provider.
pub const OIDC_ROUTE: &str = "spire-oidc-discovery-provider";
/// The Secret with the certificate of the OIDC discovery provider.
pub const OIDC_CERT: &str = "oidc-serving-cert";
/// The Role and RoleBinding that let a router read the certificate of the OIDC discovery provider.
pub const OIDC_CERT_READER: &str = "spire-oidc-external-cert-reader";
/// The ClusterSPIFFEID of the OIDC discovery provider.
pub const OIDC_IDENTITY: &str = "zero-trust-workload-identity-manager-spire-oidc-discovery-provider";
/// The ClusterSPIFFEID of all pods that no other selects.
pub const DEFAULT_IDENTITY: &str = "zero-trust-workload-identity-manager-spire-default";

/// The key of the ConfigMap [`SERVER`].
pub const SERVER_CONF: &str = "server.conf";
/// The key of the ConfigMap [`CONTROLLER_MANAGER`].
pub const CONTROLLER_MANAGER_CONF: &str = "controller-manager-config.yaml";
/// The key of the ConfigMap [`AGENT`].
pub const AGENT_CONF: &str = "agent.conf";
/// The key of the ConfigMap [`OIDC`].
pub const OIDC_CONF: &str = "oidc-discovery-provider.conf";

/// The annotation of a pod with the hash of [`SERVER_CONF`].
pub const SERVER_HASH: &str = "ztwim.openshift.io/spire-server-config-hash";
/// The annotation of a pod with the hash of [`CONTROLLER_MANAGER_CONF`].
pub const CONTROLLER_MANAGER_HASH: &str = "ztwim.openshift.io/spire-controller-manager-config-hash";
/// The annotation of a pod with the hash of [`AGENT_CONF`].
pub const AGENT_HASH: &str = "ztwim.openshift.io/spire-agent-config-hash";
/// The annotation of a pod with the hash of [`OIDC_CONF`].
pub const OIDC_HASH: &str = "ztwim.openshift.io/spire-oidc-discovery-provider-config-hash";

/// The ClusterRole of the server, which comes with the installation.
pub const SERVER_ROLE: &str = "trustplane-spire-server";
/// The ClusterRole of the agents, which comes with the installation.
pub const AGENT_ROLE: &str = "trustplane-spire-agent";
/// The ClusterRole of the controller-manager, which comes with the installation.
pub const CONTROLLER_MANAGER_ROLE: &str = "trustplane-spire-controller-manager";
