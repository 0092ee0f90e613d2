use serde_json::json;

use super::expect;
use crate::kind::InventoryKind::PersistentVolumeClaim;

const CREATED: &str = "2026-01-01T00:00:00Z";

#[test]
fn claim_sends_all_its_fields() {
    expect(
        PersistentVolumeClaim,
        &json!({
            "metadata": {"uid": "u", "name": "data", "namespace": "shop", "creationTimestamp": CREATED},
            "spec": {
                "storageClassName": "fast", "accessModes": ["ReadWriteOnce", "ReadOnlyMany"], "volumeName": "pv-1", "volumeMode": "Block",
                "resources": {"requests": {"storage": "10Gi"}, "limits": {"storage": "20Gi"}},
            },
            "status": {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "12Gi"}},
        }),
        &json!({
            "uid": "u", "name": "data", "namespace": "shop", "k8s_created_at": CREATED,
            "storage_class_name": "fast", "access_modes": ["ReadWriteOnce", "ReadOnlyMany"], "storage_request": "10Gi",
            "volume_name": "pv-1", "phase": "Bound", "volume_mode": "Block",
        }),
    );
}

#[test]
fn claim_without_a_spec_sends_only_its_head() {
    for spec in [
        json!(null),
        json!({}),
        json!({"storageClassName": "", "accessModes": [], "resources": {"requests": {}}}),
    ] {
        expect(
            PersistentVolumeClaim,
            &json!({"metadata": {"uid": "u", "name": "data", "namespace": "shop", "creationTimestamp": CREATED}, "spec": spec}),
            &json!({"uid": "u", "name": "data", "namespace": "shop", "k8s_created_at": CREATED}),
        );
    }
}
