//! What agents say.

use trustplane_api::hsm::record::{AgentPhase, AgentState, Record, TokenIdentity};

use super::*;
use crate::pool::info;

const NAME: &str = "hsm-agent-pico-e6";

fn says(input: &mut PoolInput, phase: AgentPhase, message: &str) {
    let record = Record {
        token: Some(TokenIdentity {
            serial: "DENK0105501".to_owned(),
            label: "l".repeat(1_000),
            ..TokenIdentity::default()
        }),
        state: Some(AgentState {
            phase,
            message: message.to_owned(),
            since: at(0),
            by: "pod".to_owned(),
        }),
        ..Record::default()
    };
    input.records.insert(NAME.to_owned(), record);
}

fn condition(input: &PoolInput, type_: &str) -> Option<trustplane_plan::Condition> {
    status(input)
        .conditions
        .into_iter()
        .find(|condition| condition.type_ == type_)
}

fn told(plan: &Plan) -> Vec<&'static str> {
    let notes = plan.steps.iter().filter_map(|step| match step {
        Step::Tell(note) => Some(note.reason),
        _ => None,
    });
    notes.collect()
}

#[test]
fn a_token_shows_what_its_agent_knows() {
    let mut input = one();
    says(&mut input, AgentPhase::Serving, "");
    settle(&mut input, at(1));
    let token = &status(&input).aggregated_devices[0];
    assert_eq!(token.health.as_deref(), Some("Serving"));
    assert_eq!(token.device_info[info::TOKEN_SERIAL], "DENK0105501");
    assert_eq!(token.device_info[info::TOKEN_LABEL].len(), 256);
    assert_eq!(token.device_info.get(info::TOKEN_MODEL), None);
    assert!(settle(&mut input, at(2)).is_empty());
}

#[test]
fn w21_a_pin_that_was_rejected_or_is_locked_is_a_condition_and_an_event_once() {
    for (phase, type_) in [
        (AgentPhase::PinRejected, "PinRejected"),
        (AgentPhase::PinLocked, "PinLocked"),
    ] {
        let mut input = one();
        says(&mut input, AgentPhase::Serving, "");
        assert_eq!(told(&settle(&mut input, at(1))), [""; 0]);
        assert_eq!(condition(&input, type_), None);
        says(&mut input, phase, "the PIN of the Secret is wrong");
        let plan = settle(&mut input, at(2));
        assert_eq!(told(&plan), [type_]);
        let found = condition(&input, type_).unwrap();
        assert_eq!((found.status.as_str(), found.reason.as_str()), ("True", type_));
        assert_eq!(found.message, r#"token "e6": the PIN of the Secret is wrong"#);
        assert!(settle(&mut input, at(3)).is_empty());
        says(&mut input, AgentPhase::Serving, "");
        assert_eq!(told(&settle(&mut input, at(4))), [""; 0]);
        assert_eq!(condition(&input, type_).unwrap().status, "False");
    }
}

#[test]
fn the_agent_is_the_one_who_tells() {
    let mut input = one();
    says(&mut input, AgentPhase::Provisioned, "the token is set up");
    let plan = settle(&mut input, at(1));
    let Some(Step::Tell(note)) = plan.steps.last() else {
        panic!("expected a note")
    };
    assert_eq!((note.reason, note.by), ("Provisioned", Some("hsm-agent")));
    assert_eq!(note.about.object.name(), "pico");
}

#[test]
fn a_token_that_is_elsewhere_says_nothing() {
    let mut input = one();
    says(&mut input, AgentPhase::PinRejected, "no");
    input.devices[0].daemon_set.as_mut().unwrap().desired = 2;
    let devices = json!([seen("e6", "/dev/b", at(20))]);
    input.devices[0]
        .pods
        .push(pod("n2", Some(report("n2", at(20), devices))));
    settle(&mut input, at(21));
    let health: Vec<_> = status(&input)
        .aggregated_devices
        .iter()
        .map(|token| token.health.clone())
        .collect();
    assert_eq!(health, [Some("PinRejected".to_owned()), None]);
    let message = condition(&input, "PinRejected").unwrap().message;
    assert_eq!(message, r#"token "e6": no"#);
}
