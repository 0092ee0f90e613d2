//! The ClusterRoles of the programs. They come with the installation, so that the manager needs no right to make roles.

use serde_json::{Value, json};
use trustplane_api::identity::names;

/// Every ClusterRole by its name, with its rules in the form of Kubernetes.
pub fn cluster_roles() -> Vec<(&'static str, Value)> {
    vec![
        (names::SERVER_ROLE, server()),
        (names::AGENT_ROLE, agent()),
        (names::CONTROLLER_MANAGER_ROLE, controller_manager()),
    ]
}

/// What attestation by k8s_psat needs: is the token genuine, and which node and pod is it of?
fn server() -> Value {
    json!([
        { "apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"] },
        { "apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["get"] },
    ])
}

/// What asking kubelet for its pods needs, from Kubernetes 1.33 on. The agent does not ask the API server.
fn agent() -> Value {
    json!([{ "apiGroups": [""], "resources": ["nodes/pods"], "verbs": ["get"] }])
}

/// What the controller-manager needs, which reads everything from its caches.
fn controller_manager() -> Value {
    json!([
        {
            "apiGroups": [""],
            "resources": ["endpoints", "namespaces", "nodes", "pods"],
            "verbs": ["list", "watch"],
        },
        // Its watch is of all of them; it changes its own.
        {
            "apiGroups": ["admissionregistration.k8s.io"],
            "resources": ["validatingwebhookconfigurations"],
            "verbs": ["list", "watch"],
        },
        {
            "apiGroups": ["admissionregistration.k8s.io"],
            "resources": ["validatingwebhookconfigurations"],
            "resourceNames": [names::CONTROLLER_MANAGER_WEBHOOK],
            "verbs": ["get", "patch"],
        },
        {
            "apiGroups": ["spire.spiffe.io"],
            "resources": ["clusterfederatedtrustdomains", "clusterspiffeids", "clusterstaticentries"],
            "verbs": ["list", "watch"],
        },
        {
            "apiGroups": ["spire.spiffe.io"],
            "resources": ["clusterspiffeids/status", "clusterstaticentries/status"],
            "verbs": ["update"],
        },
    ])
}
