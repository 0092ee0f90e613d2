//! What clients and manifests of the original rely on: names, columns, which kinds have a status, and what it holds.

use kube::CustomResourceExt;
use serde_json::{Value, json};

use super::{HsmDevice, HsmPool, HsmPoolStatus, HsmSecret, HsmSecretSpec, MirroringSpec};

fn definition<K: CustomResourceExt>() -> Value {
    serde_json::to_value(K::crd()).unwrap()
}

fn version(definition: &Value) -> &Value {
    let versions = definition["spec"]["versions"].as_array().unwrap();
    assert_eq!(versions.len(), 1);
    &versions[0]
}

fn schema(definition: &Value) -> &Value {
    &version(definition)["schema"]["openAPIV3Schema"]["properties"]
}

fn columns(definition: &Value) -> Vec<(&str, &str)> {
    let columns = version(definition)["additionalPrinterColumns"]
        .as_array()
        .unwrap();
    // Those with a priority are for the wide view.
    let narrow = columns
        .iter()
        .filter(|column| column["priority"].as_i64().unwrap_or(0) == 0);
    narrow
        .map(|column| {
            (
                column["name"].as_str().unwrap(),
                column["jsonPath"].as_str().unwrap(),
            )
        })
        .collect()
}

#[test]
fn kinds_have_the_names_of_the_original() {
    for (definition, kind, plural, short) in [
        (definition::<HsmDevice>(), "HSMDevice", "hsmdevices", "hsmdev"),
        (definition::<HsmPool>(), "HSMPool", "hsmpools", "hsmpool"),
        (definition::<HsmSecret>(), "HSMSecret", "hsmsecrets", "hsmsec"),
    ] {
        let spec = &definition["spec"];
        assert_eq!(
            (&spec["group"], &spec["scope"]),
            (&json!("hsm.j5t.io"), &json!("Namespaced"))
        );
        let names = &spec["names"];
        assert_eq!((&names["kind"], &names["plural"]), (&json!(kind), &json!(plural)));
        assert_eq!(names["shortNames"], json!([short]));
        let version = version(&definition);
        assert_eq!(version["name"], "v1alpha1");
        assert_eq!(
            (&version["served"], &version["storage"]),
            (&json!(true), &json!(true))
        );
    }
}

#[test]
fn f20_a_device_has_no_status_and_the_others_have() {
    let (device, pool, secret) = (
        definition::<HsmDevice>(),
        definition::<HsmPool>(),
        definition::<HsmSecret>(),
    );
    assert_eq!(version(&device)["subresources"].get("status"), None);
    assert_eq!(schema(&device).get("status"), None);
    for with in [pool, secret] {
        assert!(version(&with)["subresources"]["status"].is_object());
        assert!(schema(&with)["status"].is_object());
    }
}

#[test]
fn columns_are_those_of_the_original() {
    let age = ("Age", ".metadata.creationTimestamp");
    assert_eq!(
        columns(&definition::<HsmDevice>()),
        [
            ("Type", ".spec.deviceType"),
            ("Discovery", ".spec.discovery.autoDiscovery"),
            ("Max Devices", ".spec.maxDevices"),
            age,
        ]
    );
    assert_eq!(
        columns(&definition::<HsmPool>()),
        [
            ("HSMDevice", ".metadata.ownerReferences[*].name"),
            ("Total", ".status.totalDevices"),
            ("Available", ".status.availableDevices"),
            // It is ours: a token that is there may have no agent that serves it.
            ("Served", ".status.servedDevices"),
            ("Reporting", ".status.reportingPods[*].podName"),
            ("Phase", ".status.phase"),
            ("Last Aggregation", ".status.lastAggregationTime"),
            age,
        ]
    );
    assert_eq!(
        columns(&definition::<HsmSecret>()),
        [
            ("Secret Name", ".spec.secretName"),
            ("Sync Status", ".status.syncStatus"),
            ("Last Sync", ".status.lastSyncTime"),
            age,
        ]
    );
}

#[test]
fn a_status_of_the_original_is_read_and_written_without_loss() {
    let status = json!({
        "totalDevices": 2, "availableDevices": 1, "expectedPods": 2, "phase": "Partial",
        "lastAggregationTime": "2026-07-07T08:00:00Z",
        "aggregatedDevices": [{
            "devicePath": "/dev/bus/usb/001/015", "nodeName": "n1", "lastSeen": "2026-07-07T08:00:00Z",
            "available": true, "serialNumber": "DC6A", "deviceInfo": {"vendor-id": "20a0"},
            "resourceName": "hsm.j5t.io/picohsm", "role": "Primary", "mirroredFrom": "n2",
            "lastSyncTime": "2026-07-07T08:00:00Z", "health": "Healthy",
        }],
        "reportingPods": [{
            "podName": "p", "nodeName": "n1", "devicesFound": 1, "lastReportTime": "2026-07-07T08:00:00Z",
            "discoveryStatus": "completed", "fresh": true, "error": "e",
        }],
        "conditions": [{
            "type": "DeviceAggregation", "status": "True", "reason": "Ready", "message": "m",
            "observedGeneration": 1, "lastTransitionTime": "2026-07-07T08:00:00Z",
        }],
        "mirroring": {
            "enabled": true, "failoverCount": 1, "primaryNode": "n1", "mirroredNodes": ["n2"],
            "lastSyncTime": "2026-07-07T08:00:00Z", "syncErrors": ["e"],
        },
    });
    let read: HsmPoolStatus = serde_json::from_value(status.clone()).unwrap();
    assert_eq!(serde_json::to_value(read).unwrap(), status);
}

/// In the original what is `false` is left out when the object is written, and the API server makes it true again.
#[test]
fn w07_what_is_switched_off_stays_off_when_it_is_written_again() {
    let secret: HsmSecretSpec = serde_json::from_value(json!({"autoSync": false})).unwrap();
    assert_eq!(serde_json::to_value(secret).unwrap()["autoSync"], false);
    let mirroring: MirroringSpec = serde_json::from_value(json!({"autoFailover": false})).unwrap();
    assert_eq!(serde_json::to_value(mirroring).unwrap()["autoFailover"], false);
}
