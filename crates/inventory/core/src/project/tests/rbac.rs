use serde_json::json;

use super::expect;
use crate::kind::InventoryKind::{ClusterRole, ClusterRoleBinding, Role, RoleBinding, ServiceAccount};

const CREATED: &str = "2026-01-01T00:00:00Z";

#[test]
fn service_account_sends_all_its_fields() {
    for automount in [true, false] {
        expect(
            ServiceAccount,
            &json!({
                "metadata": {"uid": "u", "name": "web", "namespace": "shop", "creationTimestamp": CREATED},
                "secrets": [{"name": "z"}, {"name": "a", "namespace": "shop"}], "imagePullSecrets": [{"name": "pull"}],
                "automountServiceAccountToken": automount,
            }),
            &json!({
                "uid": "u", "name": "web", "namespace": "shop", "k8s_created_at": CREATED,
                "secrets": ["z", "a"], "image_pull_secrets": ["pull"], "automount_service_account_token": automount,
            }),
        );
    }
}

#[test]
fn service_account_without_fields_sends_only_its_head() {
    expect(
        ServiceAccount,
        &json!({
            "metadata": {"uid": "u", "name": "web", "namespace": "shop", "creationTimestamp": CREATED},
            "secrets": [], "automountServiceAccountToken": null,
        }),
        &json!({"uid": "u", "name": "web", "namespace": "shop", "k8s_created_at": CREATED}),
    );
}

#[test]
fn role_sends_sorted_unique_resources() {
    expect(
        Role,
        &json!({
            "metadata": {"uid": "u", "name": "edit", "namespace": "shop", "creationTimestamp": CREATED},
            "rules": [
                {"apiGroups": [""], "resources": ["secrets", "pods"], "verbs": ["get"]},
                {"apiGroups": ["apps"], "resources": ["deployments", "pods"], "verbs": ["*"], "resourceNames": ["x"]},
                {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
            ],
        }),
        &json!({
            "uid": "u", "name": "edit", "namespace": "shop", "k8s_created_at": CREATED,
            "is_cluster": false, "rule_count": 3, "resources": ["deployments", "pods", "secrets"],
        }),
    );
}

#[test]
fn role_without_rules_sends_an_empty_list() {
    for rules in [json!(null), json!([])] {
        expect(
            Role,
            &json!({"metadata": {"uid": "u", "name": "none", "namespace": "shop", "creationTimestamp": CREATED}, "rules": rules}),
            &json!({
                "uid": "u", "name": "none", "namespace": "shop", "k8s_created_at": CREATED,
                "is_cluster": false, "rule_count": 0, "resources": [],
            }),
        );
    }
}

#[test]
fn cluster_role_has_no_namespace() {
    expect(
        ClusterRole,
        &json!({
            "metadata": {"uid": "u", "name": "view", "creationTimestamp": CREATED},
            "rules": [{"nonResourceURLs": ["/healthz"], "verbs": ["get"]}],
            "aggregationRule": {"clusterRoleSelectors": []},
        }),
        &json!({
            "uid": "u", "name": "view", "k8s_created_at": CREATED, "is_cluster": true, "rule_count": 1, "resources": [],
        }),
    );
}

#[test]
fn role_binding_sends_its_role_and_subjects() {
    expect(
        RoleBinding,
        &json!({
            "metadata": {"uid": "u", "name": "edit", "namespace": "shop", "creationTimestamp": CREATED},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
            "subjects": [
                {"kind": "ServiceAccount", "name": "web", "namespace": "shop"},
                {"kind": "User", "name": "ada", "apiGroup": "rbac.authorization.k8s.io"},
            ],
        }),
        &json!({
            "uid": "u", "name": "edit", "namespace": "shop", "k8s_created_at": CREATED, "is_cluster": false,
            "role_ref": {"kind": "ClusterRole", "name": "edit"},
            "subjects": [{"kind": "ServiceAccount", "name": "web", "namespace": "shop"}, {"kind": "User", "name": "ada"}],
        }),
    );
}

#[test]
fn cluster_role_binding_without_subjects_omits_them() {
    expect(
        ClusterRoleBinding,
        &json!({
            "metadata": {"uid": "u", "name": "admin", "creationTimestamp": CREATED},
            "roleRef": {"kind": "ClusterRole", "name": "cluster-admin"}, "subjects": [],
        }),
        &json!({
            "uid": "u", "name": "admin", "k8s_created_at": CREATED, "is_cluster": true,
            "role_ref": {"kind": "ClusterRole", "name": "cluster-admin"},
        }),
    );
    expect(
        ClusterRoleBinding,
        &json!({"metadata": {"uid": "u", "name": "admin", "creationTimestamp": CREATED}}),
        &json!({
            "uid": "u", "name": "admin", "k8s_created_at": CREATED, "is_cluster": true, "role_ref": {"kind": "", "name": ""},
        }),
    );
}
