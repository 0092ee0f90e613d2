//! The kinds of Kubernetes itself that are read or written.

use crate::{Kind, Scope};

const fn core(kind: &'static str, plural: &'static str) -> Kind {
    Kind::new("", "v1", kind, plural, Scope::Namespaced)
}

const fn apps(kind: &'static str, plural: &'static str) -> Kind {
    Kind::new("apps", "v1", kind, plural, Scope::Namespaced)
}

const fn rbac(kind: &'static str, plural: &'static str) -> Kind {
    Kind::new("rbac.authorization.k8s.io", "v1", kind, plural, Scope::Namespaced)
}

/// ConfigMap.
pub const CONFIG_MAP: Kind = core("ConfigMap", "configmaps");
/// Pod.
pub const POD: Kind = core("Pod", "pods");
/// Secret. What is read of it beyond metadata holds values.
pub const SECRET: Kind = core("Secret", "secrets");
/// ServiceAccount.
pub const SERVICE_ACCOUNT: Kind = core("ServiceAccount", "serviceaccounts");
/// Namespace.
pub const NAMESPACE: Kind = Kind::new("", "v1", "Namespace", "namespaces", Scope::Cluster);
/// DaemonSet.
pub const DAEMON_SET: Kind = apps("DaemonSet", "daemonsets");
/// Deployment.
pub const DEPLOYMENT: Kind = apps("Deployment", "deployments");
/// Role.
pub const ROLE: Kind = rbac("Role", "roles");
/// RoleBinding.
pub const ROLE_BINDING: Kind = rbac("RoleBinding", "rolebindings");
