use std::time::Duration;

use jiff::SignedDuration;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use trustplane_api::hsm::conditions::{event, phase};
use trustplane_api::hsm::record::TokenIdentity;
use trustplane_api::hsm::{AggregatedDevice, HsmDeviceSpec, HsmPoolStatus};
use trustplane_plan::kinds::SERVICE_ACCOUNT;

use super::*;
use crate::decide::ENDS;
use crate::decide::world::{Cluster, at, fingerprinter, meta, pico, pool_view, rules, spec, steps, view};
use crate::pool::info;

mod consents;
mod moves;
mod pods;

const NAME: &str = "hsm-agent-pico-e6";
/// How long certificates live, in seconds.
const LIFE: i64 = 100_000;

fn token(serial: &str, node: &str, path: &str, available: bool) -> AggregatedDevice {
    AggregatedDevice {
        device_path: path.to_owned(),
        serial_number: (!serial.is_empty()).then(|| serial.to_owned()),
        node_name: node.to_owned(),
        last_seen: at(0),
        available,
        device_info: [(info::DEVICE.to_owned(), "pico".to_owned())].into(),
        resource_name: None,
        role: None,
        mirrored_from: None,
        last_sync_time: None,
        health: None,
    }
}

fn status(phase: &str, tokens: Vec<AggregatedDevice>) -> HsmPoolStatus {
    HsmPoolStatus {
        phase: Some(phase.to_owned()),
        last_aggregation_time: Some(at(0)),
        aggregated_devices: tokens,
        ..HsmPoolStatus::default()
    }
}

fn input(spec: &HsmDeviceSpec, status: HsmPoolStatus) -> AgentsInput {
    AgentsInput {
        key: ObjectRef::new(Some("hsm"), "pico"),
        device: Some(view("hsm", "pico", spec)),
        pools: vec![pool_view("hsm", "pico", status)],
        live: Vec::new(),
        complete: true,
        records: BTreeMap::new(),
        pods: Vec::new(),
        consent: Consent::Needless,
        issuing: Issuing {
            bundle: "bundle".to_owned(),
            renew_before: SignedDuration::from_secs(100),
        },
    }
}

fn one() -> AgentsInput {
    input(
        &pico(),
        status(
            phase::READY,
            vec![token("e6", "n1", "/dev/bus/usb/001/015", true)],
        ),
    )
}

fn decide(input: &AgentsInput) -> Plan<AgentAction> {
    decide_agents(input, &rules(), &fingerprinter(), at(60))
}

/// Carries out a plan. What the controller makes is as good as its recipe.
fn carry_out(input: &mut AgentsInput, cluster: &mut Cluster) {
    let plan = decide(input);
    cluster.apply(&plan);
    for step in &plan.steps {
        if let Step::Call(
            AgentAction::Certificate { write, .. }
            | AgentAction::SoPin { write, .. }
            | AgentAction::RecordKey { write, .. },
        ) = step
        {
            cluster.put(&write.manifest.clone().stamp(ENDS, &at(LIFE).to_string()));
        }
    }
    input.live = cluster.live();
}

fn running(input: &mut AgentsInput) -> Cluster {
    let mut cluster = Cluster::default();
    carry_out(input, &mut cluster);
    cluster
}

fn deployment(input: &AgentsInput, name: &str) -> Value {
    let mut input = input.clone();
    running(&mut input).body(&DEPLOYMENT, name).unwrap().clone()
}

fn pod(deployment: &Value) -> &Value {
    &deployment["spec"]["template"]["spec"]
}

fn arguments(deployment: &Value) -> Vec<String> {
    let arguments = pod(deployment)["containers"][0]["args"]
        .as_array()
        .unwrap()
        .iter();
    arguments
        .map(|argument| argument.as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_token_gets_an_agent_with_all_its_objects_and_then_rests() {
    let mut input = one();
    let wanted = [
        r#"call Certificate { agent: hsm/hsm-agent-pico-e6, .. }"#,
        r#"call RecordKey { agent: hsm/hsm-agent-pico-e6, .. }"#,
        "create ServiceAccount hsm/hsm-agent-pico-e6",
        "create Role hsm/hsm-agent-pico-e6",
        "create RoleBinding hsm/hsm-agent-pico-e6",
        "create ConfigMap hsm/hsm-agent-pico-e6",
        "create Deployment hsm/hsm-agent-pico-e6",
    ];
    assert_eq!(steps(&decide(&input)), wanted);
    running(&mut input);
    assert_eq!(steps(&decide(&input)), [""; 0]);
}

#[test]
fn f41_a_new_agent_waits_for_a_pool_that_is_ready_or_partial() {
    for (phase, made) in [
        (phase::PENDING, false),
        (phase::AGGREGATING, false),
        (phase::ERROR, false),
        (phase::READY, true),
        (phase::PARTIAL, true),
    ] {
        let tokens = vec![token("e6", "n1", "/dev/a", true)];
        let plan = decide(&input(&pico(), status(phase, tokens)));
        assert_eq!(!plan.is_empty(), made, "{phase}");
    }
}

#[test]
fn w14_a_partial_pool_goes_on_serving_and_so_does_one_that_looks_again() {
    for phase in [phase::PARTIAL, phase::AGGREGATING, phase::PENDING, phase::ERROR] {
        let mut input = one();
        running(&mut input);
        input.pools[0].status.phase = Some(phase.to_owned());
        assert_eq!(steps(&decide(&input)), [""; 0], "{phase}");
    }
}

#[test]
fn w14_no_agent_is_made_for_a_token_that_is_not_there_and_one_that_was_keeps_its_agent() {
    let lost = vec![token("e6", "n1", "/dev/a", false)];
    let mut input = input(&pico(), status(phase::READY, lost));
    assert_eq!(steps(&decide(&input)), [""; 0]);
    input.pools[0].status.aggregated_devices[0].available = true;
    running(&mut input);
    input.pools[0].status.aggregated_devices[0].available = false;
    assert_eq!(steps(&decide(&input)), [""; 0]);
}

#[test]
fn f43_an_agent_goes_when_its_token_has_left_the_pool_and_a_record_with_content_stays() {
    let mut input = one();
    running(&mut input);
    input.pools[0].status.aggregated_devices.clear();
    let told = steps(&decide(&input)).join("\n");
    for kind in ["Deployment", "ServiceAccount", "Role", "RoleBinding", "Secret"] {
        assert!(
            told.contains(&format!("delete {kind} hsm/hsm-agent-pico-e6")),
            "{kind}: {told}"
        );
    }
    // Nobody knows what is in the record: it stays, and so does the key without which it says nothing.
    assert!(!told.contains("ConfigMap") && !told.contains("record-key"));
    let empty = Record::default();
    input.records.insert(NAME.to_owned(), empty.clone());
    let told = steps(&decide(&input));
    let [record, key] = ["delete ConfigMap", "record-key"]
        .map(|text| told.iter().position(|step| step.contains(text)).unwrap());
    assert!(record < key, "{told:?}");
    let known = Record {
        token: Some(TokenIdentity::default()),
        ..empty
    };
    input.records.insert(NAME.to_owned(), known);
    let told = steps(&decide(&input)).join("\n");
    assert!(!told.contains("delete ConfigMap") && !told.contains("record-key"));
    // Somebody has removed the record.
    input.live.retain(|(kind, _)| *kind != CONFIG_MAP);
    input.records.clear();
    assert!(steps(&decide(&input)).join("\n").contains("record-key"));
}

#[test]
fn nothing_is_removed_on_a_partial_view_or_while_a_pool_is_still_looking() {
    let mut input = one();
    running(&mut input);
    input.pools[0].status.aggregated_devices.clear();
    let mut partial = input.clone();
    partial.complete = false;
    assert_eq!(steps(&decide(&partial)), [""; 0]);
    let mut looking = input.clone();
    looking.pools[0].status.phase = Some(phase::AGGREGATING.to_owned());
    let plan = decide(&looking);
    assert_eq!(
        (steps(&plan), plan.look_again),
        (Vec::new(), Some(Duration::from_secs(240)))
    );
    assert!(!decide_agents(&looking, &rules(), &fingerprinter(), at(300)).is_empty());
    // A status that somebody has emptied says nothing, however old the pool is.
    let mut empty = input.clone();
    empty.pools[0].status = HsmPoolStatus::default();
    assert!(decide_agents(&empty, &rules(), &fingerprinter(), at(9_999)).is_empty());
    input.pools.clear();
    assert_eq!(steps(&decide(&input)), [""; 0]);
}

/// After an outage the grace period of a pool has passed, although the controller could not see the pool during it.
#[test]
fn agents_stay_until_a_pool_was_watched_for_its_period() {
    let mut input = one();
    running(&mut input);
    input.pools[0].status.aggregated_devices.clear();
    input.pools[0].status.phase = Some(phase::AGGREGATING.to_owned());
    let mut after = |watched: u64| {
        input.pools[0].watched = Duration::from_secs(watched);
        decide_agents(&input, &rules(), &fingerprinter(), at(900))
    };
    let plan = after(100);
    assert_eq!(
        (steps(&plan), plan.look_again),
        (Vec::new(), Some(Duration::from_secs(200)))
    );
    assert!(!after(300).is_empty());
}

#[test]
fn a_faulty_device_keeps_its_agents_as_they_are() {
    let mut input = one();
    running(&mut input);
    input.pools[0].status.aggregated_devices.clear();
    let faulty = spec(json!({"deviceType": "PicoHSM", "discovery": {"usb": []}}));
    input.device = Some(view("hsm", "pico", &faulty));
    assert_eq!(steps(&decide(&input)), [""; 0]);
}

#[test]
fn an_agent_may_read_its_pin_and_fill_its_record_and_nothing_else() {
    let mut input = one();
    let cluster = running(&mut input);
    assert_eq!(
        cluster.body(&ROLE, NAME).unwrap()["rules"],
        json!([
            {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [NAME], "verbs": ["get", "patch"]},
            {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["pin"], "verbs": ["get", "list", "watch"]},
        ])
    );
    let account = cluster.body(&SERVICE_ACCOUNT, NAME).unwrap();
    assert_eq!(account["automountServiceAccountToken"], false);
    assert_eq!(cluster.body(&CONFIG_MAP, NAME).unwrap().get("data"), None);
}

#[test]
fn a_token_without_a_serial_number_or_of_another_device_has_no_agent() {
    let mut other = token("e6", "n1", "/dev/a", true);
    other
        .device_info
        .insert(info::DEVICE.to_owned(), "other".to_owned());
    let mut claimed = token("e7", "n1", "/dev/b", true);
    claimed
        .device_info
        .insert(info::CLAIMED_BY.to_owned(), "hsm/older".to_owned());
    let tokens = vec![token("", "n1", "/dev/c", true), other, claimed];
    assert_eq!(
        steps(&decide(&input(&pico(), status(phase::READY, tokens)))),
        [""; 0]
    );
}

#[test]
fn two_tokens_with_one_serial_number_have_one_agent_that_does_not_jump() {
    let mut input = input(
        &pico(),
        status(phase::READY, vec![token("e6", "n1", "/dev/b", true)]),
    );
    let cluster = running(&mut input);
    let made = cluster.body(&DEPLOYMENT, NAME).unwrap();
    let annotations = &made["spec"]["template"]["metadata"]["annotations"];
    assert_eq!(annotations["hsm.j5t.io/device-path"], "/dev/b");
    // A clone is plugged in later, at a path that comes first, perhaps with a serial number in another case.
    for serial in ["e6", "E6"] {
        let mut clone = token(serial, "n1", "/dev/a", true);
        clone.last_seen = at(5);
        input.pools[0].status.aggregated_devices = vec![token("e6", "n1", "/dev/b", true), clone];
        assert_eq!(steps(&decide(&input)), [""; 0]);
        input.pools[0].status.aggregated_devices.reverse();
        assert_eq!(steps(&decide(&input)), [""; 0]);
    }
}

/// An agent that may set up a blank token.
fn provisioning() -> AgentsInput {
    let mut provision = pico();
    provision.pkcs11.as_mut().unwrap().auto_provision = true;
    input(&provision, one().pools[0].status.clone())
}

fn says(input: &mut AgentsInput, phase: AgentPhase) {
    let state = json!({ "phase": phase, "since": at(0) });
    let record = Record {
        state: serde_json::from_value(state).unwrap(),
        ..Record::default()
    };
    input.records.insert(NAME.to_owned(), record);
}

#[test]
fn so_pin_is_made_only_for_a_token_that_is_being_set_up() {
    let mut input = provisioning();
    let mut cluster = running(&mut input);
    let made = cluster.body(&DEPLOYMENT, NAME).unwrap();
    assert!(arguments(made).contains(&"--auto-provision".to_owned()));
    for phase in [
        AgentPhase::Opening,
        AgentPhase::Serving,
        AgentPhase::Unavailable,
        AgentPhase::PinNotSet,
        AgentPhase::ProvisionSkipped,
    ] {
        says(&mut input, phase);
        assert_eq!(steps(&decide(&input)), [""; 0], "{phase:?}");
    }
    says(&mut input, AgentPhase::SoPinWanted);
    assert_eq!(
        steps(&decide(&input)),
        ["call SoPin { agent: hsm/hsm-agent-pico-e6, .. }"]
    );
    let mounts = |cluster: &Cluster| {
        let made = cluster.body(&DEPLOYMENT, NAME).unwrap();
        pod(made)["volumes"]
            .to_string()
            .contains("hsm-agent-pico-e6-so-pin")
    };
    carry_out(&mut input, &mut cluster);
    assert!(!mounts(&cluster), "a pod is not made before its SO-PIN is there");
    // The pod that has found the blank token makes room for one that can set it up, which then stays.
    carry_out(&mut input, &mut cluster);
    assert!(mounts(&cluster));
    says(&mut input, AgentPhase::Provisioning);
    assert_eq!(steps(&decide(&input)), [""; 0]);
}

#[test]
fn so_pin_is_never_removed() {
    let mut input = provisioning();
    says(&mut input, AgentPhase::SoPinWanted);
    let mut cluster = running(&mut input);
    carry_out(&mut input, &mut cluster);
    assert!(cluster.body(&SECRET, "hsm-agent-pico-e6-so-pin").is_some());
    assert_eq!(steps(&decide(&input)), [""; 0]);
    input.pools[0].status.aggregated_devices.clear();
    assert!(!steps(&decide(&input)).join("\n").contains("so-pin"));
    // Also if somebody has made it one of those that go with the HSMDevice.
    let owned = input.live.iter().find(|(kind, _)| *kind == DEPLOYMENT);
    let owners = owned.unwrap().1.owners.clone();
    let secrets = input.live.iter_mut().filter(|(kind, _)| *kind == SECRET);
    secrets.for_each(|(_, live)| live.owners = owners.clone());
    let told = steps(&decide(&input)).join("\n");
    assert!(told.contains("-tls") && !told.contains("so-pin"), "{told}");
    input.device = None;
    assert!(!steps(&decide(&input)).join("\n").contains("so-pin"));
}

#[test]
fn an_so_pin_is_not_made_anew_for_a_token_that_may_have_the_old_one() {
    let mut input = provisioning();
    running(&mut input);
    let told = |input: &AgentsInput| steps(&decide(input)).join("\n");
    // Nobody knows what is in the record.
    assert!(!told(&input).contains("call SoPin"));
    says(&mut input, AgentPhase::SoPinWanted);
    let wanted = input.records[NAME].state.clone();
    let officers = |outcome| {
        Record {
        state: wanted.clone(),
        tries: vec![
            serde_json::from_value(json!({
                "token": "t", "secret": OFFICER, "digest": "d", "by": "pod/1", "at": at(0), "outcome": outcome,
            }))
            .unwrap(),
        ],
        ..Record::default()
    }
    };
    for (outcome, made) in [
        (Outcome::Accepted, false),
        (Outcome::Pending, false),
        (Outcome::Rejected, false),
        (Outcome::Withdrawn, true),
    ] {
        input.records.insert(NAME.to_owned(), officers(outcome));
        assert_eq!(told(&input).contains("call SoPin"), made, "{outcome:?}");
        assert_eq!(told(&input).contains(event::SO_PIN_LOST), !made, "{outcome:?}");
    }
}

#[test]
fn an_object_of_another_device_is_not_taken() {
    let mut input = one();
    let foreign = meta(json!({
        "name": NAME, "namespace": "hsm", "uid": "x", "resourceVersion": "1",
        "labels": {"app.kubernetes.io/managed-by": "hsm-secrets-operator", "hsm.j5t.io/device": "pico-e6"},
    }));
    input.live = vec![(CONFIG_MAP, foreign.clone())];
    let plan = decide(&input);
    assert!(
        matches!(&plan.steps[..], [Step::Tell(note)] if note.reason == event::AGENT_TAKEN),
        "{plan}"
    );
    // Nor is one of somebody else; the rest of the agent is made.
    let mut nobodys = foreign;
    nobodys.labels.clear();
    input.live = vec![(CONFIG_MAP, nobodys)];
    let told = steps(&decide(&input)).join("\n");
    assert!(
        told.contains(event::AGENT_TAKEN) && !told.contains("ConfigMap hsm/hsm-agent-pico-e6\n"),
        "{told}"
    );
}

#[test]
fn a_device_that_is_opened_by_nobody_has_no_agent() {
    let bare = spec(json!({"deviceType": "PicoHSM"}));
    let mut input = input(&bare, one().pools[0].status.clone());
    assert_eq!(steps(&decide(&input)), [""; 0]);
    input.device = None;
    assert_eq!(steps(&decide(&input)), [""; 0]);
}

fn any_token() -> impl Strategy<Value = AggregatedDevice> {
    let serial = select(vec!["", "e6", "E6", "e 7"]);
    let node = select(vec!["n1", "n2"]);
    let path = select(vec!["/dev/a", "/dev/b"]);
    let mark = select(vec!["", info::MOVED_TO, info::CLAIMED_BY]);
    (serial, node, path, any::<bool>(), mark, 0..3i64).prop_map(
        |(serial, node, path, available, mark, seen)| {
            let mut token = token(serial, node, path, available && mark.is_empty());
            token.last_seen = at(seen);
            if !mark.is_empty() {
                token.device_info.insert(mark.to_owned(), "n9".to_owned());
            }
            token
        },
    )
}

fn any_status() -> impl Strategy<Value = HsmPoolStatus> {
    let phase = select(vec![
        phase::READY,
        phase::PARTIAL,
        phase::AGGREGATING,
        phase::PENDING,
        phase::ERROR,
    ]);
    let tokens = prop::collection::vec(any_token(), 0..4);
    (phase, tokens).prop_map(|(phase, tokens)| status(phase, tokens))
}

proptest! {
    #[test]
    fn after_few_rounds_there_is_nothing_left_to_do(first in any_status(), then in any_status(), away in any::<bool>()) {
        let mut input = input(&pico(), first);
        if away {
            consents::elsewhere(&mut input, Consent::Given);
        }
        let mut cluster = Cluster::default();
        carry_out(&mut input, &mut cluster);
        prop_assert_eq!(steps(&decide(&input)), [""; 0]);
        input.pools[0].status = then;
        // One that moved goes first, and comes back then.
        carry_out(&mut input, &mut cluster);
        carry_out(&mut input, &mut cluster);
        prop_assert_eq!(steps(&decide(&input)), [""; 0]);
    }
}
