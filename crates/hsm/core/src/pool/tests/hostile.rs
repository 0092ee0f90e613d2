//! Reports of nodes that lie. Whatever they say, they say it of themselves.

use trustplane_api::hsm::conditions::{self, phase};

use super::*;
use crate::pool::info;
use crate::usb::report::LARGEST;

/// A pool with an honest node, and one that says this.
fn beside(said: &str) -> PoolInput {
    let mut input = one();
    input.devices[0].daemon_set.as_mut().unwrap().desired = 2;
    input.devices[0].pods.push(PodView {
        report: Some(said.into()),
        ..pod("n2", None)
    });
    input
}

fn error(input: &PoolInput) -> Option<String> {
    decided(input, at(1)).reporting_pods[1].error.clone()
}

#[test]
fn w12_a_report_for_another_device_does_not_count() {
    let mut said = report("n2", at(0), json!([seen("x", "/dev/x", at(0))]));
    said["hsmDeviceName"] = "other".into();
    let input = beside(&said.to_string());
    assert_eq!(
        error(&input).as_deref(),
        Some("the report is for another HSMDevice")
    );
    let made = decided(&input, at(1));
    assert_eq!(listed(&made), [entry("e6", "n1", "/dev/bus/usb/001/015", true)]);
    assert_eq!(made.phase.as_deref(), Some(phase::PARTIAL));
}

#[test]
fn a_pod_speaks_for_its_own_node_only() {
    let other = report("n1", at(0), json!([lost("e6", "/dev/bus/usb/001/015", at(0))]));
    assert_eq!(
        error(&beside(&other.to_string())).as_deref(),
        Some("the report is for another node")
    );
    let mut token = seen("x", "/dev/x", at(0));
    token["nodeName"] = "n1".into();
    let input = beside(&report("n2", at(0), json!([token, seen("y", "/dev/y", at(0))])).to_string());
    assert_eq!(
        error(&input).as_deref(),
        Some("1 of the tokens in the report make no sense")
    );
    assert_eq!(decided(&input, at(1)).total_devices, 2);
}

#[test]
fn a_pod_counts_only_if_it_is_of_the_daemon_set() {
    let said = report("n2", at(0), json!([seen("x", "/dev/x", at(0))])).to_string();
    let good = beside(&said);
    assert_eq!(decided(&good, at(1)).total_devices, 2);
    let mut stranger = good.clone();
    stranger.devices[0].pods[1].controller = Some("uid-of-somebody".to_owned());
    let mut unlabelled = good.clone();
    unlabelled.devices[0].pods[1].labels.remove("hsm.j5t.io/device");
    let mut orphan = good.clone();
    orphan.devices[0].pods[1].controller = None;
    let mut nowhere = good;
    nowhere.devices[0].pods[1].node = None;
    for input in [stranger, unlabelled, orphan, nowhere] {
        assert_eq!(decided(&input, at(1)).total_devices, 1);
    }
}

#[test]
fn a_report_that_is_too_large_or_makes_no_sense_is_not_read() {
    let large = format!("{{\"x\": \"{}\"}}", "x".repeat(LARGEST));
    let deep = "[".repeat(10_000);
    for said in [
        large.as_str(),
        deep.as_str(),
        "",
        "null",
        "[]",
        "7",
        "{",
        r#"{"discoveredDevices": 7}"#,
        "\u{0}",
    ] {
        let input = beside(said);
        assert!(error(&input).is_some(), "{}", &said[..said.len().min(40)]);
        assert_eq!(decided(&input, at(1)).available_devices, 1);
    }
}

#[test]
fn a_node_with_thousands_of_tokens_gets_a_few() {
    let many: Vec<Value> = (0..600)
        .map(|n| json!({"devicePath": format!("/dev/{n}")}))
        .collect();
    let mut input = beside(&report("n2", at(0), many.into()).to_string());
    let mut spec = pico();
    spec.max_devices = 0;
    input.devices[0].device = view("hsm", "pico", &spec);
    assert_eq!(error(&input).as_deref(), Some("536 tokens are too many"));
    assert_eq!(decided(&input, at(1)).total_devices, 65);
}

#[test]
fn many_nodes_that_lie_do_not_crowd_out_an_honest_one() {
    let mut spec = pico();
    spec.max_devices = 0;
    let many: Vec<Value> = (0..64)
        .map(|n| json!({"devicePath": format!("/dev/{n:03}")}))
        .collect();
    let mut input = one();
    input.devices[0].device = view("hsm", "pico", &spec);
    for n in 0..40 {
        let node = format!("a{n:02}");
        let said = report(&node, at(0), many.clone().into());
        input.devices[0].pods.push(pod(&node, Some(said)));
    }
    let made = decided(&input, at(1));
    assert!(made.total_devices <= 500, "{}", made.total_devices);
    assert!(listed(&made).contains(&entry("e6", "n1", "/dev/bus/usb/001/015", true)));
    // What is left out is told.
    let left_out = |status: &HsmPoolStatus| {
        let mut conditions = status.conditions.iter();
        let condition = conditions.find(|condition| condition.type_ == conditions::TOKENS_LEFT_OUT)?;
        Some((condition.status.to_string(), condition.message.clone()))
    };
    let text = format!(
        "{} of 2561 tokens are not used: a pool has no room for more",
        2561 - made.total_devices
    );
    assert_eq!(left_out(&made), Some(("True".to_owned(), text)));
    assert_eq!(left_out(&decided(&one(), at(1))), None);
}

#[test]
fn texts_of_a_report_are_bounded_and_cannot_say_what_we_say() {
    let mut info: BTreeMap<String, String> = (0..100)
        .map(|n| (format!("k{n:03}"), "v".repeat(5_000)))
        .collect();
    for ours in info::OURS {
        info.insert(ours.to_owned(), "lie".to_owned());
    }
    info.insert(info::DISCOVERY_TYPE.to_owned(), info::STATIC.to_owned());
    info.insert("k".repeat(100), "long".to_owned());
    info.retain(|key, _| key.len() > 50 || !key.starts_with("k0") || key.as_str() < "k005");
    let mut token = seen("x", "/dev/x", at(0));
    info.values_mut().for_each(|value| value.truncate(600));
    token["deviceInfo"] = json!(info);
    token["resourceName"] = "cpu".into();
    let input = beside(&report("n2", at(0), json!([token])).to_string());
    let made = decided(&input, at(1));
    let token = made
        .aggregated_devices
        .iter()
        .find(|token| token.node_name == "n2")
        .unwrap();
    let told = &token.device_info;
    assert_eq!(told.get(info::DEVICE).map(String::as_str), Some("pico"));
    assert!(!told.values().any(|value| value == "lie"), "{told:?}");
    assert_eq!(told.get(info::DISCOVERY_TYPE), None);
    assert!(told.values().all(|value| value.len() <= 256) && told.keys().all(|key| key.len() <= 63));
    assert!(told.len() <= 25);
    assert_eq!(token.resource_name.as_deref(), Some("hsm.j5t.io/token-x"));
}

/// Characters of a text are up to four bytes long.
#[test]
fn texts_of_a_report_are_bounded_by_their_bytes() {
    let mut token = seen("x", "/dev/x", at(0));
    token["deviceInfo"] = json!({"product": "🔑".repeat(200), "🔑".repeat(16): "long"});
    let mut said = report("n2", at(0), json!([token]));
    said["error"] = "ä".repeat(300).into();
    let made = decided(&beside(&said.to_string()), at(1));
    let told = &made.aggregated_devices[1].device_info;
    assert_eq!(told["product"], "🔑".repeat(64));
    assert!(!told.values().any(|value| value == "long"));
    assert_eq!(made.reporting_pods[1].error, Some("ä".repeat(128)));
}

#[test]
fn a_token_with_a_mad_serial_number_or_path_is_left_out() {
    for token in [
        json!({"devicePath": "/dev/x", "serialNumber": "x".repeat(600)}),
        json!({"devicePath": "/dev/x", "serialNumber": "a\nb"}),
        json!({"devicePath": "dev/x"}),
        json!({"devicePath": ""}),
        json!({"devicePath": format!("/dev/{}", "x".repeat(300))}),
        json!({"devicePath": "/dev/x", "lastSeen": "yesterday"}),
        json!({"devicePath": 7}),
        json!("x"),
        json!(null),
    ] {
        let input = beside(&report("n2", at(0), json!([token])).to_string());
        assert_eq!(
            error(&input).as_deref(),
            Some("1 of the tokens in the report make no sense"),
            "{token}"
        );
        assert_eq!(decided(&input, at(1)).total_devices, 1);
    }
}

#[test]
fn an_error_of_a_node_is_one_short_line() {
    let mut said = report("n2", at(0), json!([]));
    said["error"] = format!("a\nb{}", "x".repeat(2_000)).into();
    let told = error(&beside(&said.to_string())).unwrap();
    assert!(told.starts_with("a b") && told.chars().count() == 256);
}

#[test]
fn the_latest_time_that_there_is_does_no_harm() {
    let mut said = report("n2", at(0), json!([seen("x", "/dev/x", at(0))]));
    said["lastReportTime"] = json!(Timestamp::MAX);
    let input = beside(&said.to_string());
    assert_eq!(error(&input), None);
    assert_eq!(decided(&input, at(1)).available_devices, 2);
}

#[test]
fn who_may_open_a_device_file_is_kept_if_it_makes_sense() {
    let with = |mode: &str, gid: &str| {
        let mut token = seen("x", "/dev/x", at(0));
        token["deviceInfo"] = json!({"mode": mode, "gid": gid, "product": "p"});
        let made = decided(&beside(&report("n2", at(0), json!([token])).to_string()), at(1));
        let info = &made.aggregated_devices[1].device_info;
        assert_eq!(info["product"], "p");
        (info.get("mode").cloned(), info.get("gid").cloned())
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(with("0660", "46"), (some("0660"), some("46")));
    assert_eq!(with("rw", "46"), (None, some("46")));
    assert_eq!(with("0660", "4294967295"), (some("0660"), None));
    assert_eq!(with("0660", "-1"), (some("0660"), None));
}
