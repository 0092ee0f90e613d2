use serde_json::json;

use super::*;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

#[test]
fn time_moves_only_with_the_status() {
    let (early, late) = (at("2026-01-01T00:00:00.5Z"), at("2026-01-02T00:00:00Z"));
    let mut conditions = Conditions::default();
    let mut set = |status, reason, generation, now| {
        conditions.set(READY, status, reason, "for a token", generation, now);
        conditions.clone()
    };
    let first = set(ConditionStatus::False, "Waiting", 1, early);
    let second = set(ConditionStatus::False, "Waiting", 1, late);
    assert_eq!(first, second, "the same again must not differ");
    let third = set(ConditionStatus::False, "StillWaiting", 2, late);
    assert_eq!(third[0].last_transition_time, at("2026-01-01T00:00:00Z"));
    let fourth = set(ConditionStatus::True, "Ready", 2, late);
    assert_eq!(fourth[0].last_transition_time, late);
}

#[test]
fn a_condition_that_cannot_be_read_costs_no_other() {
    let time = "2026-01-01T00:00:00Z";
    let good = json!({ "type": "A", "status": "True", "reason": "R", "message": "", "observedGeneration": 0, "lastTransitionTime": time });
    let odd = json!({ "type": "B", "status": "Perhaps", "reason": "R", "lastTransitionTime": time });
    let bad = json!({ "type": "C", "status": "True" });
    let read: Conditions = serde_json::from_value(json!([bad, good, 7, odd])).unwrap();
    let seen: Vec<_> = read.iter().map(|c| (c.type_.as_str(), c.status)).collect();
    assert_eq!(
        seen,
        [("A", ConditionStatus::True), ("B", ConditionStatus::Unknown)]
    );
    assert_eq!(serde_json::to_value(&read).unwrap()[0], good);
    let none: Conditions = serde_json::from_value(json!(null)).unwrap();
    assert!(none.is_empty());
}

/// The summary of a part that holds and of a problem, with these statuses.
fn summary(
    holds: Option<ConditionStatus>,
    problem: Option<ConditionStatus>,
) -> (ConditionStatus, String, String) {
    let (now, mut conditions) = (at("2026-01-01T00:00:00Z"), Conditions::default());
    for (type_, status) in [("Served", holds), ("Conflict", problem)] {
        if let Some(status) = status {
            conditions.set(type_, status, &format!("{type_}Reason"), "why", 1, now);
        }
    }
    let parts = [Part::Holds("Served"), Part::Problem("Conflict")];
    conditions.sum_up(READY, &parts, 1, now);
    let ready = conditions.get(READY).unwrap();
    (ready.status, ready.reason.clone(), ready.message.clone())
}

#[test]
fn a_summary_is_good_only_when_every_part_is_known_and_good() {
    use ConditionStatus::{False, True, Unknown};
    let all = [None, Some(True), Some(False), Some(Unknown)];
    for holds in all {
        for problem in all {
            let expected = match (holds, problem) {
                (Some(False), _) | (_, Some(True)) => False,
                (Some(True), None | Some(False)) => True,
                _ => Unknown,
            };
            assert_eq!(summary(holds, problem).0, expected, "{holds:?} {problem:?}");
        }
    }
}

#[test]
fn a_summary_names_what_is_wrong() {
    use ConditionStatus::{False, True};
    let told = |status, reason: &str, message: &str| (status, reason.to_owned(), message.to_owned());
    assert_eq!(
        summary(Some(False), Some(True)),
        told(False, "ServedReason", "Served: why; Conflict: why")
    );
    assert_eq!(
        summary(None, None),
        told(ConditionStatus::Unknown, "Pending", "not known yet: Served")
    );
    assert_eq!(summary(Some(True), None), told(True, "Ready", ""));
}
