//! Kinds of Kubernetes itself, each defined once.
//!
//! Watches, plans and reads name kinds by these constants. Kinds of our own APIs are in `trustplane-api`. A kind that is missing
//! here is added here: `cargo xtask lint` refuses a second definition of a kind anywhere in the workspace.
//!
//! ```
//! use trustplane_plan::{ObjectRef, kinds::SECRET};
//!
//! assert_eq!(SECRET.object_path(&ObjectRef::new(Some("shop"), "db")), "/api/v1/namespaces/shop/secrets/db");
//! ```

use crate::{Kind, Scope};

/// ConfigMaps.
pub const CONFIG_MAP: Kind = Kind::new("", "v1", "ConfigMap", "configmaps", Scope::Namespaced);
/// Events of the group `events.k8s.io`: what we write.
pub const EVENT: Kind = Kind::new("events.k8s.io", "v1", "Event", "events", Scope::Namespaced);
/// Events of the core group: the same objects as [`EVENT`] under their older names.
pub const CORE_EVENT: Kind = Kind::new("", "v1", "Event", "events", Scope::Namespaced);
/// Namespaces.
pub const NAMESPACE: Kind = Kind::new("", "v1", "Namespace", "namespaces", Scope::Cluster);
/// Nodes.
pub const NODE: Kind = Kind::new("", "v1", "Node", "nodes", Scope::Cluster);
/// PersistentVolumeClaims.
pub const PERSISTENT_VOLUME_CLAIM: Kind = Kind::new(
    "",
    "v1",
    "PersistentVolumeClaim",
    "persistentvolumeclaims",
    Scope::Namespaced,
);
/// Pods.
pub const POD: Kind = Kind::new("", "v1", "Pod", "pods", Scope::Namespaced);
/// Secrets.
pub const SECRET: Kind = Kind::new("", "v1", "Secret", "secrets", Scope::Namespaced);
/// Services.
pub const SERVICE: Kind = Kind::new("", "v1", "Service", "services", Scope::Namespaced);
/// ServiceAccounts.
pub const SERVICE_ACCOUNT: Kind = Kind::new("", "v1", "ServiceAccount", "serviceaccounts", Scope::Namespaced);

/// DaemonSets.
pub const DAEMON_SET: Kind = Kind::new("apps", "v1", "DaemonSet", "daemonsets", Scope::Namespaced);
/// Deployments.
pub const DEPLOYMENT: Kind = Kind::new("apps", "v1", "Deployment", "deployments", Scope::Namespaced);
/// StatefulSets.
pub const STATEFUL_SET: Kind = Kind::new("apps", "v1", "StatefulSet", "statefulsets", Scope::Namespaced);

/// CronJobs.
pub const CRON_JOB: Kind = Kind::new("batch", "v1", "CronJob", "cronjobs", Scope::Namespaced);
/// Jobs.
pub const JOB: Kind = Kind::new("batch", "v1", "Job", "jobs", Scope::Namespaced);

/// Ingresses.
pub const INGRESS: Kind = Kind::new(
    "networking.k8s.io",
    "v1",
    "Ingress",
    "ingresses",
    Scope::Namespaced,
);
/// NetworkPolicies.
pub const NETWORK_POLICY: Kind = Kind::new(
    "networking.k8s.io",
    "v1",
    "NetworkPolicy",
    "networkpolicies",
    Scope::Namespaced,
);

/// PodDisruptionBudgets.
pub const POD_DISRUPTION_BUDGET: Kind = Kind::new(
    "policy",
    "v1",
    "PodDisruptionBudget",
    "poddisruptionbudgets",
    Scope::Namespaced,
);

/// CSIDrivers.
pub const CSI_DRIVER: Kind = Kind::new("storage.k8s.io", "v1", "CSIDriver", "csidrivers", Scope::Cluster);

/// ClusterRoles.
pub const CLUSTER_ROLE: Kind = Kind::new(
    "rbac.authorization.k8s.io",
    "v1",
    "ClusterRole",
    "clusterroles",
    Scope::Cluster,
);
/// ClusterRoleBindings.
pub const CLUSTER_ROLE_BINDING: Kind = Kind::new(
    "rbac.authorization.k8s.io",
    "v1",
    "ClusterRoleBinding",
    "clusterrolebindings",
    Scope::Cluster,
);
/// Roles.
pub const ROLE: Kind = Kind::new(
    "rbac.authorization.k8s.io",
    "v1",
    "Role",
    "roles",
    Scope::Namespaced,
);
/// RoleBindings.
pub const ROLE_BINDING: Kind = Kind::new(
    "rbac.authorization.k8s.io",
    "v1",
    "RoleBinding",
    "rolebindings",
    Scope::Namespaced,
);

/// ValidatingWebhookConfigurations.
pub const VALIDATING_WEBHOOKS: Kind = Kind::new(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    Scope::Cluster,
);
/// MutatingWebhookConfigurations.
pub const MUTATING_WEBHOOKS: Kind = Kind::new(
    "admissionregistration.k8s.io",
    "v1",
    "MutatingWebhookConfiguration",
    "mutatingwebhookconfigurations",
    Scope::Cluster,
);
