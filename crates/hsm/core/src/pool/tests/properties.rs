//! What holds for all reports.

use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::agents::agents;
use crate::decide::world::pool_view;
use crate::pool::info;
use crate::usb::report::LARGEST;
use crate::usb::serial_key;

fn token() -> impl Strategy<Value = Value> {
    let serial = select(vec!["", "e6", "e7", "E6"]);
    let path = select(vec!["/dev/a", "/dev/b", "/dev/c", "x"]);
    (serial, path, 0..200i64, any::<bool>()).prop_map(|(serial, path, time, available)| {
        json!({"devicePath": path, "serialNumber": serial, "lastSeen": at(time), "available": available})
    })
}

fn reports() -> impl Strategy<Value = Vec<(String, i64, Vec<Value>)>> {
    let report = (0..4usize, 0..400i64, prop::collection::vec(token(), 0..5));
    let named = report.prop_map(|(node, time, tokens)| (format!("n{node}"), time, tokens));
    prop::collection::vec(named, 0..5)
}

fn pods(reports: &[(String, i64, Vec<Value>)]) -> Vec<PodView> {
    let pods = reports
        .iter()
        .enumerate()
        .map(|(n, (node, time, tokens))| PodView {
            name: format!("p{n}"),
            ..pod(node, Some(report(node, at(*time), tokens.clone().into())))
        });
    pods.collect()
}

/// Any JSON, small.
fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        Just(json!("pico")),
        Just(json!("n2")),
        Just(json!("e6")),
        Just(json!("9999-12-31T23:59:59Z")),
        Just(json!("0001-01-01T00:00:00Z")),
    ];
    leaf.prop_recursive(3, 24, 6, |inner| {
        let keys = select(vec![
            "hsmDeviceName",
            "reportingNode",
            "discoveredDevices",
            "lastReportTime",
            "discoveryStatus",
            "devicePath",
            "serialNumber",
            "nodeName",
            "lastSeen",
            "available",
            "deviceInfo",
            info::DEVICE,
            info::CLAIMED_BY,
        ]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((keys, inner), 0..8).prop_map(|fields| fields
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value))
                .collect()),
        ]
    })
}

/// What a node says that wants to fill the status of its pool: other serial numbers each time, as large as they may be.
fn greedy(node: &str, round: i64, tokens: usize, wide: bool) -> PodView {
    let letter = if wide { "\u{10ffff}" } else { "\\" };
    let token = |n: usize| {
        let serial = format!("{round:04}{n:04}{}", letter.repeat(120));
        let info: BTreeMap<String, String> = (0..24).map(|k| (format!("k{k}"), letter.repeat(64))).collect();
        let mut token = seen(&serial, &format!("/dev/{}", "x".repeat(250)), at(round));
        token["deviceInfo"] = json!(info);
        token
    };
    let mut all: Vec<Value> = (0..tokens).map(token).collect();
    let mut said = report(node, at(round), Value::Null);
    // As much as is read at all.
    while said.to_string().len() + Value::from(all.clone()).to_string().len() > LARGEST {
        all.pop();
    }
    said["discoveredDevices"] = all.into();
    pod(node, Some(said))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn nodes_that_tell_of_other_tokens_each_time_have_no_more_than_others_and_freeze_nobody(
        nodes in 1..24usize, tokens in prop::collection::vec(0..20usize, 3..8), most in -1..12i32, wide in any::<bool>(),
    ) {
        let mut spec = pico();
        spec.max_devices = most;
        let limit = usize::try_from(most).ok().filter(|most| *most > 0).unwrap_or(64);
        let mut input = one();
        input.devices[0].device = view("hsm", "pico", &spec);
        for (round, tokens) in tokens.into_iter().enumerate() {
            let round = i64::try_from(round).unwrap();
            input.devices[0].pods.truncate(1);
            for n in 0..nodes {
                input.devices[0].pods.push(greedy(&format!("a{n}"), round, tokens, wide));
            }
            settle(&mut input, at(round));
            let made = status(&input);
            let size = serde_json::to_string(&input.status).unwrap().len();
            prop_assert!(size < 1_300_000, "{}", size);
            let honest = entry("e6", "n1", "/dev/bus/usb/001/015", true);
            prop_assert!(listed(&made).contains(&honest));
            let device = input.devices[0].device.read.clone().unwrap();
            let pools = [pool_view("hsm", "pico", made)];
            let agents = agents(&device, &pools);
            for n in 0..nodes {
                let node = format!("a{n}");
                let here = agents.values().filter(|agent| agent.node.as_ref() == Some(&node));
                prop_assert!(here.count() <= limit);
            }
        }
    }
}

proptest! {
    #[test]
    fn the_order_of_reports_does_not_matter(first in reports(), then in reports(), seed in any::<u64>()) {
        let mut straight = input(3, pods(&first));
        settle(&mut straight, at(200));
        straight.devices[0].pods = pods(&then);
        let mut shuffled = straight.clone();
        let shuffle = |seed: u64, n: usize| seed.rotate_left(n as u32 * 7) % 5;
        shuffled.devices[0].pods.sort_by_key(|pod| shuffle(seed, pod.name.len() + pod.name.as_bytes()[1] as usize));
        for pod in &mut shuffled.devices[0].pods {
            let mut said: Value = serde_json::from_str(pod.report.as_deref().unwrap()).unwrap();
            said["discoveredDevices"].as_array_mut().unwrap().reverse();
            pod.report = Some(said.to_string().into());
        }
        prop_assert_eq!(settle(&mut straight, at(400)), settle(&mut shuffled, at(400)));
        prop_assert_eq!(straight.status, shuffled.status);
    }

    #[test]
    fn a_status_that_was_written_is_not_written_again(first in reports(), then in reports(), later in 0..600i64) {
        let mut input = input(3, pods(&first));
        settle(&mut input, at(200));
        input.devices[0].pods = pods(&then);
        settle(&mut input, at(200 + later));
        prop_assert!(settle(&mut input, at(200 + later)).is_empty());
    }

    #[test]
    fn heart_beats_never_change_the_status(reports in reports(), beats in prop::collection::vec(1..100i64, 1..5)) {
        let mut now = 400;
        let mut input = input(3, pods(&reports));
        settle(&mut input, at(now));
        let beat = |input: &mut PoolInput, now: i64| {
            for pod in &mut input.devices[0].pods {
                let mut said: Value = serde_json::from_str(pod.report.as_deref().unwrap()).unwrap();
                said["lastReportTime"] = json!(at(now));
                // The original gives tokens that are there a new time with each look.
                for token in said["discoveredDevices"].as_array_mut().unwrap() {
                    if token["available"] == true {
                        token["lastSeen"] = json!(at(now));
                    }
                }
                pod.report = Some(said.to_string().into());
            }
        };
        // The first beat may bring a silent node back, and with it all that follows; that nobody serves its tokens is told later.
        for wait in [0, 60] {
            now += wait;
            beat(&mut input, now);
            settle(&mut input, at(now));
        }
        let lost = |input: &PoolInput| status(input).aggregated_devices.iter().any(|token| !token.available);
        for wait in beats {
            now += wait;
            beat(&mut input, now);
            let before = lost(&input);
            let plan = settle(&mut input, at(now));
            // Only something that was lost before may leave, in its time.
            prop_assert!(plan.is_empty() || before, "{}", plan);
        }
    }

    #[test]
    fn a_token_is_there_at_most_at_one_node(first in reports(), then in reports()) {
        let mut input = input(3, pods(&first));
        settle(&mut input, at(300));
        input.devices[0].pods = pods(&then);
        let plan = settle(&mut input, at(400));
        let mut nodes: BTreeMap<String, String> = BTreeMap::new();
        let made = status(&input);
        for token in made.aggregated_devices.iter().filter(|token| token.available) {
            if let Some(serial) = &token.serial_number {
                let node = nodes.entry(serial_key(serial)).or_insert_with(|| token.node_name.clone());
                prop_assert_eq!(&*node, &token.node_name);
            }
        }
        prop_assert_eq!(made.total_devices as usize, made.aggregated_devices.len());
        // Whatever is lost is looked at again when its time has come.
        prop_assert!(made.total_devices == made.available_devices || plan.look_again.is_some()
            || made.aggregated_devices.iter().all(|token| token.available
                || token.device_info.contains_key(info::MOVED_TO)));
    }

    #[test]
    fn a_hostile_report_hurts_nobody_else(said in anything(), text in ".{0,64}", as_text in any::<bool>()) {
        let honest = |status: &HsmPoolStatus| {
            let tokens = status.aggregated_devices.iter().filter(|token| token.node_name == "n1");
            tokens.cloned().collect::<Vec<_>>()
        };
        let mut input = one();
        // A serial number of its own, so that it is no question of where the token is.
        input.devices[0].pods[0] = pod("n1", Some(report("n1", at(0), json!([seen("honest", "/dev/h", at(0))]))));
        settle(&mut input, at(1));
        let before = honest(&status(&input));
        let hostile = if as_text { text } else { said.to_string() };
        input.devices[0].pods.push(PodView { report: Some(hostile.into()), ..pod("n2", None) });
        settle(&mut input, at(2));
        prop_assert_eq!(honest(&status(&input)), before);
        prop_assert!(settle(&mut input, at(2)).is_empty());
    }
}
