//! Events on the HSMDevice, by the names that the original gives them, and those of PINs.

use trustplane_api::hsm::record::{AgentPhase, AgentState, Record};
use trustplane_plan::Severity;

use super::*;

#[test]
fn f50_each_step_of_setting_a_token_up_is_an_event_of_the_agent_once() {
    for (phase, severity, reason) in [
        (AgentPhase::Provisioning, Severity::Normal, "Provisioning"),
        (AgentPhase::Provisioned, Severity::Normal, "Provisioned"),
        (
            AgentPhase::ProvisionSkipped,
            Severity::Warning,
            "ProvisionSkipped",
        ),
        (AgentPhase::ProvisionFailed, Severity::Warning, "ProvisionFailed"),
        (AgentPhase::PinRejected, Severity::Warning, "PinRejected"),
        (AgentPhase::PinLocked, Severity::Warning, "PinLocked"),
    ] {
        let mut input = one();
        settle(&mut input, at(1));
        let state = AgentState {
            phase,
            message: "why".to_owned(),
            since: at(2),
            by: "pod".to_owned(),
        };
        let record = Record {
            state: Some(state),
            ..Record::default()
        };
        input.records.insert("hsm-agent-pico-e6".to_owned(), record);
        let plan = settle(&mut input, at(3));
        let told: Vec<_> = plan
            .steps
            .iter()
            .filter_map(|step| match step {
                Step::Tell(note) => Some((note.severity, note.reason, note.by)),
                _ => None,
            })
            .collect();
        assert_eq!(told, [(severity, reason, Some("hsm-agent"))]);
        assert!(settle(&mut input, at(4)).is_empty(), "{reason}");
    }
}
