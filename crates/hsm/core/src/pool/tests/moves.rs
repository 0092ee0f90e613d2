//! Tokens that several nodes tell of, and nodes that say nothing for a time.

use trustplane_api::hsm::conditions;

use super::*;
use crate::pool::{Claim, info};

/// The token at the path that it has on a node.
fn at_home(node: &str) -> &'static str {
    match node {
        "n1" => "/dev/bus/usb/001/015",
        _ => "/dev/bus/usb/003/002",
    }
}

fn says(input: &mut PoolInput, node: &str, now: i64, is_there: bool) {
    let token = match is_there {
        true => seen("e6", at_home(node), at(now)),
        false => lost("e6", at_home(node), at(now)),
    };
    let said = pod(node, Some(report(node, at(now), json!([token]))));
    let pods = &mut input.devices[0].pods;
    match pods.iter_mut().find(|pod| pod.node.as_deref() == Some(node)) {
        Some(pod) => *pod = said,
        None => pods.push(said),
    }
}

#[test]
fn f42_a_node_that_claims_the_token_of_another_does_not_get_it_until_that_one_has_lost_it() {
    let mut input = one();
    settle(&mut input, at(10));
    input.devices[0].daemon_set.as_mut().unwrap().desired = 2;
    says(&mut input, "n2", 20, true);
    settle(&mut input, at(21));
    let made = status(&input);
    assert_eq!(
        listed(&made),
        [
            entry("e6", "n1", at_home("n1"), true),
            entry("e6", "n2", at_home("n2"), false),
        ]
    );
    assert_eq!(marked(&made, info::MOVED_TO), [None, Some("n1")]);
    // Both go on reporting with new times: nothing moves, once it is told that they do.
    settle(&mut input, at(75));
    assert_eq!(listed(&status(&input)), listed(&made));
    for (now, node) in [(100, "n1"), (130, "n2"), (160, "n1")] {
        says(&mut input, node, now, true);
        assert!(settle(&mut input, at(now + 1)).is_empty(), "{now}");
    }
    // The old node has noticed: the token has moved.
    says(&mut input, "n1", 170, false);
    settle(&mut input, at(171));
    assert_eq!(listed(&status(&input)), [entry("e6", "n2", at_home("n2"), true)]);
}

fn duplicate(status: &HsmPoolStatus) -> Option<(&str, &str)> {
    let mut conditions = status.conditions.iter();
    let condition = conditions.find(|condition| condition.type_ == conditions::DUPLICATE_SERIAL)?;
    Some((condition.status.as_str(), condition.message.as_str()))
}

#[test]
fn a_token_that_two_nodes_go_on_reporting_is_told_with_both_of_them() {
    let mut input = one();
    settle(&mut input, at(10));
    says(&mut input, "n2", 20, true);
    let plan = settle(&mut input, at(21));
    assert_eq!(duplicate(&status(&input)), None);
    assert_eq!(plan.look_again, Some(Duration::from_secs(29)));
    let plan = settle(&mut input, at(50));
    let text =
        r#"the serial number "e6" is reported by node n1 and by node n2: the token of node n1 is used"#;
    assert_eq!(duplicate(&status(&input)), Some(("True", text)));
    let told = plan.steps.iter().filter_map(|step| match step {
        Step::Tell(note) => Some((note.reason, note.text())),
        _ => None,
    });
    assert_eq!(told.collect::<Vec<_>>(), [(conditions::DUPLICATE_SERIAL, text)]);
    settle(&mut input, at(71));
    // It is told once, and signs of life change nothing.
    says(&mut input, "n1", 100, true);
    says(&mut input, "n2", 100, true);
    assert!(settle(&mut input, at(101)).is_empty());
    says(&mut input, "n2", 110, false);
    settle(&mut input, at(111));
    assert_eq!(duplicate(&status(&input)), Some(("False", "")));
}

#[test]
fn a_token_that_is_carried_to_another_node_is_no_duplicate() {
    let mut input = one();
    settle(&mut input, at(10));
    // It is plugged in there before its old node has told that it is gone.
    says(&mut input, "n2", 20, true);
    settle(&mut input, at(21));
    says(&mut input, "n1", 22, false);
    settle(&mut input, at(23));
    settle(&mut input, at(200));
    assert_eq!(duplicate(&status(&input)), None);
    // And one whose old node is not heard at all.
    let mut silent = one();
    settle(&mut silent, at(10));
    silent.devices[0].pods.clear();
    for second in [20, 100, 250] {
        says(&mut silent, "n2", second, true);
        settle(&mut silent, at(second));
        assert_eq!(duplicate(&status(&silent)), None, "{second}");
    }
}

#[test]
fn of_two_nodes_that_report_a_token_at_first_sight_the_one_that_had_it_first_has_it() {
    for (n1, n2, holder) in [(0, 9, "n1"), (9, 0, "n2"), (5, 5, "n1")] {
        let mut input = input(2, Vec::new());
        says(&mut input, "n1", n1, true);
        says(&mut input, "n2", n2, true);
        settle(&mut input, at(10));
        let there = listed(&status(&input)).into_iter().filter(|token| token.3);
        let nodes: Vec<_> = there.map(|token| token.1).collect();
        assert_eq!(nodes, [holder]);
    }
}

/// A node starts its discovery anew: there is no report of it for a moment.
fn starts_anew(input: &mut PoolInput, node: &str) {
    let pods = &mut input.devices[0].pods;
    let old = pods.iter_mut().find(|pod| pod.node.as_deref() == Some(node));
    *old.unwrap() = pod(node, None);
}

#[test]
fn another_node_does_not_get_a_token_while_discovery_is_rolled_out() {
    let mut input = one();
    settle(&mut input, at(10));
    input.devices[0].daemon_set.as_mut().unwrap().desired = 2;
    starts_anew(&mut input, "n1");
    says(&mut input, "n2", 20, true);
    settle(&mut input, at(21));
    let made = status(&input);
    let waits = [
        entry("e6", "n1", at_home("n1"), false),
        entry("e6", "n2", at_home("n2"), false),
    ];
    assert_eq!(listed(&made), waits);
    assert_eq!(marked(&made, info::UNHEARD), [Some("true"), None]);
    assert_eq!(marked(&made, info::MOVED_TO), [None, Some("n1")]);
    assert!(settle(&mut input, at(22)).is_empty());
    // A search that has not ended, or that failed, says nothing either.
    for word in ["discovering", "error"] {
        let mut said = report("n1", at(25), json!([]));
        said["discoveryStatus"] = word.into();
        input.devices[0].pods[0] = pod("n1", Some(said));
        settle(&mut input, at(25));
        assert_eq!(listed(&status(&input)), waits, "{word}");
    }
    // The other one goes on claiming it, as newly found, and then its own node tells of it again.
    says(&mut input, "n2", 29, true);
    says(&mut input, "n1", 28, true);
    settle(&mut input, at(30));
    let made = status(&input);
    assert_eq!(listed(&made)[0], entry("e6", "n1", at_home("n1"), true));
    assert_eq!(listed(&made)[1], entry("e6", "n2", at_home("n2"), false));
    assert_eq!(marked(&made, info::UNHEARD), [None, None]);
}

#[test]
fn a_node_that_has_looked_and_does_not_see_its_token_has_lost_it() {
    let mut input = one();
    settle(&mut input, at(10));
    starts_anew(&mut input, "n1");
    says(&mut input, "n2", 20, true);
    settle(&mut input, at(21));
    input.devices[0].pods[0] = pod("n1", Some(report("n1", at(30), json!([]))));
    settle(&mut input, at(31));
    assert_eq!(listed(&status(&input)), [entry("e6", "n2", at_home("n2"), true)]);
}

#[test]
fn a_token_that_was_lost_before_its_node_fell_silent_may_be_elsewhere_at_once() {
    let mut input = one();
    settle(&mut input, at(10));
    says(&mut input, "n1", 20, false);
    settle(&mut input, at(21));
    starts_anew(&mut input, "n1");
    settle(&mut input, at(25));
    assert_eq!(marked(&status(&input), info::UNHEARD), [None]);
    says(&mut input, "n2", 30, true);
    settle(&mut input, at(31));
    assert_eq!(listed(&status(&input)), [entry("e6", "n2", at_home("n2"), true)]);
}

#[test]
fn a_node_that_is_gone_keeps_its_token_for_the_grace_period_and_no_longer() {
    let mut input = one();
    settle(&mut input, at(10));
    input.devices[0].pods.clear();
    says(&mut input, "n2", 20, true);
    let plan = settle(&mut input, at(20));
    assert_eq!(plan.look_again, Some(Duration::from_secs(300)));
    says(&mut input, "n2", 319, true);
    assert!(settle(&mut input, at(319)).is_empty());
    settle(&mut input, at(320));
    assert_eq!(listed(&status(&input)), [entry("e6", "n2", at_home("n2"), true)]);
}

#[test]
fn a_node_that_claimed_the_token_of_another_has_nothing_to_lose() {
    let mut input = one();
    settle(&mut input, at(10));
    says(&mut input, "a0", 20, true);
    settle(&mut input, at(21));
    // All pods are replaced at once, and the one that lied comes first by name.
    input.devices[0].pods.clear();
    settle(&mut input, at(30));
    assert_eq!(listed(&status(&input)), [entry("e6", "n1", at_home("n1"), false)]);
}

#[test]
fn an_older_device_whose_discovery_is_rolled_out_keeps_its_token() {
    let mut input = one();
    settle(&mut input, at(1));
    input.devices[0].pods.clear();
    settle(&mut input, at(2));
    let claim = Claim::of(&view("hsm", "pico", &pico()), &status(&input));
    assert_eq!(claim.tokens, [("n1".to_owned(), "e6".to_owned())].into());
    settle(&mut input, at(302));
    let claim = Claim::of(&view("hsm", "pico", &pico()), &status(&input));
    assert!(claim.tokens.is_empty());
}
