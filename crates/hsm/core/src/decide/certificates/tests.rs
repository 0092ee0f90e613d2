use serde_json::Value;
use trustplane_plan::FieldSet;

use super::*;
use crate::decide::decide_agents;
use crate::decide::world::{Cluster, at, device_meta, fingerprinter, pico, rules, spec, steps, view};

const AGENT: &str = "hsm-agent-pico-e66";
const TLS: &str = "hsm-agent-pico-e66-tls";
/// When the certificate of these tests ends, and when another one is due.
const ENDS_AT: i64 = 1000;
const DUE: i64 = 900;

fn agent() -> ObjectRef {
    ObjectRef::new(Some("hsm"), AGENT)
}

fn input(live: Vec<(Kind, Meta)>) -> AgentsInput {
    AgentsInput {
        key: ObjectRef::new(Some("hsm"), "pico"),
        device: Some(view("hsm", "pico", &pico())),
        pools: Vec::new(),
        live,
        complete: true,
        records: Default::default(),
        pods: Vec::new(),
        consent: crate::consent::Consent::Needless,
        issuing: Issuing {
            bundle: "one".to_owned(),
            renew_before: SignedDuration::from_secs(ENDS_AT - DUE),
        },
    }
}

/// The Secret with the certificate of an agent of a device, as it was first made.
fn made(device: &str, agent: ObjectRef) -> (Value, Meta) {
    let (input, device, fingerprinter) = (input(Vec::new()), device_meta("hsm", device), fingerprinter());
    let desk = Desk {
        issuing: &input.issuing,
        device: &device,
        fingerprinter: &fingerprinter,
        now: at(0),
    };
    let Some(AgentAction::Certificate { write, .. }) = desk.first(agent.clone()) else {
        panic!("no certificate")
    };
    assert_eq!(write.expect, Expect::Absent);
    let mut cluster = Cluster::default();
    cluster.put(&write.manifest.stamp(ENDS, &at(ENDS_AT).to_string()));
    let name = tls_secret_name(agent.name());
    let body = cluster.body(&SECRET, &name).unwrap().clone();
    (body, cluster.meta(&SECRET, &name).unwrap().clone())
}

fn live() -> Meta {
    made("pico", agent()).1
}

fn decide(input: &AgentsInput, now: i64) -> Plan<AgentAction> {
    decide_agents(input, &rules(), &fingerprinter(), at(now))
}

/// The write that replaces the one certificate that there is.
fn replaced(input: &AgentsInput, now: i64) -> Apply {
    let plan = decide(input, now);
    match &plan.steps[..] {
        [Step::Call(AgentAction::Certificate { agent: of, write })] if *of == agent() => write.clone(),
        _ => panic!("{plan}"),
    }
}

#[test]
fn the_secret_of_an_agent_is_known_and_owned_and_holds_no_value_yet() {
    let (body, live) = made("pico", agent());
    assert_eq!(
        (live.object.name(), &body["type"]),
        (TLS, &"kubernetes.io/tls".into())
    );
    assert_eq!(
        body["metadata"]["labels"],
        json!({
            "app.kubernetes.io/managed-by": "hsm-secrets-operator",
            "app.kubernetes.io/component": "mtls", "hsm.j5t.io/device": "pico",
        })
    );
    assert_eq!(live.owners[0].uid, "uid-hsm-pico");
    assert_eq!(
        (&body["data"]["tls.key"], &body["data"]["ca.crt"]),
        (&"".into(), &"one".into())
    );
}

#[test]
fn a_certificate_stays_until_the_very_moment_at_which_it_is_due() {
    let input = input(vec![(SECRET, live())]);
    let plan = decide(&input, DUE - 1);
    assert_eq!(
        (steps(&plan).len(), plan.look_again),
        (0, Some(Duration::from_secs(1)))
    );
    for late in [DUE, DUE + 1, ENDS_AT, ENDS_AT * 9] {
        let again = replaced(&input, late);
        // The same recipe, in the place of what was seen.
        let same = again.manifest.wish()["metadata"]["annotations"][FINGERPRINT].clone();
        assert_eq!(same, live().annotations[FINGERPRINT].as_str());
        assert!(matches!(again.expect, Expect::Seen { uid, .. } if uid == live().uid));
    }
}

#[test]
fn a_certificate_whose_end_nobody_can_tell_is_replaced_at_once() {
    for ends in [None, Some("soon"), Some(""), Some("-9999-01-01T00:00:00Z")] {
        let mut live = live();
        live.annotations.remove(ENDS);
        live.annotations
            .extend(ends.map(|ends| (ENDS.to_owned(), ends.to_owned())));
        replaced(&input(vec![(SECRET, live)]), 0);
    }
}

#[test]
fn a_certificate_of_other_authorities_is_replaced() {
    let mut input = input(vec![(SECRET, live())]);
    // A successor is announced: agents have to know it before it signs.
    input.issuing.bundle = "one and its successor".to_owned();
    let write = replaced(&input, 0);
    assert_eq!(write.manifest.wish()["data"]["ca.crt"], "one and its successor");
}

#[test]
fn a_secret_that_somebody_has_touched_is_replaced() {
    let mut taken = live();
    taken.fields = FieldSet::from_fields_v1(&json!({"f:type": {}, "f:data": {"f:tls.crt": {}}}));
    replaced(&input(vec![(SECRET, taken)]), 0);
    let mut labelled = live();
    labelled.labels.insert(DEVICE_LABEL.to_owned(), "pic".to_owned());
    labelled.fields = FieldSet::default();
    replaced(&input(vec![(SECRET, labelled)]), 0);
}

#[test]
fn a_certificate_that_goes_is_left_to_go() {
    let mut live = live();
    live.deleted = Some(at(0));
    assert_eq!(steps(&decide(&input(vec![(SECRET, live)]), DUE)), [""; 0]);
}

#[test]
fn a_certificate_of_another_device_whose_name_begins_alike_is_left_alone() {
    let other = ObjectRef::new(Some("hsm"), "hsm-agent-pico-2-e66");
    let (_, theirs) = made("pico-2", other);
    assert_eq!(
        steps(&decide(&input(vec![(SECRET, theirs.clone())]), DUE)),
        [""; 0]
    );
    // Nor is a Secret of ours that is something else.
    let mut something = live();
    something
        .labels
        .insert(COMPONENT_LABEL.to_owned(), "so-pin".to_owned());
    assert_eq!(steps(&decide(&input(vec![(SECRET, something)]), DUE)), [""; 0]);
}

#[test]
fn a_device_that_makes_no_sense_keeps_the_certificates_of_its_agents_good() {
    let mut input = input(vec![(SECRET, live())]);
    let faulty = spec(json!({"deviceType": "PicoHSM", "discovery": {"usb": []}}));
    input.device = Some(view("hsm", "pico", &faulty));
    replaced(&input, DUE);
    input.device.as_mut().unwrap().meta.deleted = Some(at(0));
    assert_eq!(steps(&decide(&input, DUE)), [""; 0]);
}

#[test]
fn the_key_of_a_record_belongs_to_the_device_and_has_no_value_yet() {
    let (input, device, fingerprinter) = (input(Vec::new()), device_meta("hsm", "pico"), fingerprinter());
    let desk = Desk {
        issuing: &input.issuing,
        device: &device,
        fingerprinter: &fingerprinter,
        now: at(0),
    };
    let AgentAction::RecordKey { write, .. } = desk.record_key(agent()) else {
        panic!("no key")
    };
    let body = write.manifest.body();
    // It is never written in the place of one that is there.
    assert_eq!(write.expect, Expect::Absent);
    assert_eq!(body["metadata"]["name"], "hsm-agent-pico-e66-record-key");
    assert_eq!(body["metadata"]["ownerReferences"][0]["uid"], "uid-hsm-pico");
    assert_eq!(body.get("data"), None);
}

#[test]
fn an_so_pin_has_no_owner_and_no_value_yet() {
    let (input, device, fingerprinter) = (input(Vec::new()), device_meta("hsm", "pico"), fingerprinter());
    let desk = Desk {
        issuing: &input.issuing,
        device: &device,
        fingerprinter: &fingerprinter,
        now: at(0),
    };
    let AgentAction::SoPin { write, .. } = desk.so_pin(agent()) else {
        panic!("no SO-PIN")
    };
    let body = write.manifest.body();
    assert_eq!(write.expect, Expect::Absent);
    assert_eq!(body["metadata"]["name"], "hsm-agent-pico-e66-so-pin");
    assert_eq!(
        (body["metadata"].get("ownerReferences"), body.get("data")),
        (None, None)
    );
}
