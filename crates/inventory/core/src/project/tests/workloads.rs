use serde_json::json;

use super::expect;
use crate::kind::InventoryKind::{DaemonSet, Deployment, StatefulSet};

const CREATED: &str = "2026-01-01T00:00:00Z";

#[test]
fn deployment_sends_all_its_fields() {
    expect(
        Deployment,
        &json!({
            "metadata": {"uid": "u", "name": "web", "namespace": "shop", "creationTimestamp": CREATED},
            "spec": {
                "replicas": 3, "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}},
                "selector": {"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "x", "operator": "Exists"}]},
                "template": {
                    "metadata": {"creationTimestamp": null},
                    "spec": {"containers": [{"name": "a", "image": "web:1", "env": [{"name": "E", "value": "v"}]}, {"name": "b", "image": "side:1"}]},
                },
            },
            "status": {"replicas": 3, "readyReplicas": 2, "availableReplicas": 1, "updatedReplicas": 3, "observedGeneration": 4},
        }),
        &json!({
            "uid": "u", "name": "web", "namespace": "shop", "k8s_created_at": CREATED,
            "replicas": 3, "ready_replicas": 2, "available_replicas": 1, "updated_replicas": 3,
            "strategy": "RollingUpdate", "selector": {"app": "web"}, "image": "web:1",
        }),
    );
}

#[test]
fn deployment_without_replicas_has_one() {
    for spec in [
        json!(null),
        json!({}),
        json!({"replicas": null, "selector": {}, "template": {"spec": {"containers": []}}}),
    ] {
        expect(
            Deployment,
            &json!({"metadata": {"uid": "u", "name": "web", "namespace": "shop", "creationTimestamp": CREATED}, "spec": spec}),
            &json!({
                "uid": "u", "name": "web", "namespace": "shop", "k8s_created_at": CREATED,
                "replicas": 1, "ready_replicas": 0, "available_replicas": 0, "updated_replicas": 0,
            }),
        );
    }
}

#[test]
fn deployment_scaled_to_zero_sends_zero() {
    expect(
        Deployment,
        &json!({
            "metadata": {"uid": "u", "name": "web", "namespace": "shop", "creationTimestamp": CREATED},
            "spec": {"replicas": 0, "strategy": {"type": "Recreate"}},
        }),
        &json!({
            "uid": "u", "name": "web", "namespace": "shop", "k8s_created_at": CREATED,
            "replicas": 0, "ready_replicas": 0, "available_replicas": 0, "updated_replicas": 0, "strategy": "Recreate",
        }),
    );
}

#[test]
fn stateful_set_sends_all_its_fields() {
    expect(
        StatefulSet,
        &json!({
            "metadata": {"uid": "u", "name": "db", "namespace": "shop", "creationTimestamp": CREATED},
            "spec": {
                "replicas": 2, "serviceName": "db-headless", "updateStrategy": {"type": "OnDelete"},
                "selector": {"matchLabels": {"app": "db"}}, "template": {"spec": {"containers": [{"image": "db:1"}]}},
                "volumeClaimTemplates": [{"spec": {}}],
            },
            "status": {"replicas": 2, "readyReplicas": 1, "currentReplicas": 2, "availableReplicas": 1, "updatedReplicas": 1},
        }),
        &json!({
            "uid": "u", "name": "db", "namespace": "shop", "k8s_created_at": CREATED,
            "replicas": 2, "ready_replicas": 1, "current_replicas": 2, "update_strategy": "OnDelete",
            "service_name": "db-headless", "selector": {"app": "db"}, "image": "db:1",
        }),
    );
}

#[test]
fn stateful_set_without_a_spec_sends_its_counts() {
    expect(
        StatefulSet,
        &json!({"metadata": {"uid": "u", "name": "db", "namespace": "shop", "creationTimestamp": CREATED}}),
        &json!({
            "uid": "u", "name": "db", "namespace": "shop", "k8s_created_at": CREATED,
            "replicas": 1, "ready_replicas": 0, "current_replicas": 0,
        }),
    );
}

#[test]
fn daemon_set_sends_all_its_fields() {
    expect(
        DaemonSet,
        &json!({
            "metadata": {"uid": "u", "name": "log", "namespace": "ops", "creationTimestamp": CREATED},
            "spec": {
                "updateStrategy": {"type": "RollingUpdate"}, "selector": {"matchLabels": {"app": "log"}},
                "template": {"spec": {"nodeSelector": {"kubernetes.io/os": "linux"}, "containers": [{"image": "log:1"}]}},
            },
            "status": {
                "desiredNumberScheduled": 5, "currentNumberScheduled": 4, "numberReady": 3, "numberAvailable": 2, "numberMisscheduled": 1,
            },
        }),
        &json!({
            "uid": "u", "name": "log", "namespace": "ops", "k8s_created_at": CREATED,
            "desired_number_scheduled": 5, "current_number_scheduled": 4, "number_ready": 3, "number_available": 2,
            "update_strategy": "RollingUpdate", "selector": {"app": "log"},
            "node_selector": {"kubernetes.io/os": "linux"}, "image": "log:1",
        }),
    );
}

#[test]
fn daemon_set_without_a_spec_sends_its_counts() {
    expect(
        DaemonSet,
        &json!({"metadata": {"uid": "u", "name": "log", "namespace": "ops", "creationTimestamp": CREATED}, "spec": {"template": {"spec": {"nodeSelector": {}}}}}),
        &json!({
            "uid": "u", "name": "log", "namespace": "ops", "k8s_created_at": CREATED,
            "desired_number_scheduled": 0, "current_number_scheduled": 0, "number_ready": 0, "number_available": 0,
        }),
    );
}
