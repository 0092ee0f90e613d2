//! Two names for one token.

use trustplane_api::hsm::conditions::{self, phase};
use trustplane_api::hsm::record::{Record, TokenIdentity};
use trustplane_plan::ObjectRef;

use super::*;
use crate::decide::world::soft;
use crate::objects::agent_name;
use crate::pool::{Claim, Met, awaited, concerns, info};

fn met(serial: &str, label: &str) -> Record {
    Record {
        token: Some(TokenIdentity {
            serial: serial.to_owned(),
            label: label.to_owned(),
            manufacturer: "Maker".to_owned(),
            model: "Box 5".to_owned(),
            ..TokenIdentity::default()
        }),
        ..Record::default()
    }
}

/// A pool of static tokens, and what their agents have met.
fn fixed(name: &str, tokens: &[(&str, Option<Record>)]) -> PoolInput {
    let entries = tokens
        .iter()
        .map(|(token, _)| json!({"name": token, "tokenLabel": "l"}));
    let records = tokens
        .iter()
        .filter_map(|(token, record)| Some((agent_name(name, token), record.clone()?)));
    let mut device = device(name, &soft(entries.collect()), 0);
    device.daemon_set = None;
    PoolInput {
        pool: pool_meta("hsm", name),
        devices: vec![device],
        records: records.collect(),
        ..input(0, Vec::new())
    }
}

/// Which tokens of a pool have an agent.
fn served(input: &PoolInput) -> Vec<(String, bool)> {
    let status = decided(input, at(1));
    let tokens = status.aggregated_devices.iter();
    tokens
        .map(|token| (token.serial_number.clone().unwrap(), token.available))
        .collect()
}

fn yes(name: &str) -> (String, bool) {
    (name.to_owned(), true)
}

fn no(name: &str) -> (String, bool) {
    (name.to_owned(), false)
}

#[test]
fn of_two_names_for_one_token_the_first_has_it_and_the_other_says_so() {
    let one = met("42", "l");
    let mut input = fixed("soft", &[("b", Some(one.clone())), ("a", Some(one.clone()))]);
    assert_eq!(served(&input), [yes("a"), no("b")]);
    let plan = settle(&mut input, at(1));
    let text = r#""b" is the same token as "a" of the HSMDevice hsm/soft, which comes first and has it"#;
    let told = plan.steps.iter().filter_map(|step| match step {
        Step::Tell(note) => Some((note.reason, note.text().to_owned())),
        _ => None,
    });
    assert_eq!(
        told.collect::<Vec<_>>(),
        [(conditions::CONFLICT, text.to_owned())]
    );
    let conditions = status(&input).conditions;
    let conflict = conditions
        .iter()
        .find(|condition| condition.type_ == conditions::CONFLICT);
    assert_eq!(conflict.unwrap().message, text);
    // It stays so, and is told once.
    assert!(settle(&mut input, at(2)).is_empty());
    // The agent of the first has met another one since.
    input.records.insert(agent_name("soft", "a"), met("43", "l"));
    assert_eq!(served(&input), [yes("a"), yes("b")]);
}

#[test]
fn tokens_are_one_only_if_they_agree_in_all_that_they_say() {
    let mut nameless = met("42", "l");
    let token = nameless.token.as_mut().unwrap();
    (token.manufacturer, token.model) = (String::new(), String::new());
    for other in [
        Some(met("43", "l")),
        Some(met("42", "m")),
        Some(nameless.clone()),
        Some(Record::default()),
        None,
    ] {
        let input = fixed("soft", &[("a", Some(met("42", "l"))), ("b", other)]);
        assert_eq!(served(&input), [yes("a"), yes("b")]);
    }
    let empty = met("", "l");
    let input = fixed("soft", &[("a", Some(empty.clone())), ("b", Some(empty))]);
    assert_eq!(served(&input), [yes("a"), yes("b")]);
}

#[test]
fn of_two_devices_that_name_one_token_the_older_has_it() {
    let mut older = fixed("old", &[("x", Some(met("42", "l")))]);
    older.devices[0].device.meta.created = "2026-06-01T00:00:00Z".parse().ok();
    let mut younger = fixed("young", &[("a", Some(met("42", "l")))]);
    let claim = |input: &PoolInput| Claim::of(&input.devices[0].device, &decided(input, at(1)));
    let (old, young) = (claim(&older), claim(&younger));
    older.claims = vec![young];
    younger.claims = vec![old];
    assert_eq!(served(&older), [yes("x")]);
    assert_eq!(served(&younger), [no("a")]);
    // The older one knows the younger no longer, and nothing comes back.
    older.claims = vec![claim(&younger)];
    assert_eq!(served(&older), [yes("x")]);
    younger.claims.clear();
    assert_eq!(served(&younger), [yes("a")]);
}

#[test]
fn w35_a_name_that_came_second_waits_for_the_pod_of_the_first_even_if_its_device_is_gone() {
    let mut older = fixed("old", &[("x", Some(met("42", "l")))]);
    older.devices[0].device.meta.created = "2026-06-01T00:00:00Z".parse().ok();
    let mut younger = fixed("young", &[("a", Some(met("42", "l")))]);
    younger.claims = vec![Claim::of(&older.devices[0].device, &decided(&older, at(1)))];
    settle(&mut younger, at(1));
    let agent = ObjectRef::new(Some("hsm"), "hsm-agent-old-x");
    assert_eq!(awaited(&status(&younger)), [agent.clone()].into());
    // The older one is deleted, and its pod is not gone yet: nothing changes.
    younger.claims.clear();
    younger.running = [agent].into();
    assert!(settle(&mut younger, at(2)).is_empty());
    // Nor if the younger one knows no longer what it has met.
    let mut forgetful = younger.clone();
    forgetful.records.clear();
    assert_eq!(served(&forgetful), [no("a")]);
    // One that has met another token since holds nothing back, and neither does a pod that has ended.
    older.records.insert(agent_name("old", "x"), met("43", "l"));
    let mut other = younger.clone();
    other.claims = vec![Claim::of(&older.devices[0].device, &decided(&older, at(1)))];
    assert_eq!(served(&other), [yes("a")]);
    younger.running.clear();
    settle(&mut younger, at(3));
    assert_eq!(listed(&status(&younger)), [entry("a", "", "", true)]);
    assert_eq!(awaited(&status(&younger)), [].into());
}

/// A PIN that is locked, as an agent writes it down.
fn locked(record: Record) -> Record {
    let state = json!({"phase": "PinLocked", "since": at(0), "message": "locked"});
    Record {
        state: serde_json::from_value(state).unwrap(),
        ..record
    }
}

/// The HSMDevice names a directory that the admin no longer allows.
fn spoil(input: &mut PoolInput) {
    let name = input.devices[0].device.meta.object.name().to_owned();
    let meta = input.devices[0].device.meta.clone();
    let token = json!([{"name": "x", "tokenLabel": "l", "hostDirectories": [{"path": "/opt"}]}]);
    input.devices[0].device = view("hsm", &name, &soft(token));
    input.devices[0].device.meta = meta;
}

#[test]
fn a_static_device_that_becomes_faulty_keeps_its_tokens_and_what_is_known_of_them() {
    let mut input = fixed("soft", &[("x", Some(locked(met("42", "l"))))]);
    settle(&mut input, at(1));
    let before = status(&input);
    spoil(&mut input);
    settle(&mut input, at(100));
    let made = status(&input);
    assert_eq!(made.phase.as_deref(), Some(phase::ERROR));
    assert_eq!(made.aggregated_devices, before.aggregated_devices);
    assert_eq!((made.total_devices, made.available_devices), (1, 1));
    let pin = made
        .conditions
        .iter()
        .find(|condition| condition.type_ == "PinLocked");
    assert_eq!(pin.unwrap().status, "True");
    assert!(settle(&mut input, at(10_000)).is_empty());
    // One that is mended says for itself what it has.
    input.devices[0].device = fixed("soft", &[("y", None)]).devices[0].device.clone();
    assert_eq!(served(&input), [yes("y")]);
}

#[test]
fn no_rival_gets_a_token_of_a_faulty_device_because_its_agent_goes_on() {
    let mut older = fixed("old", &[("x", Some(met("42", "l")))]);
    older.devices[0].device.meta.created = "2026-06-01T00:00:00Z".parse().ok();
    let mut younger = fixed("young", &[("a", Some(met("42", "l")))]);
    let claim = |input: &PoolInput| Claim::of(&input.devices[0].device, &status(input));
    for input in [&mut older, &mut younger] {
        settle(input, at(1));
    }
    // The older one is faulty.
    let (mut faulty, mut rival) = (older.clone(), younger.clone());
    spoil(&mut faulty);
    settle(&mut faulty, at(2));
    rival.claims = vec![claim(&faulty)];
    assert_eq!(served(&rival), [no("a")]);
    // The younger one is faulty: nobody would stop its agent, so the older one waits, and both agree in that.
    let (mut faulty, mut rival) = (younger, older);
    spoil(&mut faulty);
    faulty.claims = vec![claim(&rival)];
    settle(&mut faulty, at(2));
    assert_eq!(listed(&status(&faulty)), [entry("a", "", "", true)]);
    rival.claims = vec![claim(&faulty)];
    settle(&mut rival, at(3));
    assert_eq!(listed(&status(&rival)), [entry("x", "", "", false)]);
    // Only what it holds: one that waited for a token still does.
    let mut waits = fixed("late", &[("l", Some(met("42", "l")))]);
    waits.claims = vec![claim(&faulty)];
    settle(&mut waits, at(4));
    spoil(&mut waits);
    settle(&mut waits, at(5));
    assert_eq!(listed(&status(&waits)), [entry("l", "", "", false)]);
}

#[test]
fn a_device_that_this_version_cannot_read_is_a_faulty_one() {
    let mut input = fixed("soft", &[("x", Some(met("42", "l")))]);
    settle(&mut input, at(1));
    input.devices[0].device.read = Err(crate::device::Faults::unreadable());
    settle(&mut input, at(2));
    let made = status(&input);
    assert_eq!(listed(&made), [entry("x", "", "", true)]);
    assert_eq!(made.conditions[0].message, "spec: cannot be read by this version");
    assert_eq!(Claim::of(&input.devices[0].device, &made).met.len(), 1);
}

#[test]
fn tokens_on_the_bus_are_told_apart_by_their_place_and_from_static_ones_by_what_they_say() {
    let mut bus = one();
    bus.records.insert(agent_name("pico", "e6"), met("42", "l"));
    let mut elsewhere = Claim::of(&view("hsm", "another", &pico()), &decided(&bus, at(1)));
    assert!(elsewhere.met.is_empty(), "it is of another device");
    elsewhere = Claim::of(&bus.devices[0].device, &decided(&bus, at(1)));
    elsewhere.device = ObjectRef::new(Some("hsm"), "older");
    elsewhere.uid = "uid-older".into();
    elsewhere.created = "2026-06-01T00:00:00Z".parse().ok();
    elsewhere.tokens.clear();
    bus.claims = vec![elsewhere.clone()];
    assert_eq!(served(&bus), [yes("e6")]);
    let fixed = elsewhere
        .met
        .into_iter()
        .map(|met| crate::pool::Met { fixed: true, ..met });
    elsewhere = Claim {
        met: fixed.collect(),
        ..bus.claims[0].clone()
    };
    bus.claims = vec![elsewhere];
    assert_eq!(served(&bus), [no("e6")]);
}

#[test]
fn a_pool_concerns_those_that_share_a_token_with_it_or_wait_for_one() {
    let a = decided(&fixed("a", &[("x", Some(met("42", "l")))]), at(1));
    let b = decided(&fixed("b", &[("y", Some(met("42", "l")))]), at(1));
    let c = decided(&fixed("c", &[("z", Some(met("43", "l")))]), at(1));
    assert!(concerns(&a, &b) && concerns(&b, &a));
    assert!(!concerns(&a, &c) && !concerns(&c, &b));
    let bus = decided(&one(), at(1));
    assert!(concerns(&bus, &bus) && !concerns(&bus, &a));
    let mut waits = c;
    let info = &mut waits.aggregated_devices[0].device_info;
    info.insert(info::CLAIMED_BY.to_owned(), "hsm/any".to_owned());
    assert!(concerns(&HsmPoolStatus::default(), &waits));
}

/// A token on the bus that its agent has met.
fn on_the_bus() -> PoolInput {
    let mut token = seen("e6", "/dev/bus/usb/001/015", at(0));
    token["deviceInfo"] = json!({"discovery-type": "usb"});
    let report = report("n1", at(0), json!([token]));
    let mut input = input(1, vec![pod("n1", Some(report))]);
    input.records.insert(agent_name("pico", "e6"), met("42", "l"));
    settle(&mut input, at(1));
    input
}

#[test]
fn what_a_device_holds_is_in_its_own_way_in_no_pool() {
    let mut input = on_the_bus();
    input.claims = vec![Claim::of(&input.devices[0].device, &status(&input))];
    assert_eq!(served(&input), [yes("e6")]);
    assert!(settle(&mut input, at(2)).is_empty());
}

#[test]
fn two_tokens_of_a_bus_that_say_the_same_of_themselves_are_two() {
    let mut input = on_the_bus();
    let mut theirs = Claim::of(&input.devices[0].device, &status(&input));
    theirs.device = ObjectRef::new(Some("hsm"), "another");
    (theirs.uid, theirs.created) = ("another".into(), "2020-01-01T00:00:00Z".parse().ok());
    theirs.tokens.clear();
    input.claims = vec![theirs.clone()];
    assert_eq!(served(&input), [yes("e6")]);
    // One that is static may be the same.
    theirs.met = theirs
        .met
        .into_iter()
        .map(|met| Met { fixed: true, ..met })
        .collect();
    input.claims = vec![theirs];
    assert_eq!(served(&input), [no("e6")]);
}
