//! What a person allows, and what nobody can compare.

use super::*;

fn again(digest: &'static str, again: &'static str) -> Case<'static> {
    Case {
        again,
        ..case(digest)
    }
}

/// The record once a PIN was tried by this case, and was refused.
fn refused_after(tries: &[Try], case: Case<'_>) -> Vec<Try> {
    let Verdict::Try { tries, .. } = ask(tries, case) else {
        panic!("it is not tried");
    };
    settle(&tries, &case.key, case.by, Outcome::Rejected, now()).unwrap()
}

#[test]
fn each_new_text_allows_one_more_try_and_none_allows_two() {
    for outcome in [
        Outcome::Rejected,
        Outcome::Unanswered,
        Outcome::Locked,
        Outcome::Expired,
        Outcome::Form,
        Outcome::Replaced,
    ] {
        let mut tries = vec![tried("a", "pod/0", outcome)];
        for text in ["x", "y", "z"] {
            tries = refused_after(&tries, again("a", text));
            assert_eq!(ask(&tries, again("a", text)), refused(Refusal::Rejected));
        }
        for text in ["", "x", "y"] {
            assert_eq!(ask(&tries, again("a", text)), refused(Refusal::Rejected));
        }
    }
}

#[test]
fn a_text_that_stood_there_at_the_first_try_allows_no_second() {
    let tries = refused_after(&[], again("a", "x"));
    assert_eq!(ask(&tries, again("a", "x")), refused(Refusal::Rejected));
    // Another PIN has its one try under it as well.
    let tries = refused_after(&tries, again("b", "x"));
    assert_eq!(ask(&tries, again("b", "x")), refused(Refusal::Rejected));
}

#[test]
fn at_a_low_count_no_text_helps_the_pin_that_was_wrong() {
    let tries = [tried("a", "pod/0", Outcome::Rejected)];
    for (flags, why) in [
        (Flags::Low, Refusal::Low),
        (Flags::Final, Refusal::Final),
        (Flags::Locked, Refusal::Locked),
    ] {
        assert_eq!(
            ask(
                &tries,
                Case {
                    flags,
                    ..again("a", "x")
                }
            ),
            refused(why)
        );
    }
}

#[test]
fn a_text_is_not_used_up_by_a_try_that_was_never_made() {
    let tries = [tried("a", "pod/0", Outcome::Rejected)];
    let Verdict::Try { tries, .. } = ask(&tries, again("a", "x")) else {
        panic!("it is not tried");
    };
    let tries = settle(&tries, &key("a"), "pod/1", Outcome::Withdrawn, now()).unwrap();
    assert_eq!(tries[0].outcome, Outcome::Rejected);
    assert_eq!(ask(&tries, case("a")), refused(Refusal::Rejected));
    assert!(caution(ask(&tries, again("a", "x"))).is_some());
}

#[test]
fn few_texts_are_kept() {
    let mut tries = Vec::new();
    for number in 0..100 {
        let text = format!("text {number}");
        tries = refused_after(
            &tries,
            Case {
                again: &text,
                ..case("a")
            },
        );
        assert!(tries[0].again.len() <= 8);
    }
}

/// What another key has left.
fn foreign(outcome: Outcome) -> Try {
    let mut tried = tried("?", "pod/0", outcome);
    tried.key = "lost".to_owned();
    tried.again = vec!["x".to_owned()];
    tried
}

#[test]
fn nothing_is_tried_by_itself_beside_refused_tries_of_another_key() {
    for outcome in [
        Outcome::Rejected,
        Outcome::Unanswered,
        Outcome::Locked,
        Outcome::Pending,
        Outcome::PendingAgain,
        Outcome::Changing,
        Outcome::Other,
    ] {
        let tries = [foreign(outcome)];
        assert_eq!(ask(&tries, case("a")), refused(Refusal::KeyLost));
        // A text from before the loss may be of this PIN; a new one is somebody's word.
        assert_eq!(ask(&tries, again("a", "x")), refused(Refusal::KeyLost));
        let Verdict::Try { tries, .. } = ask(&tries, again("a", "y")) else {
            panic!("nobody can mend it");
        };
        let right = settle(&tries, &key("a"), "pod/1", Outcome::Accepted, now()).unwrap();
        assert!(caution(ask(&right, case("a"))).is_some());
        // A change that was under way is over by that; nothing else is known better.
        let known = outcome == Outcome::Changing;
        assert_eq!(caution(ask(&right, case("b"))).is_some(), known, "{outcome:?}");
        let wrong = settle(&tries, &key("a"), "pod/1", Outcome::Rejected, now()).unwrap();
        assert_eq!(ask(&wrong, case("a")), refused(Refusal::Rejected));
    }
    for outcome in [Outcome::Accepted, Outcome::Withdrawn, Outcome::Replaced] {
        assert!(caution(ask(&[foreign(outcome)], case("a"))).is_some());
    }
}
