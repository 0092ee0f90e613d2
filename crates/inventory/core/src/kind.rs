//! The kinds of the inventory, and the names that each of them has on the wire, in a status and in the chart.

use trustplane_plan::{Kind, Scope, kinds};

/// A kind that the inventory covers. The order is that of the arrays in a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum InventoryKind {
    /// Namespaces.
    Namespace,
    /// Pods.
    Pod,
    /// Services.
    Service,
    /// Nodes.
    Node,
    /// Deployments.
    Deployment,
    /// StatefulSets.
    StatefulSet,
    /// DaemonSets.
    DaemonSet,
    /// Jobs.
    Job,
    /// CronJobs.
    CronJob,
    /// Ingresses.
    Ingress,
    /// NetworkPolicies.
    NetworkPolicy,
    /// ConfigMaps: the names of their keys, never a value.
    ConfigMap,
    /// Secrets: the names of their keys, never a value.
    Secret,
    /// PersistentVolumeClaims.
    PersistentVolumeClaim,
    /// ServiceAccounts.
    ServiceAccount,
    /// Roles.
    Role,
    /// ClusterRoles.
    ClusterRole,
    /// RoleBindings.
    RoleBinding,
    /// ClusterRoleBindings.
    ClusterRoleBinding,
    /// Events of the core group.
    Event,
}

/// The names of one kind, in the order of the functions of [`InventoryKind`] that return them.
struct Names {
    name: &'static str,
    array: &'static str,
    count: &'static str,
    part: &'static str,
    kind: Kind,
}

const fn names(
    name: &'static str,
    array: &'static str,
    count: &'static str,
    part: &'static str,
    kind: Kind,
) -> Names {
    Names {
        name,
        array,
        count,
        part,
        kind,
    }
}

/// One row for each kind, in the order of the enum.
#[rustfmt::skip]
static NAMES: [Names; 20] = [
    names("Namespace", "namespaces", "namespaces", "namespaces", kinds::NAMESPACE),
    names("Pod", "pods", "pods", "pods", kinds::POD),
    names("Service", "services", "services", "services", kinds::SERVICE),
    names("Node", "nodes", "nodes", "nodes", kinds::NODE),
    names("Deployment", "deployments", "deployments", "deployments", kinds::DEPLOYMENT),
    names("StatefulSet", "statefulsets", "statefulSets", "stateful-sets", kinds::STATEFUL_SET),
    names("DaemonSet", "daemonsets", "daemonSets", "daemon-sets", kinds::DAEMON_SET),
    names("Job", "jobs", "jobs", "jobs", kinds::JOB),
    names("CronJob", "cronjobs", "cronJobs", "cron-jobs", kinds::CRON_JOB),
    names("Ingress", "ingresses", "ingresses", "ingresses", kinds::INGRESS),
    names("NetworkPolicy", "network_policies", "networkPolicies", "network-policies", kinds::NETWORK_POLICY),
    names("ConfigMap", "configmaps", "configMaps", "config-maps", kinds::CONFIG_MAP),
    names("Secret", "secrets", "secrets", "secrets", kinds::SECRET),
    names("PersistentVolumeClaim", "pvcs", "pvcs", "persistent-volume-claims", kinds::PERSISTENT_VOLUME_CLAIM),
    names("ServiceAccount", "service_accounts", "serviceAccounts", "service-accounts", kinds::SERVICE_ACCOUNT),
    names("Role", "roles", "roles", "roles", kinds::ROLE),
    names("ClusterRole", "cluster_roles", "clusterRoles", "cluster-roles", kinds::CLUSTER_ROLE),
    names("RoleBinding", "role_bindings", "roleBindings", "role-bindings", kinds::ROLE_BINDING),
    names("ClusterRoleBinding", "cluster_role_bindings", "clusterRoleBindings", "cluster-role-bindings", kinds::CLUSTER_ROLE_BINDING),
    names("Event", "events", "events", "events", kinds::CORE_EVENT),
];

impl InventoryKind {
    /// All kinds, in the order of the arrays in a snapshot.
    pub const ALL: [Self; 20] = [
        Self::Namespace,
        Self::Pod,
        Self::Service,
        Self::Node,
        Self::Deployment,
        Self::StatefulSet,
        Self::DaemonSet,
        Self::Job,
        Self::CronJob,
        Self::Ingress,
        Self::NetworkPolicy,
        Self::ConfigMap,
        Self::Secret,
        Self::PersistentVolumeClaim,
        Self::ServiceAccount,
        Self::Role,
        Self::ClusterRole,
        Self::RoleBinding,
        Self::ClusterRoleBinding,
        Self::Event,
    ];

    /// The word in `kind` of an event on the wire, such as `Pod`.
    pub fn name(self) -> &'static str {
        self.names().name
    }

    /// The key of the array in a snapshot, such as `network_policies`.
    pub fn array(self) -> &'static str {
        self.names().array
    }

    /// The key in `status.resourceCounts` of an ObsykAgent, such as `statefulSets`.
    pub fn count(self) -> &'static str {
        self.names().count
    }

    /// The name of the chart's part and of the flag, such as `stateful-sets`.
    pub fn part(self) -> &'static str {
        self.names().part
    }

    /// Whether the kind is always watched, because the seed's contract names it.
    pub fn is_essential(self) -> bool {
        matches!(self, Self::Namespace | Self::Pod | Self::Service)
    }

    /// The kind as Kubernetes names it.
    pub fn kind(self) -> Kind {
        self.names().kind.clone()
    }

    /// Whether each object of the kind belongs to a namespace.
    pub fn is_namespaced(self) -> bool {
        self.names().kind.scope == Scope::Namespaced
    }

    /// Whether the API server is asked for table rows with metadata, so that no value of an object is ever requested.
    pub fn is_table(self) -> bool {
        matches!(self, Self::ConfigMap | Self::Secret)
    }

    /// The kind with this word on the wire, such as `Pod`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The kind whose objects stand under this key of a snapshot.
    pub fn from_array(key: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.array() == key)
    }

    fn names(self) -> &'static Names {
        &NAMES[self as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_the_row_of_its_own_name() {
        for (index, kind) in InventoryKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, index);
            assert_eq!(format!("{kind:?}"), kind.name());
            assert_eq!(kind.kind().kind, kind.name());
            assert_eq!(InventoryKind::from_name(kind.name()), Some(kind));
            assert_eq!(InventoryKind::from_array(kind.array()), Some(kind));
        }
        assert_eq!(InventoryKind::from_name("pod"), None);
        assert_eq!(InventoryKind::from_array("Pod"), None);
    }

    #[test]
    fn arrays_and_counts_are_those_of_the_contract() {
        let arrays: Vec<&str> = InventoryKind::ALL.iter().map(|kind| kind.array()).collect();
        assert_eq!(
            arrays.join(" "),
            "namespaces pods services nodes deployments statefulsets daemonsets jobs cronjobs ingresses network_policies \
             configmaps secrets pvcs service_accounts roles cluster_roles role_bindings cluster_role_bindings events"
        );
        let counts: Vec<&str> = InventoryKind::ALL.iter().map(|kind| kind.count()).collect();
        assert_eq!(
            counts.join(" "),
            "namespaces pods services nodes deployments statefulSets daemonSets jobs cronJobs ingresses networkPolicies \
             configMaps secrets pvcs serviceAccounts roles clusterRoles roleBindings clusterRoleBindings events"
        );
    }

    #[test]
    fn parts_are_lower_case_words_with_dashes() {
        for kind in InventoryKind::ALL {
            assert!(
                kind.part()
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte == b'-'),
                "{}",
                kind.part()
            );
        }
    }

    #[test]
    fn events_are_watched_under_the_core_group() {
        assert_eq!(
            InventoryKind::Event.kind().collection_path(None),
            "/api/v1/events"
        );
    }

    #[test]
    fn four_kinds_have_no_namespace() {
        let cluster: Vec<InventoryKind> = InventoryKind::ALL
            .into_iter()
            .filter(|kind| !kind.is_namespaced())
            .collect();
        assert_eq!(
            cluster,
            [
                InventoryKind::Namespace,
                InventoryKind::Node,
                InventoryKind::ClusterRole,
                InventoryKind::ClusterRoleBinding
            ]
        );
    }
}
