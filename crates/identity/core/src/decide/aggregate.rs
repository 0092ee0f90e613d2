//! The status of ZTWIM: how its operands are doing, in one place.

use trustplane_api::identity::conditions::{self, reason};
use trustplane_api::identity::names::SINGLETON;
use trustplane_api::identity::{OperandKind, OperandStatus};
use trustplane_plan::{ConditionStatus, Conditions};

use super::facts::Facts;

/// How an operand is doing, as its own status tells.
#[derive(Debug, Clone, Default)]
pub(super) struct OperandState {
    /// Whether the object exists.
    pub exists: bool,
    /// Its conditions.
    pub conditions: Conditions,
    /// The generation of its spec.
    pub generation: i64,
}

impl OperandState {
    /// Whether its status speaks of its present spec and says that it is ready.
    fn is_ready(&self) -> bool {
        self.conditions.get(conditions::READY).is_some_and(|ready| {
            ready.status == ConditionStatus::True && ready.observed_generation == self.generation
        })
    }

    fn has_failed(&self) -> bool {
        self.conditions
            .get(conditions::READY)
            .is_some_and(|ready| ready.status == ConditionStatus::False && ready.reason == reason::FAILED)
    }

    fn message(&self) -> String {
        let ready = self.conditions.get(conditions::READY);
        match ready {
            _ if !self.exists => "not created".to_owned(),
            Some(ready) => ready.message.clone(),
            None => "not looked at yet".to_owned(),
        }
    }
}

/// The list of operands for the status: those that exist and those that are expected, in the order of their kinds.
pub(super) fn operands(
    states: &[(OperandKind, OperandState)],
    expected: &[OperandKind],
) -> Vec<OperandStatus> {
    let told = states
        .iter()
        .filter(|(kind, state)| state.exists || expected.contains(kind));
    told.map(|(kind, state)| OperandStatus {
        name: SINGLETON.to_owned(),
        kind: *kind,
        ready: state.is_ready().into(),
        message: state.message(),
        conditions: state.conditions.clone(),
    })
    .collect()
}

/// Adds what the operands mean for ZTWIM: `OperandsAvailable`.
pub(super) fn sum_up(states: &[(OperandKind, OperandState)], expected: &[OperandKind], facts: &mut Facts) {
    let relevant = |(kind, state): &&(OperandKind, OperandState)| state.exists || expected.contains(kind);
    let (mut failed, mut waiting) = (Vec::new(), Vec::new());
    for (kind, state) in states.iter().filter(relevant) {
        match state {
            state if state.is_ready() => {}
            state if state.has_failed() => failed.push(format!("{}/{SINGLETON}", kind.as_str())),
            state if state.exists => waiting.push(format!("{}(reconciling)", kind.as_str())),
            _ => waiting.push(format!("{}(not created)", kind.as_str())),
        }
    }
    if !failed.is_empty() {
        let message = format!("Some operands not ready: [{}]", failed.join(" "));
        facts.bad(conditions::OPERANDS_AVAILABLE, reason::FAILED, message);
    } else if !waiting.is_empty() {
        let message = format!("Waiting for operands: [{}]", waiting.join(" "));
        facts.bad(conditions::OPERANDS_AVAILABLE, reason::PROGRESSING, message);
    } else {
        facts.good(conditions::OPERANDS_AVAILABLE, reason::READY);
    }
}

/// The conditions of an operand that a status holds; none if it cannot be read.
pub(super) fn conditions_of(status: &serde_json::Value) -> Conditions {
    serde_json::from_value(status["conditions"].clone()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn state(reason: &str, generation: i64) -> OperandState {
        let mut conditions = Conditions::default();
        let status = match reason {
            reason::READY => ConditionStatus::True,
            _ => ConditionStatus::False,
        };
        conditions.set(conditions::READY, status, reason, "", 1, NOW);
        OperandState {
            exists: true,
            conditions,
            generation,
        }
    }

    fn told(states: [OperandState; 4], expected: &[OperandKind]) -> (Vec<String>, String) {
        let states: Vec<_> = OperandKind::ALL.into_iter().zip(states).collect();
        let mut facts = Facts::default();
        sum_up(&states, expected, &mut facts);
        let conditions = facts.conditions(&Conditions::default(), false, 1, NOW);
        let listed = operands(&states, expected);
        let listed = listed
            .iter()
            .map(|o| format!("{}={}", o.kind.as_str(), o.ready.is_true()));
        (
            listed.collect(),
            conditions
                .get(conditions::OPERANDS_AVAILABLE)
                .unwrap()
                .message
                .clone(),
        )
    }

    #[test]
    fn operands_are_listed_in_the_order_of_their_kinds_with_texts_for_ready() {
        let ready = || state(reason::READY, 1);
        let (listed, message) = told([ready(), ready(), ready(), ready()], &OperandKind::ALL);
        let expected = [
            "SpireServer=true",
            "SpireAgent=true",
            "SpiffeCSIDriver=true",
            "SpireOIDCDiscoveryProvider=true",
        ];
        assert_eq!(
            (listed.as_slice(), message.as_str()),
            (&expected.map(str::to_owned)[..], "")
        );
    }

    #[test]
    fn operands_that_are_not_expected_do_not_hold_up_ztwim() {
        let absent = OperandState::default;
        let ready = || state(reason::READY, 1);
        let expected = [OperandKind::SpireServer, OperandKind::SpireAgent];
        let (listed, message) = told([ready(), ready(), absent(), absent()], &expected);
        assert_eq!((listed.len(), message.as_str()), (2, ""));
        let (_, message) = told([ready(), ready(), absent(), absent()], &OperandKind::ALL);
        assert_eq!(
            message,
            "Waiting for operands: [SpiffeCSIDriver(not created) SpireOIDCDiscoveryProvider(not created)]"
        );
    }

    #[test]
    fn a_status_of_an_older_spec_is_not_ready() {
        let ready = || state(reason::READY, 1);
        let (listed, message) = told(
            [ready(), state(reason::READY, 2), ready(), ready()],
            &OperandKind::ALL,
        );
        assert_eq!(listed[1], "SpireAgent=false");
        assert_eq!(message, "Waiting for operands: [SpireAgent(reconciling)]");
    }

    #[test]
    fn a_failed_operand_counts_more_than_one_that_takes_its_time() {
        let ready = || state(reason::READY, 1);
        let failed = state(reason::FAILED, 1);
        let (_, message) = told(
            [ready(), failed, state(reason::PROGRESSING, 1), ready()],
            &OperandKind::ALL,
        );
        assert_eq!(message, "Some operands not ready: [SpireAgent/cluster]");
    }
}
