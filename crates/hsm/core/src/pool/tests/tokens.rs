//! Each token once, wherever it is said to be.

use trustplane_api::hsm::MirroringStatus;
use trustplane_api::hsm::conditions::{self, phase};

use super::*;
use crate::decide::world::soft;
use crate::pool::{Claim, info};

#[test]
fn a_token_that_is_unplugged_stays_as_lost_since_then() {
    let mut input = one();
    settle(&mut input, at(10));
    let devices = json!([lost("e6", "/dev/bus/usb/001/015", at(20))]);
    input.devices[0].pods[0] = pod("n1", Some(report("n1", at(20), devices)));
    settle(&mut input, at(21));
    let made = status(&input);
    assert_eq!((made.available_devices, made.total_devices), (0, 1));
    assert_eq!(made.aggregated_devices[0].last_seen, at(21));
    assert_eq!(made.phase.as_deref(), Some(phase::READY));
}

#[test]
fn a_token_that_is_no_longer_told_is_lost_and_not_forgotten() {
    let mut input = one();
    settle(&mut input, at(10));
    input.devices[0].pods[0] = pod("n1", Some(report("n1", at(20), json!([]))));
    settle(&mut input, at(21));
    assert_eq!(
        listed(&status(&input)),
        [entry("e6", "n1", "/dev/bus/usb/001/015", false)]
    );
}

#[test]
fn a_replug_with_a_new_number_is_the_same_token_at_a_new_place() {
    let mut input = one();
    settle(&mut input, at(10));
    let devices = json!([seen("e6", "/dev/bus/usb/001/016", at(20))]);
    input.devices[0].pods[0] = pod("n1", Some(report("n1", at(20), devices)));
    settle(&mut input, at(21));
    let made = status(&input);
    assert_eq!(listed(&made), [entry("e6", "n1", "/dev/bus/usb/001/016", true)]);
    assert_eq!(made.aggregated_devices[0].last_seen, at(20));
}

#[test]
fn two_tokens_with_one_serial_number_on_one_node_both_stay_and_are_marked_and_told() {
    let devices = json!([seen("e6", "/dev/b", at(0)), seen("E6", "/dev/a", at(5))]);
    let mut input = input(1, vec![pod("n1", Some(report("n1", at(5), devices)))]);
    let plan = settle(&mut input, at(6));
    let made = status(&input);
    assert_eq!(
        listed(&made),
        [
            entry("E6", "n1", "/dev/a", true),
            entry("e6", "n1", "/dev/b", true)
        ]
    );
    assert_eq!(marked(&made, info::DUPLICATE), [Some("2"), Some("2")]);
    let text = "2 tokens on node n1 have the serial number \"e6\": the one at /dev/b was there first and is used, not /dev/a";
    let told = |step: &Step| matches!(step, Step::Tell(note) if note.reason == conditions::DUPLICATE_SERIAL && note.text() == text);
    assert_eq!(plan.steps.iter().filter(|step| told(step)).count(), 1, "{plan}");
    let condition = |status: &HsmPoolStatus| {
        let mut conditions = status.conditions.iter();
        let found = conditions
            .find(|condition| condition.type_ == conditions::DUPLICATE_SERIAL)
            .unwrap();
        (found.status.to_string(), found.message.clone())
    };
    assert_eq!(condition(&made), ("True".to_owned(), text.to_owned()));
    assert!(settle(&mut input, at(7)).is_empty());
    // One is taken away: the other is the token.
    input.devices[0].pods[0] = pod(
        "n1",
        Some(report("n1", at(7), json!([seen("E6", "/dev/a", at(5))]))),
    );
    settle(&mut input, at(8));
    let made = status(&input);
    assert_eq!(listed(&made), [entry("E6", "n1", "/dev/a", true)]);
    assert_eq!(marked(&made, info::DUPLICATE), [None]);
    assert_eq!(condition(&made).0, "False");
}

#[test]
fn tokens_without_a_serial_number_are_known_by_their_place() {
    let bare = |path: &str| json!({"devicePath": path});
    let said = |node: &str, devices| pod(node, Some(report(node, at(0), devices)));
    let mut input = input(
        2,
        vec![
            said("n1", json!([bare("/dev/a"), bare("/dev/b")])),
            said("n2", json!([bare("/dev/a")])),
        ],
    );
    settle(&mut input, at(1));
    let made = status(&input);
    assert_eq!(
        listed(&made),
        [
            entry("", "n1", "/dev/a", true),
            entry("", "n1", "/dev/b", true),
            entry("", "n2", "/dev/a", true),
        ]
    );
    assert!(
        made.aggregated_devices
            .iter()
            .all(|token| token.resource_name.is_none())
    );
    assert!(settle(&mut input, at(2)).is_empty());
}

#[test]
fn the_older_of_two_devices_keeps_a_token_and_the_other_says_so() {
    let claim = |namespace: &str, created: Timestamp, node: &str| Claim {
        device: trustplane_plan::ObjectRef::new(Some(namespace), "rival"),
        uid: "uid-rival".into(),
        created: Some(created),
        tokens: [(node.to_owned(), "e6".to_owned())].into(),
        met: Default::default(),
        faulty: false,
    };
    let (older, younger) = (
        "2026-06-01T00:00:00Z".parse().unwrap(),
        "2026-07-02T00:00:00Z".parse().unwrap(),
    );
    for (claim, lost) in [
        (claim("hsm", older, "n1"), true),
        (claim("other", older, "n1"), true),
        (claim("hsm", younger, "n1"), false),
        // It cannot be the same token: it is on another node.
        (claim("hsm", older, "n2"), false),
    ] {
        let mut input = one();
        input.claims = vec![claim.clone()];
        let plan = settle(&mut input, at(1));
        let made = status(&input);
        assert_eq!(made.available_devices, i32::from(!lost), "{claim:?}");
        let conflict = made
            .conditions
            .iter()
            .find(|condition| condition.type_ == conditions::CONFLICT);
        assert_eq!(conflict.is_some(), lost);
        let told = |step: &Step| matches!(step, Step::Tell(note) if note.reason == conditions::CONFLICT);
        assert_eq!(plan.steps.iter().any(told), lost);
        assert!(settle(&mut input, at(2)).is_empty());
        if let Some(conflict) = conflict {
            let text = format!(
                "the token \"e6\" on node n1 belongs to the HSMDevice {}, which is older",
                claim.device
            );
            assert_eq!(conflict.message, text);
            assert_eq!(
                marked(&made, info::CLAIMED_BY),
                [Some(claim.device.to_string().as_str())]
            );
            // The other one lets go.
            input.claims.clear();
            settle(&mut input, at(3));
            assert_eq!(status(&input).available_devices, 1);
        }
    }
}

#[test]
fn two_devices_of_one_pool_do_not_share_a_token() {
    let mut input = one();
    input.spec.hsm_device_refs = ["pico", "aaa"].map(str::to_owned).to_vec();
    let mut other = device("aaa", &pico(), 1);
    let mut said = report("n1", at(0), json!([seen("e6", "/dev/bus/usb/001/015", at(0))]));
    said["hsmDeviceName"] = "aaa".into();
    let labels = crate::discovery_set::labels("aaa").map(|(key, value)| (key.to_owned(), value));
    other.pods = vec![PodView {
        name: "aaa-discovery-n1".to_owned(),
        labels: labels.into(),
        ..pod("n1", Some(said))
    }];
    other.device.meta.created = Some("2026-07-03T00:00:00Z".parse().unwrap());
    input.devices.push(other);
    settle(&mut input, at(1));
    let made = status(&input);
    assert_eq!(
        (made.available_devices, made.total_devices, made.expected_pods),
        (1, 2, 2)
    );
    assert_eq!(marked(&made, info::CLAIMED_BY), [Some("hsm/pico"), None]);
    assert_eq!(marked(&made, info::DEVICE), [Some("aaa"), Some("pico")]);
}

#[test]
fn a_claim_is_what_a_device_has_there() {
    let mut input = one();
    settle(&mut input, at(1));
    let claim = Claim::of(&view("hsm", "pico", &pico()), &status(&input));
    assert_eq!(claim.tokens, [("n1".to_owned(), "e6".to_owned())].into());
    assert!(
        Claim::of(&view("hsm", "other", &pico()), &status(&input))
            .tokens
            .is_empty()
    );
    let devices = json!([lost("e6", "/dev/bus/usb/001/015", at(2))]);
    input.devices[0].pods[0] = pod("n1", Some(report("n1", at(2), devices)));
    settle(&mut input, at(2));
    assert!(
        Claim::of(&view("hsm", "pico", &pico()), &status(&input))
            .tokens
            .is_empty()
    );
}

#[test]
fn static_tokens_come_from_the_device_and_need_no_pods() {
    let mut input = one();
    let tokens =
        json!([{"name": "a", "tokenLabel": "dev-a", "nodeName": "n1"}, {"name": "b", "tokenSerial": "42"}]);
    input.devices[0] = device("pico", &soft(tokens), 0);
    input.devices[0].daemon_set = None;
    let plan = settle(&mut input, at(1));
    let made = status(&input);
    // Nobody serves them yet.
    assert_eq!(made.phase.as_deref(), Some(phase::PARTIAL));
    assert_eq!(
        listed(&made),
        [entry("a", "n1", "", true), entry("b", "", "", true)]
    );
    assert_eq!(marked(&made, info::TOKEN_LABEL), [Some("dev-a"), None]);
    assert_eq!(made.aggregated_devices[0].resource_name, None);
    assert_eq!(plan.look_again, Some(Duration::from_secs(60)));
    settle(&mut input, at(61));
    assert!(settle(&mut input, at(9_999)).is_empty());
    // One that has left the list is gone at once.
    input.devices[0].device = view("hsm", "pico", &soft(json!([{"name": "b", "tokenSerial": "42"}])));
    settle(&mut input, at(10_000));
    assert_eq!(listed(&status(&input)), [entry("b", "", "", true)]);
}

#[test]
fn f31_no_more_tokens_of_a_node_are_used_than_the_device_says() {
    let mut spec = pico();
    spec.max_devices = 2;
    let devices: Vec<Value> = (0..5)
        .map(|n| seen(&format!("s{n}"), &format!("/dev/{n}"), at(0)))
        .collect();
    let mut input = input(1, vec![pod("n1", Some(report("n1", at(0), devices.into())))]);
    input.devices[0].device = view("hsm", "pico", &spec);
    let made = decided(&input, at(1));
    assert_eq!(made.total_devices, 2);
    assert_eq!(
        made.reporting_pods[0].error.as_deref(),
        Some("3 tokens are too many")
    );
    spec.max_devices = 0;
    input.devices[0].device = view("hsm", "pico", &spec);
    assert_eq!(decided(&input, at(1)).total_devices, 5);
}

#[test]
fn a_token_that_is_there_takes_the_place_of_one_that_is_lost() {
    let mut spec = pico();
    spec.max_devices = 1;
    let mut input = one();
    input.devices[0].device = view("hsm", "pico", &spec);
    settle(&mut input, at(1));
    let other = json!([seen("e7", "/dev/bus/usb/001/016", at(2))]);
    input.devices[0].pods[0] = pod("n1", Some(report("n1", at(2), other)));
    settle(&mut input, at(3));
    assert_eq!(
        listed(&status(&input)),
        [entry("e7", "n1", "/dev/bus/usb/001/016", true)]
    );
}

#[test]
fn of_a_token_that_is_lost_only_what_its_agent_needs_is_remembered() {
    let mut input = one();
    let mut token = seen("e6", "/dev/a", at(0));
    token["deviceInfo"] = json!({"mode": "0660", "gid": "46", "product": "p", "discovery-type": "usb"});
    input.devices[0].pods[0] = pod("n1", Some(report("n1", at(0), json!([token]))));
    settle(&mut input, at(1));
    input.devices[0].pods[0] = pod("n1", Some(report("n1", at(2), json!([]))));
    settle(&mut input, at(3));
    let made = status(&input);
    let kept: Vec<_> = made.aggregated_devices[0].device_info.keys().collect();
    assert_eq!(kept, ["discovery-type", "gid", "hsm-device", "mode"]);
}

#[test]
fn a_token_that_came_back_unseen_and_went_again_has_its_whole_time() {
    let said = |time: i64| {
        pod(
            "n1",
            Some(report("n1", at(299), json!([lost("e6", "/dev/a", at(time))]))),
        )
    };
    let mut input = input(1, vec![said(0)]);
    settle(&mut input, at(100));
    assert_eq!(status(&input).aggregated_devices[0].last_seen, at(0));
    input.devices[0].pods = vec![said(250)];
    settle(&mut input, at(301));
    assert_eq!(status(&input).aggregated_devices[0].last_seen, at(250));
    assert!(settle(&mut input, at(302)).is_empty());
}

#[test]
fn a_token_that_is_told_twice_for_one_place_is_there_if_it_is_there_once() {
    for devices in [
        json!([lost("e6", "/dev/a", at(5)), seen("e6", "/dev/a", at(1))]),
        json!([seen("e6", "/dev/a", at(1)), lost("e6", "/dev/a", at(5))]),
    ] {
        let input = input(1, vec![pod("n1", Some(report("n1", at(5), devices)))]);
        assert_eq!(
            listed(&decided(&input, at(6))),
            [entry("e6", "n1", "/dev/a", true)]
        );
    }
}

#[test]
fn what_others_say_in_the_status_stays() {
    let mut input = one();
    settle(&mut input, at(1));
    let known = input.status.as_mut().unwrap();
    known.aggregated_devices[0].role = Some("Primary".to_owned());
    known.mirroring = Some(MirroringStatus {
        enabled: true,
        failover_count: 2,
        primary_node: Some("n1".to_owned()),
        ..MirroringStatus::default()
    });
    assert!(settle(&mut input, at(2)).is_empty());
    let devices = json!([seen("e6", "/dev/other", at(3))]);
    input.devices[0].pods[0] = pod("n1", Some(report("n1", at(3), devices)));
    settle(&mut input, at(4));
    let made = status(&input);
    assert_eq!(made.aggregated_devices[0].role.as_deref(), Some("Primary"));
    // What has a field of its own is not written at all.
    assert_eq!(made.mirroring, None);
}
