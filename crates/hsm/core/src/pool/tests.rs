use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use trustplane_api::hsm::conditions::{self, phase};
use trustplane_api::hsm::record::{AgentPhase, AgentState, Record};
use trustplane_api::hsm::{AggregatedDevice, HsmDeviceSpec, HsmPoolSpec, HsmPoolStatus};
use trustplane_plan::condition::reason::RESOLVED;
use trustplane_plan::kinds::DAEMON_SET;
use trustplane_plan::{Owner, Plan, Step};

use super::{DaemonSetView, PodView, PoolDevice, Silence, device_names, grace_period};
use crate::decide::world::{Cluster, at, fingerprinter, meta, pico, pool_meta, pool_view, rules, view};
use crate::decide::{AgentPod, DeviceInput, PoolInput, PoolView, decide_device, decide_pool};
use crate::discovery_set::labels;
use crate::usb::report::Cadence;

mod consents;
mod events;
mod hostile;
mod identities;
mod moves;
mod properties;
mod records;
mod served;
mod silence;
mod tokens;

const SET: &str = "uid-set";

pub(super) fn device(name: &str, spec: &HsmDeviceSpec, desired: i32) -> PoolDevice {
    let selector = labels(name).map(|(key, value)| (key.to_owned(), value));
    PoolDevice {
        device: view("hsm", name, spec),
        daemon_set: Some(DaemonSetView {
            uid: SET.into(),
            selector: selector.into(),
            desired,
        }),
        pods: Vec::new(),
    }
}

pub(super) fn pod(node: &str, report: Option<Value>) -> PodView {
    PodView {
        name: format!("pico-discovery-{node}"),
        labels: labels("pico").map(|(key, value)| (key.to_owned(), value)).into(),
        controller: Some(SET.to_owned()),
        node: Some(node.to_owned()),
        phase: "Running".to_owned(),
        terminating: false,
        report: report.map(|report| report.to_string().into()),
    }
}

pub(super) fn report(node: &str, time: Timestamp, devices: Value) -> Value {
    json!({
        "hsmDeviceName": "pico", "reportingNode": node, "discoveredDevices": devices, "lastReportTime": time,
        "discoveryStatus": "completed",
    })
}

pub(super) fn seen(serial: &str, path: &str, time: Timestamp) -> Value {
    json!({"devicePath": path, "serialNumber": serial, "lastSeen": time, "available": true})
}

pub(super) fn lost(serial: &str, path: &str, time: Timestamp) -> Value {
    json!({"devicePath": path, "serialNumber": serial, "lastSeen": time, "available": false})
}

pub(super) fn input(desired: i32, pods: Vec<PodView>) -> PoolInput {
    let mut device = device("pico", &pico(), desired);
    device.pods = pods;
    PoolInput {
        pool: pool_meta("hsm", "pico"),
        spec: HsmPoolSpec::default(),
        status: None,
        devices: vec![device],
        claims: Vec::new(),
        records: BTreeMap::new(),
        running: BTreeSet::new(),
        agent_pods: Vec::new(),
        silence: Silence::default(),
        consents: BTreeMap::new(),
    }
}

/// A pool of one node with one token.
pub(super) fn one() -> PoolInput {
    let devices = json!([seen("e6", "/dev/bus/usb/001/015", at(0))]);
    input(1, vec![pod("n1", Some(report("n1", at(0), devices)))])
}

/// The silence that a manager counts whose watches never broke: each report was seen at the time that stands in it.
fn heard(input: &PoolInput, now: Timestamp) -> Silence {
    let pods = input.devices.iter().flat_map(|device| &device.pods);
    let silent = |pod: &PodView| {
        let report: Value = serde_json::from_str(pod.report.as_deref()?).ok()?;
        let time: Timestamp = report["lastReportTime"].as_str()?.parse().ok()?;
        let silent = Duration::try_from(now.duration_since(time)).unwrap_or_default();
        Some((pod.name.clone(), silent))
    };
    Silence {
        watched: Duration::MAX,
        pods: pods.filter_map(silent).collect(),
    }
}

/// Decides as a manager whose watches never broke, and keeps the status.
pub(super) fn settle(input: &mut PoolInput, now: Timestamp) -> Plan {
    input.silence = heard(input, now);
    settle_as_heard(input, now)
}

/// Decides by what the input says of silence, and keeps the status.
fn settle_as_heard(input: &mut PoolInput, now: Timestamp) -> Plan {
    let plan = decide_pool(input, now);
    for step in &plan.steps {
        if let Step::Status(status) = step {
            // As the API server keeps it: what is written is what is read.
            input.status = serde_json::from_value(status.status.clone()).unwrap();
        }
    }
    plan
}

pub(super) fn status(input: &PoolInput) -> HsmPoolStatus {
    input.status.clone().unwrap()
}

pub(super) fn decided(input: &PoolInput, now: Timestamp) -> HsmPoolStatus {
    let mut input = input.clone();
    settle(&mut input, now);
    status(&input)
}

const AGENT: &str = "hsm-agent-pico-e6";

/// A pod of the agent of the token `e6`.
pub(super) fn agent_pod(node: Option<&str>, phase: &str) -> AgentPod {
    AgentPod {
        meta: meta(json!({
            "name": format!("{AGENT}-5d9c7-x"), "namespace": "hsm", "uid": "agent", "resourceVersion": "1",
            "labels": {"app": AGENT},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("{AGENT}-5d9c7"), "uid": "r",
                "controller": true,
            }],
        })),
        node: node.map(str::to_owned),
        phase: phase.to_owned(),
        reason: None,
        account: Some(AGENT.to_owned()),
        ready: phase == "Running",
    }
}

/// The agent of the token `e6` says this of itself.
pub(super) fn agent_says(input: &mut PoolInput, phase: AgentPhase, message: &str) {
    let state = AgentState {
        phase,
        message: message.to_owned(),
        since: at(0),
        by: "agent".to_owned(),
    };
    let record = Record {
        state: Some(state),
        ..Record::default()
    };
    input.records.insert(AGENT.to_owned(), record);
}

/// The agent of the token `e6` serves it on this node.
pub(super) fn serves(input: &mut PoolInput, node: &str) {
    input.agent_pods = vec![agent_pod(Some(node), "Running")];
    agent_says(input, AgentPhase::Serving, "");
}

/// Serial number, node, path and whether it is there, for each token.
pub(super) fn listed(status: &HsmPoolStatus) -> Vec<(String, String, String, bool)> {
    let one = |token: &AggregatedDevice| {
        let serial = token.serial_number.clone().unwrap_or_default();
        (
            serial,
            token.node_name.clone(),
            token.device_path.clone(),
            token.available,
        )
    };
    status.aggregated_devices.iter().map(one).collect()
}

/// What is said of each token under a name.
pub(super) fn marked<'a>(status: &'a HsmPoolStatus, key: &str) -> Vec<Option<&'a str>> {
    let tokens = status.aggregated_devices.iter();
    tokens
        .map(|token| token.device_info.get(key).map(String::as_str))
        .collect()
}

pub(super) fn entry(serial: &str, node: &str, path: &str, available: bool) -> (String, String, String, bool) {
    (serial.to_owned(), node.to_owned(), path.to_owned(), available)
}

fn phase(input: &PoolInput, now: Timestamp) -> String {
    decided(input, now).phase.unwrap()
}

#[test]
fn the_devices_of_a_pool_are_its_list_then_its_reference_then_its_owner() {
    let owner = |api_version: &str, kind: &str| Owner {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        name: "owner".to_owned(),
        uid: "u".to_owned(),
        controller: true,
        block_owner_deletion: false,
    };
    let owners = [
        owner("v1", "HSMDevice"),
        owner("hsm.j5t.io/v1alpha1", "HSMDevice"),
    ];
    let mut spec = HsmPoolSpec::default();
    assert_eq!(device_names(&spec, &owners), ["owner"]);
    assert_eq!(device_names(&spec, &owners[..1]), [""; 0]);
    spec.hsm_device_ref = Some("reference".to_owned());
    assert_eq!(device_names(&spec, &owners), ["reference"]);
    spec.hsm_device_refs = ["a", "b", "a"].map(str::to_owned).to_vec();
    assert_eq!(device_names(&spec, &owners), ["a", "b"]);
}

#[test]
fn a_grace_period_is_read_as_the_original_writes_it() {
    for (text, milliseconds) in [
        ("5m", 300_000),
        ("5m0s", 300_000),
        ("1h30m0.5s", 5_400_500),
        ("1.5h", 5_400_000),
        ("90s", 90_000),
        ("6000ms", 6_000),
        ("1s", 5_000),
        ("99999999h", 31_536_000_000),
        ("x", 300_000),
        ("5", 300_000),
        ("5d", 300_000),
        ("-5m", 300_000),
        ("", 300_000),
    ] {
        let spec = HsmPoolSpec {
            grace_period: text.to_owned(),
            ..HsmPoolSpec::default()
        };
        assert_eq!(grace_period(&spec), Duration::from_millis(milliseconds), "{text}");
    }
}

#[test]
fn a_pool_goes_through_the_phases_of_the_original() {
    let full = |node: &str| pod(node, Some(report(node, at(0), json!([]))));
    let with = |node: &str, word: &str| {
        let mut said = report(node, at(0), json!([]));
        said["discoveryStatus"] = word.into();
        pod(node, Some(said))
    };
    let mut no_set = input(0, Vec::new());
    no_set.devices[0].daemon_set = None;
    assert_eq!(phase(&no_set, at(1)), phase::PENDING);
    assert_eq!(phase(&input(2, Vec::new()), at(1)), phase::PENDING);
    assert_eq!(
        phase(&input(2, vec![full("n1"), full("n2")]), at(1)),
        phase::READY
    );
    assert_eq!(phase(&input(2, vec![full("n1")]), at(1)), phase::PARTIAL);
    assert_eq!(
        phase(&input(2, vec![full("n1"), pod("n2", None)]), at(1)),
        phase::PARTIAL
    );
    assert_eq!(
        phase(&input(2, vec![full("n1"), with("n2", "discovering")]), at(1)),
        phase::AGGREGATING
    );
    // The original would wait for ever for a node that cannot look.
    assert_eq!(
        phase(&input(2, vec![full("n1"), with("n2", "error")]), at(1)),
        phase::PARTIAL
    );
    let mut gone = input(1, vec![full("n1")]);
    gone.devices.clear();
    assert_eq!(phase(&gone, at(1)), phase::ERROR);
}

#[test]
fn the_condition_tells_what_was_aggregated() {
    let mut input = one();
    settle(&mut input, at(1));
    let made = status(&input);
    assert_eq!(
        (made.total_devices, made.available_devices, made.expected_pods),
        (1, 1, 1)
    );
    let condition = &made.conditions[0];
    assert_eq!(
        (
            condition.type_.as_str(),
            condition.status.as_str(),
            condition.reason.as_str()
        ),
        (conditions::DEVICE_AGGREGATION, "True", phase::READY)
    );
    assert_eq!(condition.message, "Aggregated 1 devices from 1 pods");
    input.devices.clear();
    let condition = &decided(&input, at(2)).conditions[0];
    assert_eq!(
        (condition.status.as_str(), condition.reason.as_str()),
        ("False", phase::ERROR)
    );
    assert_eq!(condition.message, "there is no HSMDevice pico");
}

#[test]
fn a_faulty_device_shows_in_a_condition_and_is_told_once() {
    let mut input = one();
    let faulty = crate::decide::world::spec(json!({"deviceType": "PicoHSM", "discovery": {"usb": []}}));
    input.devices[0].device = view("hsm", "pico", &faulty);
    let plan = settle(&mut input, at(1));
    let told = plan
        .steps
        .iter()
        .filter(|step| matches!(step, Step::Tell(note) if note.reason == conditions::INVALID_DEVICE));
    assert_eq!(told.count(), 1);
    let made = status(&input);
    assert_eq!(made.phase.as_deref(), Some(phase::ERROR));
    let invalid = made
        .conditions
        .iter()
        .find(|condition| condition.type_ == conditions::INVALID_DEVICE)
        .unwrap();
    assert!(
        invalid
            .message
            .starts_with("spec.discovery.usb: must be an object")
    );
    // What is known stays, and nothing is said again.
    assert_eq!(made.total_devices, 1);
    assert!(settle(&mut input, at(2)).is_empty());
    input.devices[0].device = view("hsm", "pico", &pico());
    settle(&mut input, at(3));
    let made = status(&input);
    let invalid = made
        .conditions
        .iter()
        .find(|condition| condition.type_ == conditions::INVALID_DEVICE)
        .unwrap();
    assert_eq!(
        (invalid.status.as_str(), invalid.reason.as_str()),
        ("False", RESOLVED)
    );
}

#[test]
fn f34_w14_a_report_that_is_older_than_the_grace_period_is_not_fresh() {
    let mut input = one();
    settle(&mut input, at(10));
    // It is told that nobody serves the token.
    let plan = settle(&mut input, at(70));
    assert_eq!(plan.look_again, Some(Duration::from_secs(230)));
    assert!(status(&input).reporting_pods[0].fresh);
    assert!(settle(&mut input, at(299)).is_empty());
    let plan = settle(&mut input, at(300));
    let made = status(&input);
    assert!(!made.reporting_pods[0].fresh);
    assert_eq!(made.phase.as_deref(), Some(phase::PARTIAL));
    // Its token is lost from that moment on, and is given up a grace period later.
    assert_eq!(listed(&made), [entry("e6", "n1", "/dev/bus/usb/001/015", false)]);
    assert_eq!(made.aggregated_devices[0].last_seen, at(300));
    assert_eq!(plan.look_again, Some(Duration::from_secs(300)));
    assert!(settle(&mut input, at(599)).is_empty());
    settle(&mut input, at(600));
    assert_eq!(listed(&status(&input)), []);
}

/// What discovery is told when an HSMDevice has these pools.
fn told_grace(pools: Vec<PoolView>) -> Duration {
    let input = DeviceInput {
        device: view("hsm", "pico", &pico()),
        pool: None,
        pools,
        live: Vec::new(),
        complete: true,
    };
    let mut cluster = Cluster::default();
    cluster.apply(&decide_device(&input, &rules(), &fingerprinter()));
    let told = cluster.body(&DAEMON_SET, "pico-discovery").unwrap().to_string();
    let (_, behind) = told.split_once("--grace-period=").unwrap();
    let digits: String = behind.chars().take_while(char::is_ascii_digit).collect();
    Duration::from_secs(digits.parse().unwrap())
}

#[test]
fn two_pools_of_one_device_are_both_at_rest_however_short_the_patience_of_one() {
    let pools = ["5m", "30s"].map(|grace| {
        let mut pool = pool_view("hsm", "pico", HsmPoolStatus::default());
        pool.spec.grace_period = grace.to_owned();
        pool
    });
    let cadence = Cadence::new(told_grace(pools.to_vec()));
    let beat = i64::try_from(cadence.wait(Some(Duration::ZERO), false).as_secs()).unwrap();
    for pool in pools {
        let mut input = one();
        input.spec = pool.spec;
        serves(&mut input, "n1");
        settle(&mut input, at(0));
        for time in (1..100).map(|n| n * beat) {
            assert!(settle(&mut input, at(time - 1)).is_empty(), "{time}");
            let devices = json!([seen("e6", "/dev/bus/usb/001/015", at(0))]);
            input.devices[0].pods[0] = pod("n1", Some(report("n1", at(time), devices)));
            assert!(settle(&mut input, at(time)).is_empty(), "{time}");
        }
    }
}

#[test]
fn w14_a_pending_pod_makes_a_pool_partial_and_takes_no_token_away() {
    let mut input = one();
    input.devices[0].daemon_set.as_mut().unwrap().desired = 2;
    let mut pending = pod("n2", None);
    pending.phase = "Pending".to_owned();
    input.devices[0].pods.push(pending);
    settle(&mut input, at(1));
    let made = status(&input);
    assert_eq!(made.phase.as_deref(), Some(phase::PARTIAL));
    assert_eq!((made.available_devices, made.reporting_pods.len()), (1, 2));
    assert_eq!(made.reporting_pods[1].discovery_status, "pending");
}

#[test]
fn a_pod_that_vanishes_leaves_its_tokens_until_the_grace_period_has_passed() {
    let mut input = one();
    settle(&mut input, at(10));
    input.devices[0].pods.clear();
    let plan = settle(&mut input, at(100));
    let made = status(&input);
    assert_eq!(listed(&made), [entry("e6", "n1", "/dev/bus/usb/001/015", false)]);
    assert_eq!(made.aggregated_devices[0].last_seen, at(100));
    assert_eq!(plan.look_again, Some(Duration::from_secs(300)));
    assert!(settle(&mut input, at(399)).is_empty());
    settle(&mut input, at(400));
    assert_eq!(status(&input).total_devices, 0);
}

#[test]
fn a_discovery_pod_that_is_replaced_costs_no_token() {
    let mut input = one();
    settle(&mut input, at(10));
    let mut old = input.devices[0].pods.remove(0);
    old.terminating = true;
    old.name = "pico-discovery-old".to_owned();
    // The new one has nothing to say yet; the old one still counts.
    input.devices[0].pods = vec![old, pod("n1", None)];
    settle(&mut input, at(20));
    assert_eq!(status(&input).available_devices, 1);
    let devices = json!([seen("e6", "/dev/bus/usb/001/015", at(30))]);
    input.devices[0].pods[1] = pod("n1", Some(report("n1", at(30), devices)));
    settle(&mut input, at(31));
    let made = status(&input);
    assert_eq!((made.available_devices, made.total_devices), (1, 1));
    // It was there all the time.
    assert_eq!(made.aggregated_devices[0].last_seen, at(0));
}

#[test]
fn missing_fields_are_taken_from_the_pod() {
    let early = json!({"hsmDeviceName": "pico", "discoveryStatus": "completed", "discoveredDevices": [
        {"devicePath": "/dev/ttyUSB0", "serialNumber": "s1", "lastSeen": "2026-07-07T08:00:00Z"},
    ]});
    let mut input = input(1, vec![pod("n1", Some(early))]);
    settle(&mut input, at(50));
    assert_eq!(listed(&status(&input)), [entry("s1", "n1", "/dev/ttyUSB0", true)]);
    // It has no time, and needs none.
    settle(&mut input, at(110));
    assert!(settle(&mut input, at(349)).is_empty());
    input.silence.pods = [("pico-discovery-n1".to_owned(), Duration::from_secs(300))].into();
    settle_as_heard(&mut input, at(350));
    assert!(!status(&input).reporting_pods[0].fresh);
}

#[test]
fn a_token_that_is_there_since_a_time_to_come_is_there_since_now() {
    let devices = json!([seen("e6", "/dev/a", at(9_000))]);
    let mut input = input(1, vec![pod("n1", Some(report("n1", at(301), devices)))]);
    serves(&mut input, "n1");
    let plan = settle(&mut input, at(1));
    let made = status(&input);
    assert!(made.reporting_pods[0].fresh && made.aggregated_devices[0].last_seen == at(1));
    assert_eq!(plan.look_again, Some(Duration::from_secs(300)));
    assert!(settle(&mut input, at(2)).is_empty());
}

#[test]
fn an_empty_list_of_the_original_is_null() {
    let null = json!({"hsmDeviceName": "pico", "discoveredDevices": null, "lastReportTime": at(0),
        "discoveryStatus": "completed", "error": null});
    let input = input(1, vec![pod("n1", Some(null))]);
    assert_eq!(phase(&input, at(1)), phase::READY);
}

#[test]
fn a_pool_that_is_being_deleted_is_left_alone() {
    let mut input = one();
    input.pool.deleted = Some(at(0));
    assert!(decide_pool(&input, at(1)).is_empty());
}
