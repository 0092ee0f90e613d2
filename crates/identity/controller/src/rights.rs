//! What the capability does on the API server and nothing else, and what the programs that it runs may do.

use trustplane_api::identity::names;
use trustplane_identity_core::children::cluster_roles;
use trustplane_kit::events::Events;
use trustplane_kit::rights::{Place, Rights, ShippedRole, WATCH};

use crate::pki::Pki;

const GROUP: &str = "operator.openshift.io";
const RBAC: &str = "rbac.authorization.k8s.io";
const KINDS: [&str; 5] = [
    "zerotrustworkloadidentitymanagers",
    "spireservers",
    "spireagents",
    "spiffecsidrivers",
    "spireoidcdiscoveryproviders",
];

/// What the capability does on the API server.
pub fn rights() -> Rights {
    people()
        .and(children())
        .and(cluster_children())
        .and(Pki::rights())
}

/// The five kinds that people write: all are singletons.
fn people() -> Rights {
    let status = KINDS.map(|kind| format!("{kind}/status"));
    let status: Vec<&str> = status.iter().map(String::as_str).collect();
    let only = &[names::SINGLETON];
    let [_, operands @ ..] = &KINDS;
    Rights::none()
        .on_objects(
            Place::Cluster,
            GROUP,
            &KINDS,
            &["get", "list", "watch", "patch"],
            only,
        )
        .on_objects(Place::Cluster, GROUP, &status, &["patch"], only)
        // The admission plugin OwnerReferencesPermissionEnforcement asks for the next two, where it is on: who changes the owner references
        // of an object must be allowed to delete it, and who makes them block the deletion of the owner, to change its finalizers.
        .on_objects(Place::Cluster, GROUP, operands, &["delete"], only)
        .on_objects(
            Place::Cluster,
            GROUP,
            &["zerotrustworkloadidentitymanagers/finalizers"],
            &["update"],
            only,
        )
        .and(Events::rights_about_cluster_objects())
}

/// The children in the namespaces of SPIRE.
fn children() -> Rights {
    let kept = &["get", "list", "watch", "create", "patch", "delete"];
    Rights::none()
        .on(
            Place::Served,
            "",
            &["configmaps", "secrets", "serviceaccounts", "services"],
            kept,
        )
        .on(Place::Served, "", &["namespaces"], &["get"])
        .on(
            Place::Served,
            "apps",
            &["daemonsets", "deployments", "statefulsets"],
            kept,
        )
        .on(Place::Served, "policy", &["poddisruptionbudgets"], kept)
        .on(Place::Served, RBAC, &["roles", "rolebindings"], kept)
}

/// The children without a namespace. Where their names are known, only those are touched.
fn cluster_children() -> Rights {
    let bindings = &[names::SERVER, names::AGENT, names::CONTROLLER_MANAGER];
    let bound = &[
        names::SERVER_ROLE,
        names::AGENT_ROLE,
        names::CONTROLLER_MANAGER_ROLE,
    ];
    let webhook = &[names::CONTROLLER_MANAGER_WEBHOOK];
    let kept = &["get", "list", "watch", "create", "patch", "delete"];
    let made = &["list", "watch", "create"];
    let named = &["get", "patch", "delete"];
    let admission = "admissionregistration.k8s.io";
    Rights::none()
        .on(Place::Cluster, RBAC, &["clusterrolebindings"], made)
        .on_objects(Place::Cluster, RBAC, &["clusterrolebindings"], named, bindings)
        .on_objects(Place::Cluster, RBAC, &["clusterroles"], &["bind"], bound)
        .on(
            Place::Cluster,
            admission,
            &["validatingwebhookconfigurations"],
            made,
        )
        .on_objects(
            Place::Cluster,
            admission,
            &["validatingwebhookconfigurations"],
            named,
            webhook,
        )
        .on(Place::Cluster, "storage.k8s.io", &["csidrivers"], kept)
        .on(Place::Cluster, "spire.spiffe.io", &["clusterspiffeids"], kept)
}

/// The ClusterRoles that come with the installation: those of SPIRE's programs, and two for people.
pub fn roles() -> Vec<ShippedRole> {
    let role = |name: &str, rights: Rights| ShippedRole {
        name: name.to_owned(),
        rules: rights.of(Place::Cluster),
    };
    let spiffe = &[
        "clusterspiffeids",
        "clusterfederatedtrustdomains",
        "clusterstaticentries",
    ];
    let on = |verbs: &[&str]| {
        Rights::none().on(Place::Cluster, GROUP, &KINDS, verbs).on(
            Place::Cluster,
            "spire.spiffe.io",
            spiffe,
            verbs,
        )
    };
    let edits = &["get", "list", "watch", "create", "update", "patch", "delete"];
    let editor = on(edits).on(
        Place::Cluster,
        GROUP,
        &["zerotrustworkloadidentitymanagers/finalizers"],
        &["update"],
    );
    let mut roles: Vec<ShippedRole> = cluster_roles()
        .into_iter()
        .map(|(name, rules)| ShippedRole {
            name: name.to_owned(),
            rules: serde_json::from_value(rules).unwrap_or_default(),
        })
        .collect();
    roles.push(role("trustplane-identity-editor", editor));
    roles.push(role("trustplane-identity-viewer", on(WATCH)));
    roles
}
