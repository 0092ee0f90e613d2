//! The record has a bound, and forgets only what costs nothing.

use super::*;

fn full(outcome: Outcome) -> Vec<Try> {
    let digest = |number: usize| format!("d{number}");
    (0..MOST)
        .map(|number| tried(&digest(number), "pod/0", outcome))
        .collect()
}

#[test]
fn what_is_forgotten_was_never_refused_by_this_token() {
    for change in [
        |tried: &mut Try| tried.token = "t2".to_owned(),
        |tried: &mut Try| tried.outcome = Outcome::Replaced,
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
        // Nor is anything forgotten for a Secret that was made anew.
        let mut anew = case("new");
        anew.key.secret = "s2";
        assert_eq!(ask(&full(outcome), anew), refused(Refusal::Full));
        let change = Exchange {
            old: key("old"),
            new: key("new"),
        };
        assert_eq!(begin_change(&full(outcome), &change, "pod/1", now()), None);
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
    // Also if the token had another serial number when it was blank.
    tries[3].token = "blank".to_owned();
    assert_eq!(ask(&tries, case("new")), refused(Refusal::Full));
}

#[test]
fn a_hundred_changes_of_the_pin_leave_a_record_of_bounded_size_and_a_pin_that_opens() {
    let mut tries = full(Outcome::Rejected);
    tries.truncate(MOST - 4);
    let wrong = tries.clone();
    tries.push(tried("pin0", "pod/1", Outcome::Accepted));
    for number in 0..100 {
        let [old, new] = [number, number + 1].map(|number| format!("pin{number}"));
        let keys = [&old, &new].map(|digest| Key { digest, ..key("") });
        let change = Exchange {
            old: keys[0],
            new: keys[1],
        };
        tries = begin_change(&tries, &change, "pod/1", now()).unwrap();
        assert!(tries.len() <= MOST);
        tries = end_change(&tries, &change, "pod/1", Exchanged::Done, now()).unwrap();
        assert!(tries.len() <= MOST);
        let right = Case {
            key: keys[1],
            ..case("")
        };
        assert_eq!(caution(ask(&tries, right)), Some(Caution::Clear));
    }
    assert!(wrong.iter().all(|wrong| tries.contains(wrong)));
}
