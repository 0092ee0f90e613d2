//! A small world for tests: HSMDevices, and objects as the API server would have them after our writes.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use trustplane_api::hsm::{HsmDeviceSpec, HsmPoolSpec, HsmPoolStatus};
use trustplane_plan::{Fingerprinter, Keep, Kind, Manifest, Meta, Plan, Step, Target};

use super::{DeviceView, PoolView};
use crate::device::read;
use crate::rules::Rules;

pub(crate) const START: &str = "2026-07-07T08:00:00Z";

pub(crate) fn at(seconds: i64) -> Timestamp {
    let start: Timestamp = START.parse().unwrap();
    Timestamp::from_second(start.as_second() + seconds).unwrap()
}

pub(crate) fn rules() -> Rules {
    Rules {
        namespaces: ["hsm", "pins", "other"].map(str::to_owned).into(),
        host_directories: vec!["/var/lib/softhsm".to_owned()],
        ..Rules::default()
    }
}

pub(crate) fn fingerprinter() -> Fingerprinter {
    Fingerprinter::new(&[1; 32])
}

pub(crate) fn meta(value: Value) -> Meta {
    Meta::decode(&json!({ "metadata": value }).to_string(), &Keep::owned_by("m")).unwrap()
}

pub(crate) fn device_meta(namespace: &str, name: &str) -> Meta {
    meta(json!({
        "name": name, "namespace": namespace, "uid": format!("uid-{namespace}-{name}"), "resourceVersion": "1",
        "generation": 1, "creationTimestamp": "2026-07-01T00:00:00Z",
    }))
}

pub(crate) fn spec(value: Value) -> HsmDeviceSpec {
    serde_json::from_value(value).unwrap()
}

pub(crate) fn pico() -> HsmDeviceSpec {
    spec(json!({
        "deviceType": "PicoHSM",
        "discovery": {"usb": [{"vendorId": "20a0", "productId": "4230"}]},
        "pkcs11": {"libraryPath": "/usr/lib/opensc-pkcs11.so", "pinSecret": {"name": "pin", "key": "pin"}},
    }))
}

pub(crate) fn soft(tokens: Value) -> HsmDeviceSpec {
    spec(json!({
        "deviceType": "Generic",
        "discovery": {"static": tokens},
        "pkcs11": {"libraryPath": "/usr/lib/softhsm/libsofthsm2.so", "pinSecret": {"name": "pin", "key": "pin"}},
    }))
}

pub(crate) fn view(namespace: &str, name: &str, spec: &HsmDeviceSpec) -> DeviceView {
    let meta = device_meta(namespace, name);
    let read = read(namespace, name, spec, &rules());
    DeviceView { meta, read }
}

pub(crate) fn pool_meta(namespace: &str, device: &str) -> Meta {
    meta(json!({
        "name": format!("{device}-pool"), "namespace": namespace, "uid": format!("uid-pool-{device}"),
        "resourceVersion": "1", "generation": 1, "creationTimestamp": "2026-07-01T00:00:00Z",
        "ownerReferences": [{
            "apiVersion": "hsm.j5t.io/v1alpha1", "kind": "HSMDevice", "name": device,
            "uid": format!("uid-{namespace}-{device}"), "controller": true,
        }],
    }))
}

pub(crate) fn pool_view(namespace: &str, device: &str, status: HsmPoolStatus) -> PoolView {
    PoolView {
        meta: pool_meta(namespace, device),
        spec: HsmPoolSpec::default(),
        status,
        watched: Duration::MAX,
    }
}

/// Live objects, as the API server has them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cluster {
    pub objects: BTreeMap<Target, (Meta, Value)>,
    writes: u64,
}

impl Cluster {
    /// Carries out a plan.
    pub fn apply<A>(&mut self, plan: &Plan<A>) {
        for step in &plan.steps {
            match step {
                Step::Apply(apply) => self.put(&apply.manifest),
                Step::Delete(delete) => {
                    self.objects.remove(&delete.target);
                }
                _ => {}
            }
        }
    }

    pub fn put(&mut self, manifest: &Manifest) {
        self.writes += 1;
        let mut body = manifest.body();
        let uid = format!("uid-{}", manifest.target());
        body["metadata"]["uid"] = uid.into();
        body["metadata"]["resourceVersion"] = self.writes.to_string().into();
        body["metadata"]["managedFields"] =
            json!([{"manager": "m", "operation": "Apply", "fieldsV1": fields(&manifest.wish())}]);
        let meta = Meta::decode(&body.to_string(), &Keep::owned_by("m")).unwrap();
        self.objects.insert(manifest.target(), (meta, body));
    }

    pub fn live(&self) -> Vec<(Kind, Meta)> {
        let objects = self.objects.iter();
        objects
            .map(|(target, (meta, _))| (target.kind.clone(), meta.clone()))
            .collect()
    }

    pub fn body(&self, kind: &Kind, name: &str) -> Option<&Value> {
        let mut objects = self.objects.iter();
        let is_it = |target: &Target| target.kind == *kind && target.object.name() == name;
        objects
            .find(|(target, _)| is_it(target))
            .map(|(_, (_, body))| body)
    }

    pub fn meta(&self, kind: &Kind, name: &str) -> Option<&Meta> {
        let mut objects = self.objects.iter();
        let is_it = |target: &Target| target.kind == *kind && target.object.name() == name;
        objects
            .find(|(target, _)| is_it(target))
            .map(|(_, (meta, _))| meta)
    }
}

/// What an apply of a wish makes ours.
fn fields(wish: &Value) -> Value {
    match wish {
        Value::Object(map) if !map.is_empty() => {
            let fields = map.iter().map(|(key, value)| (format!("f:{key}"), fields(value)));
            Value::Object(fields.collect::<Map<_, _>>())
        }
        _ => json!({}),
    }
}

pub(crate) fn steps<A: std::fmt::Debug>(plan: &Plan<A>) -> Vec<String> {
    plan.steps.iter().map(ToString::to_string).collect()
}
