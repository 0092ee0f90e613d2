use serde_json::json;

use super::expect;
use crate::kind::InventoryKind::Event;

const CREATED: &str = "2026-01-01T00:00:00Z";

#[test]
fn event_sends_all_its_fields_and_no_labels() {
    expect(
        Event,
        &json!({
            "metadata": {
                "uid": "u", "name": "web.17", "namespace": "shop", "creationTimestamp": CREATED,
                "labels": {"a": "b"}, "annotations": {"c": "d"},
            },
            "type": "Warning", "reason": "BackOff", "message": "Back-off restarting \"app\"\n", "count": 12,
            "involvedObject": {
                "apiVersion": "v1", "kind": "Pod", "name": "web", "namespace": "shop", "uid": "p", "fieldPath": "spec.containers{app}",
            },
            "source": {"component": "kubelet", "host": "n1"},
            "firstTimestamp": "2026-01-01T01:00:00Z", "lastTimestamp": "2026-01-01T02:00:00Z",
            "reportingComponent": "kubelet", "eventTime": null,
        }),
        &json!({
            "uid": "u", "name": "web.17", "namespace": "shop", "k8s_created_at": CREATED,
            "type": "Warning", "reason": "BackOff", "message": "Back-off restarting \"app\"\n", "count": 12,
            "involved_object": {"kind": "Pod", "name": "web", "namespace": "shop", "uid": "p"},
            "source": {"component": "kubelet", "host": "n1"},
            "first_timestamp": "2026-01-01T01:00:00Z", "last_timestamp": "2026-01-01T02:00:00Z",
        }),
    );
}

#[test]
fn event_of_the_newer_group_has_no_times_and_a_count_of_zero() {
    expect(
        Event,
        &json!({
            "metadata": {"uid": "u", "name": "n1.17", "namespace": "default", "creationTimestamp": CREATED},
            "involvedObject": {"kind": "Node", "name": "n1"}, "source": {}, "firstTimestamp": null, "lastTimestamp": null,
            "eventTime": "2026-01-01T01:00:00.123456Z", "series": {"count": 4}, "type": "Normal", "reason": "Ready", "message": "",
        }),
        &json!({
            "uid": "u", "name": "n1.17", "namespace": "default", "k8s_created_at": CREATED,
            "type": "Normal", "reason": "Ready", "message": "", "count": 0,
            "involved_object": {"kind": "Node", "name": "n1"}, "source": {},
        }),
    );
}

#[test]
fn event_without_fields_sends_those_that_are_always_present() {
    expect(
        Event,
        &json!({"metadata": {"uid": "u", "name": "e", "namespace": "default"}}),
        &json!({
            "uid": "u", "name": "e", "namespace": "default", "k8s_created_at": "0001-01-01T00:00:00Z",
            "type": "", "reason": "", "message": "", "count": 0, "involved_object": {"kind": "", "name": ""}, "source": {},
        }),
    );
}
