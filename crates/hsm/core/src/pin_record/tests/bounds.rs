//! The record has a bound, and forgets only what costs nothing.

use super::*;

fn full(outcome: Outcome) -> Vec<Try> {
    let digest = |number: usize| format!("d{number}");
    (0..MOST)
        .map(|number| tried(&digest(number), "pod/0", outcome))
        .collect()
}

#[test]
fn what_is_forgotten_first_is_of_another_token_or_of_a_secret_that_is_no_more() {
    for change in [
        |tried: &mut Try| tried.token = "t2".to_owned(),
        |tried: &mut Try| tried.secret = "s2".to_owned(),
        |tried: &mut Try| tried.outcome = Outcome::Withdrawn,
        |tried: &mut Try| tried.outcome = Outcome::Accepted,
    ] {
        let mut tries = full(Outcome::Rejected);
        change(&mut tries[7]);
        let Verdict::Try { tries: after, .. } = ask(&tries, case("new")) else {
            panic!("it is not tried");
        };
        assert_eq!(after.len(), MOST);
        assert!(!after.contains(&tries[7]));
        assert_eq!(
            after.iter().filter(|tried| tries.contains(tried)).count(),
            MOST - 1
        );
    }
}

#[test]
fn when_all_were_refused_nothing_is_tried_and_nothing_forgotten() {
    for outcome in [Outcome::Rejected, Outcome::Unanswered, Outcome::Locked] {
        assert_eq!(ask(&full(outcome), case("new")), refused(Refusal::Full));
    }
}

#[test]
fn the_security_officers_tries_are_kept_and_push_out_no_refused_user_pin() {
    let mut tries = full(Outcome::Rejected);
    tries[3].secret = OFFICER.to_owned();
    tries[3].outcome = Outcome::Accepted;
    assert_eq!(ask(&tries, case("new")), refused(Refusal::Full));
    let mut officers = case("new");
    officers.key.secret = OFFICER;
    assert_eq!(ask(&full(Outcome::Rejected), officers), refused(Refusal::Full));
}
