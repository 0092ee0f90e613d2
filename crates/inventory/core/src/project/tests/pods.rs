use serde_json::{Value, json};

use super::expect;
use crate::kind::InventoryKind::Pod;

const CREATED: &str = "2026-01-01T00:00:00Z";

#[test]
fn pod_sends_all_its_fields() {
    expect(
        Pod,
        &json!({
            "metadata": {
                "uid": "u", "name": "web-1", "namespace": "shop", "creationTimestamp": CREATED,
                "ownerReferences": [{"kind": "ReplicaSet", "name": "web", "uid": "r", "apiVersion": "apps/v1"}],
            },
            "spec": {
                "nodeName": "n1", "serviceAccountName": "web", "serviceAccount": "old-name", "priorityClassName": "high",
                "containers": [{
                    "name": "app", "image": "registry.example/app:1",
                    "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "128Mi", "x/gpu": "1"}},
                    "ports": [{"containerPort": 8080, "protocol": "TCP", "name": "http", "hostPort": 80}, {"containerPort": 53}],
                    "volumeMounts": [
                        {"name": "data", "mountPath": "/data"},
                        {"name": "conf", "mountPath": "/conf", "readOnly": true, "subPath": "x"},
                    ],
                    "env": [
                        {"name": "ZULU", "value": "v"}, {"name": "ALPHA", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
                    ],
                    "envFrom": [{"secretRef": {"name": "all"}}],
                    "securityContext": {
                        "privileged": true, "runAsUser": 0, "capabilities": {"add": ["NET_ADMIN", "CHOWN"], "drop": ["ALL"]},
                    },
                    "command": ["sh"],
                }],
                "initContainers": [{"name": "init", "image": "registry.example/init:1"}],
                "volumes": [{"name": "data", "emptyDir": {}}],
            },
            "status": {
                "phase": "Running", "qosClass": "Burstable", "hostIP": "10.0.0.1", "podIP": "10.1.0.1", "podIPs": [{"ip": "10.1.0.1"}],
                "conditions": [
                    {"type": "Ready", "status": "True", "lastProbeTime": null, "reason": "x"},
                    {"type": "Initialized", "status": "False"},
                ],
                "containerStatuses": [
                    {"name": "other", "ready": false, "restartCount": 9, "state": {"waiting": {}}},
                    {"name": "app", "ready": true, "restartCount": 2, "state": {"running": {"startedAt": CREATED}}},
                ],
                "initContainerStatuses": [
                    {"name": "init", "ready": true, "restartCount": 0, "state": {"terminated": {"exitCode": 0}}},
                ],
            },
        }),
        &json!({
            "uid": "u", "name": "web-1", "namespace": "shop", "k8s_created_at": CREATED,
            "node_name": "n1", "service_account": "web", "priority_class_name": "high",
            "phase": "Running", "qos_class": "Burstable", "host_ip": "10.0.0.1", "pod_ip": "10.1.0.1",
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "Initialized", "status": "False"}],
            "containers": [{
                "name": "app", "image": "registry.example/app:1", "state": "running", "ready": true, "restart_count": 2,
                "resources": {"cpu_request": "100m", "cpu_limit": "1", "memory_request": "64Mi", "memory_limit": "128Mi"},
                "ports": [{"container_port": 8080, "protocol": "TCP", "name": "http"}, {"container_port": 53}],
                "volume_mounts": [
                    {"name": "data", "mount_path": "/data", "read_only": false},
                    {"name": "conf", "mount_path": "/conf", "read_only": true},
                ],
                "env_var_names": ["ZULU", "ALPHA"],
                "security_context": {"privileged": true, "run_as_root": true, "capabilities": ["NET_ADMIN", "CHOWN"]},
            }],
            "init_containers": [{
                "name": "init", "image": "registry.example/init:1", "state": "terminated", "ready": true, "restart_count": 0,
                "resources": {},
            }],
            "volumes": [{"name": "data", "type": "emptyDir"}],
        }),
    );
}

#[test]
fn pod_without_anything_sends_only_its_head() {
    for (spec, status) in [
        (json!(null), json!(null)),
        (json!({}), json!({})),
        (
            json!({"containers": [], "volumes": [], "nodeName": ""}),
            json!({"conditions": [], "podIP": ""}),
        ),
    ] {
        expect(
            Pod,
            &json!({"metadata": {"uid": "u", "name": "web-1", "namespace": "shop"}, "spec": spec, "status": status}),
            &json!({"uid": "u", "name": "web-1", "namespace": "shop", "k8s_created_at": "0001-01-01T00:00:00Z"}),
        );
    }
}

/// What is sent of the one container of a Pod.
#[track_caller]
fn expect_container(container: &Value, status: &Value, expected: &Value) {
    expect(
        Pod,
        &json!({
            "metadata": {"uid": "u", "name": "p", "namespace": "n", "creationTimestamp": CREATED},
            "spec": {"containers": [container]}, "status": {"containerStatuses": status},
        }),
        &json!({"uid": "u", "name": "p", "namespace": "n", "k8s_created_at": CREATED, "containers": [expected]}),
    );
}

#[test]
fn container_without_a_status_is_not_ready() {
    let expected = json!({"name": "a", "image": "", "ready": false, "restart_count": 0, "resources": {}});
    for status in [json!(null), json!([]), json!([{"name": "b", "ready": true}])] {
        expect_container(&json!({"name": "a"}), &status, &expected);
    }
}

#[test]
fn container_state_is_the_one_that_is_set() {
    for (state, word) in [
        (json!({"running": {}}), Some("running")),
        (
            json!({"waiting": {"reason": "CrashLoopBackOff"}}),
            Some("waiting"),
        ),
        (json!({"terminated": {"exitCode": 137}}), Some("terminated")),
        (json!({"waiting": null, "terminated": {}}), Some("terminated")),
        (json!({}), None),
        (json!(null), None),
    ] {
        let mut expected =
            json!({"name": "a", "image": "i", "ready": false, "restart_count": 7, "resources": {}});
        if let Some(word) = word {
            expected["state"] = word.into();
        }
        expect_container(
            &json!({"name": "a", "image": "i", "resources": {}}),
            &json!([{"name": "a", "restartCount": 7, "state": state}]),
            &expected,
        );
    }
}

#[test]
fn security_context_is_sent_even_if_empty() {
    for (context, expected) in [
        (json!({}), json!({})),
        (
            json!({"privileged": false, "runAsUser": 1000, "runAsNonRoot": true}),
            json!({}),
        ),
        (json!({"runAsUser": 0}), json!({"run_as_root": true})),
        (json!({"runAsNonRoot": false}), json!({"run_as_root": true})),
        (
            json!({"runAsUser": 1000, "runAsNonRoot": false}),
            json!({"run_as_root": true}),
        ),
        (json!({"capabilities": {"drop": ["ALL"]}}), json!({})),
        (
            json!({"capabilities": {"add": []}, "seccompProfile": {"type": "RuntimeDefault"}}),
            json!({}),
        ),
        (
            json!({"capabilities": {"add": ["SYS_TIME"]}}),
            json!({"capabilities": ["SYS_TIME"]}),
        ),
    ] {
        expect_container(
            &json!({"name": "a", "image": "i", "securityContext": context}),
            &json!(null),
            &json!({
                "name": "a", "image": "i", "ready": false, "restart_count": 0, "resources": {}, "security_context": expected,
            }),
        );
    }
}

#[test]
fn container_resources_may_be_numbers_or_zero() {
    expect_container(
        &json!({"name": "a", "image": "i", "resources": {"requests": {"cpu": 2, "memory": "0"}, "claims": [{"name": "c"}]}}),
        &json!(null),
        &json!({
            "name": "a", "image": "i", "ready": false, "restart_count": 0,
            "resources": {"cpu_request": "2", "memory_request": "0"},
        }),
    );
}

#[test]
fn volumes_have_the_first_type_of_the_contract() {
    for (volume, expected) in [
        (
            json!({"emptyDir": {"medium": "Memory"}}),
            json!({"type": "emptyDir"}),
        ),
        (
            json!({"configMap": {"name": "c", "items": []}}),
            json!({"type": "configMap", "source": "c"}),
        ),
        (
            json!({"secret": {"secretName": "s", "defaultMode": 420}}),
            json!({"type": "secret", "source": "s"}),
        ),
        (
            json!({"persistentVolumeClaim": {"claimName": "d", "readOnly": true}}),
            json!({"type": "pvc", "source": "d"}),
        ),
        (
            json!({"hostPath": {"path": "/dev", "type": ""}}),
            json!({"type": "hostPath", "source": "/dev"}),
        ),
        (
            json!({"projected": {"sources": [{"secret": {"name": "s"}}]}}),
            json!({"type": "projected"}),
        ),
        (
            json!({"downwardAPI": {"items": []}}),
            json!({"type": "downwardAPI"}),
        ),
        (
            json!({"csi": {"driver": "csi.example", "volumeAttributes": {"password": "p"}}}),
            json!({"type": "csi", "source": "csi.example"}),
        ),
        (
            json!({"nfs": {"server": "nas", "path": "/x"}}),
            json!({"type": "nfs", "source": "nas:/x"}),
        ),
        (
            json!({"ephemeral": {"volumeClaimTemplate": {"spec": {}}}}),
            json!({"type": "ephemeral"}),
        ),
        (
            json!({"iscsi": {"targetPortal": "t"}}),
            json!({"type": "unknown"}),
        ),
        (json!({}), json!({"type": "unknown"})),
        (json!({"secret": {}}), json!({"type": "secret"})),
        (
            json!({"csi": {"driver": "d"}, "secret": {"secretName": "s"}}),
            json!({"type": "secret", "source": "s"}),
        ),
        (
            json!({"emptyDir": null, "ephemeral": {}}),
            json!({"type": "ephemeral"}),
        ),
    ] {
        let (mut volume, mut expected) = (volume, expected);
        volume["name"] = "v".into();
        expected["name"] = "v".into();
        expect(
            Pod,
            &json!({
                "metadata": {"uid": "u", "name": "p", "namespace": "n", "creationTimestamp": CREATED},
                "spec": {"volumes": [volume]},
            }),
            &json!({"uid": "u", "name": "p", "namespace": "n", "k8s_created_at": CREATED, "volumes": [expected]}),
        );
    }
}
