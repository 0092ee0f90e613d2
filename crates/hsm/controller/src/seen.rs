//! What is kept of the objects that are watched.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use trustplane_api::hsm::record::{Record, STATE};
use trustplane_api::hsm::{HsmDeviceSpec, HsmPoolSpec, HsmPoolStatus};
use trustplane_hsm_core::decide::AgentPod;
use trustplane_hsm_core::objects::APP_LABEL;
use trustplane_kit::watch::{Payload, Project, ProjectError, Watched};
use trustplane_plan::{Meta, ObjectRef};

/// What is kept of an HSMDevice.
#[derive(Debug, Deserialize)]
pub(crate) struct SeenDevice {
    /// What it wants, if that can be read: one of which that is not known is still there, and so is what it holds.
    #[serde(default, deserialize_with = "readable")]
    pub spec: Option<HsmDeviceSpec>,
}

fn readable<'de, D: Deserializer<'de>>(spec: D) -> Result<Option<HsmDeviceSpec>, D::Error> {
    Ok(serde_json::from_value(Value::deserialize(spec)?).ok())
}

/// What is kept of a pool.
#[derive(Debug, Deserialize)]
pub(crate) struct SeenPool {
    #[serde(default)]
    pub spec: HsmPoolSpec,
    /// What is known of its tokens, if it has a status yet. Nothing is concluded from one that cannot be read, and it is not
    /// written over.
    #[serde(default = "no_status", deserialize_with = "pool_status")]
    pub status: Result<Option<HsmPoolStatus>, Unreadable>,
}

/// A status that another version of ours, or another writer, has left, and that this version cannot read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unreadable;

fn no_status() -> Result<Option<HsmPoolStatus>, Unreadable> {
    Ok(None)
}

fn pool_status<'de, D: Deserializer<'de>>(
    status: D,
) -> Result<Result<Option<HsmPoolStatus>, Unreadable>, D::Error> {
    Ok(serde_json::from_value(Value::deserialize(status)?).map_err(|_| Unreadable))
}

impl SeenPool {
    /// What is known of its tokens; nothing while there is no status, or while it cannot be read.
    pub fn known(&self) -> &HsmPoolStatus {
        static NOTHING: LazyLock<HsmPoolStatus> = LazyLock::new(HsmPoolStatus::default);
        let status = self.status.as_ref().ok().and_then(Option::as_ref);
        status.unwrap_or(&NOTHING)
    }
}

/// What is kept of a DaemonSet.
#[derive(Debug, Deserialize)]
pub(crate) struct SeenDaemonSet {
    pub spec: DaemonSetSpec,
    #[serde(default)]
    pub status: DaemonSetStatus,
}

#[derive(Debug, Deserialize)]
pub(crate) struct DaemonSetSpec {
    pub selector: Selector,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Selector {
    #[serde(default)]
    pub match_labels: BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DaemonSetStatus {
    pub desired_number_scheduled: i32,
}

/// What is kept of a ConfigMap: the record of an agent.
#[derive(Debug, Deserialize)]
pub(crate) struct SeenRecord {
    #[serde(default)]
    data: BTreeMap<String, String>,
}

impl SeenRecord {
    /// What it says, if that can be read.
    pub fn read(&self) -> Option<Record> {
        read_record(&self.data)
    }
}

/// A record with tries that make no sense still says how its agent is doing, if that much can be read: the rest matters to the
/// agent alone. It is never taken for an empty one.
fn read_record(data: &BTreeMap<String, String>) -> Option<Record> {
    Record::read(data).ok().or_else(|| {
        let state = data.get(STATE).map(|state| (STATE.to_owned(), state.clone()));
        let read = Record::read(&state.into_iter().collect()).ok();
        read.filter(|read| *read != Record::default())
    })
}

/// What is kept of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SeenPod {
    /// What a discovery pod reports; no annotation is kept but this.
    pub report: Option<Arc<str>>,
    pub node: Option<String>,
    pub phase: String,
    /// Why it failed.
    pub reason: Option<String>,
    /// The service account that it runs as.
    pub account: Option<String>,
    /// Whether it is ready.
    pub ready: bool,
    ip: Option<IpAddr>,
}

impl SeenPod {
    /// Where it can be reached.
    pub fn address(&self) -> Option<IpAddr> {
        self.ip.filter(|_| self.phase == "Running")
    }
}

/// A pod, in the way that decisions look at those of agents.
pub(crate) fn agent_pod(pod: &Watched<SeenPod>) -> AgentPod {
    AgentPod {
        meta: pod.meta.clone(),
        node: pod.value.node.clone(),
        phase: pod.value.phase.clone(),
        reason: pod.value.reason.clone(),
        account: pod.value.account.clone(),
        ready: pod.value.ready,
    }
}

/// Keeps a [`SeenPod`] of each pod, and finds those of an agent by its name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pods;

#[derive(Deserialize)]
struct Pod {
    metadata: Annotated,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
struct Annotated {
    annotations: Option<Annotations>,
}

#[derive(Deserialize)]
struct Annotations {
    #[serde(rename = "hsm.j5t.io/device-report")]
    report: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    node_name: Option<String>,
    service_account_name: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    phase: Option<String>,
    reason: Option<String>,
    #[serde(rename = "podIP")]
    pod_ip: Option<String>,
    conditions: Vec<Condition>,
}

#[derive(Deserialize)]
struct Condition {
    #[serde(rename = "type", default)]
    type_: String,
    #[serde(default)]
    status: String,
}

impl Project for Pods {
    type Out = SeenPod;

    fn payload(&self) -> Payload {
        Payload::Full
    }

    fn project(&self, _meta: &Meta, json: &str) -> Result<SeenPod, ProjectError> {
        let Pod {
            metadata,
            spec,
            status,
        } = serde_json::from_str(json)?;
        Ok(SeenPod {
            report: metadata
                .annotations
                .and_then(|annotations| annotations.report)
                .map(Arc::from),
            node: spec.node_name,
            phase: status.phase.unwrap_or_default(),
            reason: status.reason,
            account: spec.service_account_name,
            ready: status
                .conditions
                .iter()
                .any(|condition| condition.type_ == "Ready" && condition.status == "True"),
            ip: status.pod_ip.and_then(|ip| ip.parse().ok()),
        })
    }

    fn names(meta: &Meta, _out: &SeenPod) -> Vec<ObjectRef> {
        let agent = meta.labels.get(APP_LABEL);
        agent
            .map(|agent| ObjectRef::new(meta.object.namespace(), agent))
            .into_iter()
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use trustplane_api::hsm::names::REPORT_ANNOTATION;
    use trustplane_plan::Keep;

    use super::*;

    #[test]
    fn a_pod_is_kept_without_what_nobody_needs() {
        let body = json!({
            "metadata": {
                "name": "p", "namespace": "n", "labels": { "app": "agent" },
                "annotations": { REPORT_ANNOTATION: "{}", "other": "x" },
            },
            "spec": { "nodeName": "node", "serviceAccountName": "agent", "containers": [] },
            "status": {
                "phase": "Running", "podIP": "10.0.0.7",
                "conditions": [{ "type": "Initialized", "status": "True" }, { "type": "Ready", "status": "True" }],
            },
        })
        .to_string();
        let meta = Meta::decode(&body, &Keep::default()).unwrap();
        let pod = Pods.project(&meta, &body).unwrap();
        assert_eq!(pod.report.as_deref(), Some("{}"));
        assert_eq!(pod.address(), Some([10, 0, 0, 7].into()));
        assert_eq!((pod.account.as_deref(), pod.ready), (Some("agent"), true));
        assert_eq!(Pods::names(&meta, &pod), [ObjectRef::new(Some("n"), "agent")]);
        let pending = body.replace("Running", "Pending");
        assert_eq!(Pods.project(&meta, &pending).unwrap().address(), None);
    }

    #[test]
    fn a_pod_that_is_hardly_there_is_read() {
        let body = r#"{"metadata":{"name":"p"}}"#;
        let meta = Meta::decode(body, &Keep::default()).unwrap();
        let pod = Pods.project(&meta, body).unwrap();
        assert_eq!((pod.report.clone(), pod.address()), (None, None));
    }

    fn pool(json: &str) -> SeenPool {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a_pool_without_a_status_knows_nothing() {
        for text in ["{}", r#"{"status":null}"#] {
            let pool = pool(text);
            assert_eq!(pool.status, Ok(None), "{text}");
            assert_eq!(*pool.known(), HsmPoolStatus::default());
        }
    }

    /// A status as the manager wrote it when it still kept the status as untyped JSON.
    #[test]
    fn a_status_of_the_previous_version_is_read_whole() {
        let status = json!({
            "totalDevices": 1, "availableDevices": 0, "servedDevices": 0, "expectedPods": 1, "phase": "Partial",
            "lastAggregationTime": "2026-07-07T08:00:00Z",
            "aggregatedDevices": [{
                "devicePath": "/dev/bus/usb/001/015", "serialNumber": "e6", "nodeName": "n1",
                "lastSeen": "2026-07-07T08:00:00Z", "available": false,
                "deviceInfo": { "hsm-device": "pico", "unheard": "true" }, "health": "PinRejected",
            }],
            "reportingPods": [{
                "podName": "p", "nodeName": "n1", "devicesFound": 0, "lastReportTime": "2026-07-07T08:00:00Z",
                "discoveryStatus": "completed", "fresh": true,
            }],
            "conditions": [{
                "type": "PinRejected", "status": "True", "reason": "PinRejected", "message": "token \"e6\": wrong",
                "observedGeneration": 1, "lastTransitionTime": "2026-07-07T08:00:00Z",
            }],
        });
        let pool = pool(&json!({ "spec": {}, "status": status }).to_string());
        assert_eq!(serde_json::to_value(pool.known()).unwrap(), status);
    }

    #[test]
    fn a_status_that_cannot_be_read_is_not_an_empty_one() {
        let pool =
            pool(r#"{"spec":{"hsmDeviceRef":"pico"},"status":{"aggregatedDevices":[{"nodeName":7}]}}"#);
        assert_eq!(pool.status, Err(Unreadable));
        assert_eq!(pool.spec.hsm_device_ref.as_deref(), Some("pico"));
    }

    #[test]
    fn a_record_that_cannot_be_read_is_not_an_empty_one() {
        let data = |entries: &[(&str, &str)]| -> BTreeMap<String, String> {
            let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
            entries.iter().map(owned).collect()
        };
        assert_eq!(read_record(&data(&[])), Some(Record::default()));
        assert_eq!(read_record(&data(&[("tries", "?")])), None);
        assert_eq!(read_record(&data(&[("tries", "?"), ("state", "?")])), None);
        let state = r#"{"phase":"Serving","since":"2026-01-01T00:00:00Z"}"#;
        let read = read_record(&data(&[("tries", "?"), ("state", state)])).unwrap();
        assert!(read.state.is_some());
    }
}
