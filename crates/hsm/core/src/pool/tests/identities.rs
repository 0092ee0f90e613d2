//! Two names for one token.

use trustplane_api::hsm::record::{Record, TokenIdentity};
use trustplane_plan::ObjectRef;

use super::*;
use crate::decide::world::{device_meta, soft};
use crate::objects::agent_name;
use crate::pool::{Claim, concerns, info};

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
    assert_eq!(told.collect::<Vec<_>>(), [("Conflict", text.to_owned())]);
    let conditions = status(&input).conditions;
    let conflict = conditions.iter().find(|condition| condition.type_ == "Conflict");
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
    let claim = |input: &PoolInput| Claim::of(&input.devices[0].device.meta, &decided(input, at(1)));
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
fn tokens_on_the_bus_are_told_apart_by_their_place_and_from_static_ones_by_what_they_say() {
    let mut bus = one();
    bus.records.insert(agent_name("pico", "e6"), met("42", "l"));
    let mut elsewhere = Claim::of(&device_meta("hsm", "another"), &decided(&bus, at(1)));
    assert!(elsewhere.met.is_empty(), "it is of another device");
    elsewhere = Claim::of(&bus.devices[0].device.meta, &decided(&bus, at(1)));
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
