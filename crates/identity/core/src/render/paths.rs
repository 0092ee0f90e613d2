//! Where programs find files inside their containers. Configuration files and pods agree on these.

/// The directory of `server.conf`.
pub const SERVER_CONFIG: &str = "/run/spire/config";
/// The volume of the server: its database and its keys.
pub const SERVER_DATA: &str = "/run/spire/data";
/// The keys of the server, if they are on its volume.
pub const SERVER_KEYS: &str = "/run/spire/data/keys.json";
/// The directory with the administrative socket of the server, which the controller-manager uses.
pub const SERVER_SOCKET_DIRECTORY: &str = "/tmp/spire-server/private";
/// The administrative socket of the server: where SPIRE puts it if nothing is said.
pub const SERVER_SOCKET: &str = "/tmp/spire-server/private/api.sock";
/// The TLS files of the connection to the database.
pub const DATABASE_CERTS: &str = "/run/spire/db/certs";
/// The certificate of the federation endpoint.
pub const FEDERATION_CERTS: &str = "/run/spire/server-tls";

/// The configuration file of the controller-manager.
pub const CONTROLLER_MANAGER_CONFIG: &str = "/controller-manager-config.yaml";

/// The directory of `agent.conf`.
pub const AGENT_CONFIG: &str = "/opt/spire/conf/agent";
/// What the agent keeps while its pod lasts.
pub const AGENT_DATA: &str = "/var/lib/spire";
/// The directory with the socket of the Workload API; the directory of the node in the spec is mounted here.
pub const AGENT_SOCKET_DIRECTORY: &str = "/tmp/spire-agent/public";
/// The directory with the trust bundle.
pub const AGENT_BUNDLE: &str = "/run/spire/bundle";
/// The directory with the token by which the agent attests: where SPIRE looks for it if nothing is said.
pub const AGENT_TOKENS: &str = "/var/run/secrets/tokens";
/// The CA of the cluster, which kubelet gives every pod with a token.
pub const CLUSTER_CA: &str = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt";
/// Where kubelet keeps its certificates on most nodes.
pub const KUBELET_PKI: &str = "/var/lib/kubelet/pki";

/// The configuration file of the OIDC discovery provider.
pub const OIDC_CONFIG: &str = "/run/spire/oidc/config/oidc-discovery-provider.conf";
/// The volume of the CSI driver, with the socket of the Workload API.
pub const WORKLOAD_API: &str = "/spiffe-workload-api";
/// The serving certificate of the OIDC discovery provider.
pub const OIDC_CERTS: &str = "/etc/oidc/tls";
