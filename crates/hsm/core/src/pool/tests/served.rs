//! A pool tells what is served, and what stands in the way.

use trustplane_api::hsm::conditions::{self, event, phase, reason};

use super::*;
use crate::decide::world::soft;

fn served(made: &HsmPoolStatus) -> (i32, Option<i32>, Option<&str>) {
    (made.available_devices, made.served_devices, made.phase.as_deref())
}

fn condition(made: &HsmPoolStatus) -> (String, String, String) {
    let found = made
        .conditions
        .iter()
        .find(|condition| condition.type_ == conditions::SERVED);
    let found = found.unwrap();
    (
        found.status.to_string(),
        found.reason.clone(),
        found.message.clone(),
    )
}

fn told(plan: &Plan) -> Vec<String> {
    let notes = plan.steps.iter().filter_map(|step| match step {
        Step::Tell(note) if note.reason == event::TOKEN_NOT_SERVED => Some(note.text().to_owned()),
        _ => None,
    });
    notes.collect()
}

/// Renews the report, so that a node is not silent.
fn at_time(input: &mut PoolInput, now: i64) -> Plan {
    let devices = json!([seen("e6", "/dev/bus/usb/001/015", at(0))]);
    input.devices[0].pods = vec![pod("n1", Some(report("n1", at(now), devices)))];
    settle(input, at(now))
}

#[test]
fn pool_is_ready_when_every_token_is_served() {
    let mut input = one();
    at_time(&mut input, 1);
    assert_eq!(served(&status(&input)), (1, Some(0), Some(phase::PARTIAL)));
    serves(&mut input, "n1");
    at_time(&mut input, 2);
    assert_eq!(served(&status(&input)), (1, Some(1), Some(phase::READY)));
    assert_eq!(condition(&status(&input)).0, "True");
    // A pod that is not ready serves nothing, whatever the record says.
    input.agent_pods[0].ready = false;
    at_time(&mut input, 3);
    assert_eq!(served(&status(&input)), (1, Some(0), Some(phase::PARTIAL)));
}

#[test]
fn obstacle_is_told_once_when_it_has_stood_for_a_minute() {
    let mut input = one();
    input.agent_pods = vec![agent_pod(Some("n1"), "Running")];
    agent_says(
        &mut input,
        AgentPhase::PinMissing,
        "no PIN in key \"pin\" of Secret hsm/pin",
    );
    let plan = at_time(&mut input, 10);
    assert_eq!(told(&plan), [""; 0]);
    assert_eq!(condition(&status(&input)).1, reason::STARTING);
    assert_eq!(plan.look_again, Some(Duration::from_secs(60)));
    let plan = at_time(&mut input, 70);
    let text = "token \"e6\": its agent says PinMissing: no PIN in key \"pin\" of Secret hsm/pin";
    assert_eq!(told(&plan), [text]);
    let (status_now, reason, message) = condition(&status(&input));
    assert_eq!(
        (status_now.as_str(), reason.as_str(), message.as_str()),
        ("False", reason::NOT_SERVED, text)
    );
    assert_eq!(told(&at_time(&mut input, 80)), [""; 0]);
    serves(&mut input, "n1");
    at_time(&mut input, 90);
    assert_eq!(condition(&status(&input)).1, reason::ALL_SERVED);
}

/// What the pool says of a token in its way.
fn says(input: &mut PoolInput) -> String {
    settle(input, at(1));
    condition(&status(input)).2
}

#[test]
fn obstacles_say_what_to_do() {
    let mut input = one();
    let said = says(&mut input);
    assert!(
        said.contains("kubectl describe deployment --namespace hsm hsm-agent-pico-e6"),
        "{said}"
    );
    input.agent_pods = vec![agent_pod(None, "Pending")];
    let said = says(&mut input);
    assert!(said.contains("is \"n1\" a node of this cluster"), "{said}");
    let describe = "kubectl describe pods --namespace hsm --selector app=hsm-agent-pico-e6";
    assert!(said.ends_with(describe), "{said}");
    input.agent_pods = vec![agent_pod(Some("n1"), "Pending")];
    let said = says(&mut input);
    assert!(
        said.contains("does not start") && said.ends_with(describe),
        "{said}"
    );
    input.agent_pods = vec![agent_pod(Some("n1"), "Running")];
    agent_says(
        &mut input,
        AgentPhase::Unavailable,
        "2 tokens have the label \"a\"",
    );
    let said = says(&mut input);
    assert!(said.contains("2 tokens have the label"), "{said}");
    assert!(
        said.ends_with("kubectl trustplane hsm test --namespace hsm pico -- info"),
        "{said}"
    );
}

#[test]
fn static_token_of_an_unknown_node_is_not_ready() {
    let mut input = one();
    let spec = soft(json!([{"name": "e6", "tokenLabel": "a", "nodeName": "nowhere"}]));
    input.devices[0] = PoolDevice {
        daemon_set: None,
        ..device("pico", &spec, 0)
    };
    input.agent_pods = vec![agent_pod(None, "Pending")];
    let said = says(&mut input);
    assert_eq!(served(&status(&input)), (1, Some(0), Some(phase::PARTIAL)));
    assert!(said.contains("is \"nowhere\" a node of this cluster"), "{said}");
    // A token of no node is served from wherever its agent runs.
    let spec = soft(json!([{"name": "e6", "tokenLabel": "a"}]));
    input.devices[0].device = view("hsm", "pico", &spec);
    serves(&mut input, "n7");
    settle(&mut input, at(2));
    assert_eq!(served(&status(&input)), (1, Some(1), Some(phase::READY)));
}

#[test]
fn token_that_nobody_can_open_says_so() {
    let mut input = one();
    let bare = crate::decide::world::spec(json!({"deviceType": "PicoHSM"}));
    input.devices[0].device = view("hsm", "pico", &bare);
    let said = says(&mut input);
    assert!(said.contains("set spec.pkcs11.pinSecret"), "{said}");
}
