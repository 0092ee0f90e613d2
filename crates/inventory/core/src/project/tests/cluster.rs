use serde_json::json;

use super::expect;
use crate::kind::InventoryKind::{Namespace, Node};

#[test]
fn namespace_sends_its_phase() {
    for phase in ["Active", "Terminating"] {
        expect(
            Namespace,
            &json!({
                "metadata": {"uid": "u", "name": "shop", "creationTimestamp": "2026-01-01T00:00:00Z"},
                "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": phase},
            }),
            &json!({"uid": "u", "name": "shop", "k8s_created_at": "2026-01-01T00:00:00Z", "phase": phase}),
        );
    }
}

#[test]
fn namespace_without_a_status_has_no_phase() {
    for status in [json!({}), json!(null), json!({"phase": ""})] {
        expect(
            Namespace,
            &json!({"metadata": {"uid": "u", "name": "shop"}, "status": status}),
            &json!({"uid": "u", "name": "shop", "k8s_created_at": "0001-01-01T00:00:00Z"}),
        );
    }
}

#[test]
fn node_sends_all_its_fields() {
    expect(
        Node,
        &json!({
            "metadata": {
                "uid": "u", "name": "n1", "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": {
                    "node-role.kubernetes.io/control-plane": "", "node-role.kubernetes.io/master": "",
                    "node-role.kubernetes.io/worker": "true", "node-role.kubernetes.io/gpu": "", "kubernetes.io/role": "x",
                },
            },
            "status": {
                "conditions": [
                    {"type": "MemoryPressure", "status": "False"},
                    {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"},
                ],
                "nodeInfo": {
                    "kubeletVersion": "v1.33.1", "containerRuntimeVersion": "containerd://2.0.1", "osImage": "Debian 12",
                    "architecture": "amd64", "machineID": "m",
                },
                "capacity": {"cpu": "4", "memory": "16Gi", "pods": "110", "ephemeral-storage": "1Ti"},
            },
        }),
        &json!({
            "uid": "u", "name": "n1", "k8s_created_at": "2026-01-01T00:00:00Z",
            "labels": {
                "node-role.kubernetes.io/control-plane": "", "node-role.kubernetes.io/master": "",
                "node-role.kubernetes.io/worker": "true", "node-role.kubernetes.io/gpu": "", "kubernetes.io/role": "x",
            },
            "status": "Ready", "roles": ["control-plane", "gpu", "worker"],
            "kubelet_version": "v1.33.1", "container_runtime": "containerd://2.0.1", "os_image": "Debian 12",
            "architecture": "amd64", "cpu_capacity": "4", "memory_capacity": "16Gi", "pod_capacity": "110",
        }),
    );
}

#[test]
fn node_without_a_status_is_not_ready_and_has_no_capacity() {
    expect(
        Node,
        &json!({"metadata": {"uid": "u", "name": "n1"}}),
        &json!({
            "uid": "u", "name": "n1", "k8s_created_at": "0001-01-01T00:00:00Z",
            "status": "NotReady", "cpu_capacity": "0", "memory_capacity": "0", "pod_capacity": "0",
        }),
    );
}

#[test]
fn node_is_ready_only_if_the_condition_is_true() {
    for (conditions, word) in [
        (json!([{"type": "Ready", "status": "False"}]), "NotReady"),
        (json!([{"type": "Ready", "status": "Unknown"}]), "NotReady"),
        (json!([{"type": "Ready"}]), "NotReady"),
        (json!([{"type": "DiskPressure", "status": "True"}]), "NotReady"),
        (json!([{"type": "Ready", "status": "True"}]), "Ready"),
    ] {
        expect(
            Node,
            &json!({"metadata": {"uid": "u", "name": "n1"}, "status": {"conditions": conditions, "capacity": {"pods": 10}}}),
            &json!({
                "uid": "u", "name": "n1", "k8s_created_at": "0001-01-01T00:00:00Z",
                "status": word, "cpu_capacity": "0", "memory_capacity": "0", "pod_capacity": "10",
            }),
        );
    }
}
