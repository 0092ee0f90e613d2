//! A change of the PIN, and what is known after it wherever it was interrupted.

use super::*;

fn change(old: &'static str, new: &'static str) -> Exchange<'static> {
    Exchange {
        old: key(old),
        new: key(new),
    }
}

fn begun(tries: &[Try], change: &Exchange<'_>) -> Vec<Try> {
    begin_change(tries, change, "pod/1", now()).unwrap()
}

fn done(tries: &[Try], change: &Exchange<'_>) -> Vec<Try> {
    end_change(&begun(tries, change), change, "pod/1", Exchanged::Done, now()).unwrap()
}

fn outcomes(tries: &[Try]) -> Vec<(&str, Outcome)> {
    tries
        .iter()
        .map(|tried| (tried.digest.as_str(), tried.outcome))
        .collect()
}

fn right() -> Vec<Try> {
    vec![tried("a", "pod/1", Outcome::Accepted)]
}

#[test]
fn after_a_change_the_old_pin_is_refused_and_the_new_one_opens() {
    let tries = done(&right(), &change("a", "b"));
    assert_eq!(
        outcomes(&tries),
        [("a", Outcome::Replaced), ("b", Outcome::Accepted)]
    );
    assert_eq!(ask(&tries, case("a")), refused(Refusal::Rejected));
    assert_eq!(caution(ask(&tries, case("b"))), Some(Caution::Clear));
    // Whoever has only now learned that the old one was right comes too late.
    assert_eq!(settle(&tries, &key("a"), "pod/0", Outcome::Accepted, now()), None);
}

#[test]
fn a_change_there_and_back_opens_with_the_first_pin() {
    let tries = done(&done(&right(), &change("a", "b")), &change("b", "a"));
    assert_eq!(
        outcomes(&tries),
        [("b", Outcome::Replaced), ("a", Outcome::Accepted)]
    );
    assert_eq!(caution(ask(&tries, case("a"))), Some(Caution::Clear));
}

#[test]
fn a_pin_that_was_tried_too_early_opens_once_the_token_has_it() {
    let mut tries = right();
    tries.push(tried("b", "pod/1", Outcome::Rejected));
    let tries = done(&tries, &change("a", "b"));
    assert_eq!(caution(ask(&tries, case("b"))), Some(Caution::Clear));
}

#[test]
fn a_change_that_was_not_made_leaves_what_was_known() {
    let mut tries = right();
    tries.push(tried("b", "pod/1", Outcome::Rejected));
    for new in ["b", "c"] {
        let change = change("a", new);
        let tries = end_change(
            &begun(&tries, &change),
            &change,
            "pod/1",
            Exchanged::Undone,
            now(),
        )
        .unwrap();
        assert_eq!(caution(ask(&tries, case("a"))), Some(Caution::Clear));
        assert_eq!(ask(&tries, case("b")), refused(Refusal::Rejected));
        assert!(caution(ask(&tries, case("c"))).is_some());
    }
    let change = change("a", "c");
    let refusal = Exchanged::Refused(Outcome::Rejected);
    let tries = end_change(&begun(&tries, &change), &change, "pod/1", refusal, now()).unwrap();
    assert_eq!(ask(&tries, case("a")), refused(Refusal::Rejected));
    // Of another process nothing is taken back.
    let begun = begun(&right(), &change);
    assert_eq!(
        end_change(&begun, &change, "pod/2", Exchanged::Undone, now()),
        None
    );
}

#[test]
fn after_an_interrupted_change_each_pin_has_one_try_and_the_first_that_opens_ends_it() {
    let begun = begun(&right(), &change("a", "b"));
    assert_eq!(
        outcomes(&begun),
        [("b", Outcome::Changing), ("a", Outcome::Changing)]
    );
    for (first, second) in [("a", "b"), ("b", "a")] {
        let Verdict::Try { tries, .. } = ask(&begun, case(first)) else {
            panic!("{first} is not tried");
        };
        let opened = settle(&tries, &key(first), "pod/1", Outcome::Accepted, now()).unwrap();
        assert_eq!(ask(&opened, case(second)), refused(Refusal::Rejected));
        // It is wrong: so it is the other one, although the token shows a wrong PIN now.
        let wrong = settle(&tries, &key(first), "pod/1", Outcome::Rejected, now()).unwrap();
        assert_eq!(ask(&wrong, case(first)), refused(Refusal::Rejected));
        let flags = Flags::Low;
        let other = Case {
            flags,
            ..case(second)
        };
        assert_eq!(caution(ask(&wrong, other)), Some(Caution::Corrected));
        // It crashes, again and again: it is no longer one that is known to be right.
        let Verdict::Try { tries, .. } = ask(&tries, case(first)) else {
            panic!("{first} is not tried again");
        };
        assert_eq!(tries.last().unwrap().outcome, Outcome::PendingAgain);
        assert!(matches!(
            ask(&tries, case(first)),
            Verdict::Refused {
                why: Refusal::Unanswered,
                ..
            }
        ));
    }
}

#[test]
fn after_an_interrupted_change_nothing_is_tried_while_the_token_shows_a_wrong_pin() {
    let begun = begun(&right(), &change("a", "b"));
    for flags in [Flags::Low, Flags::Final] {
        for digest in ["a", "b"] {
            let verdict = ask(
                &begun,
                Case {
                    flags,
                    ..case(digest)
                },
            );
            assert!(
                matches!(
                    verdict,
                    Verdict::Refused {
                        why: Refusal::Undecided,
                        ..
                    }
                ),
                "{verdict:?}"
            );
        }
    }
}

#[test]
fn a_pin_that_was_refused_before_has_no_try_by_an_interrupted_change_to_it() {
    let mut tries = right();
    tries.push(tried("b", "pod/1", Outcome::Rejected));
    let once = begun(&tries, &change("a", "b"));
    assert_eq!(ask(&once, case("b")), refused(Refusal::Undecided));
    let twice = begun(&once, &change("a", "b"));
    assert_eq!(ask(&twice, case("b")), refused(Refusal::Undecided));
    let Verdict::Try { tries, .. } = ask(&twice, case("a")) else {
        panic!("the old one is not tried");
    };
    let opened = settle(&tries, &key("a"), "pod/1", Outcome::Accepted, now()).unwrap();
    assert_eq!(ask(&opened, case("b")), refused(Refusal::Rejected));
}

#[test]
fn a_change_of_another_pod_is_waited_for() {
    let begun = begin_change(&right(), &change("a", "b"), "other/1", now()).unwrap();
    assert_eq!(ask(&begun, case("a")), Verdict::Wait(WINDOW));
}

#[test]
fn a_change_to_the_same_pin_leaves_it_right() {
    let tries = done(&right(), &change("a", "a"));
    assert_eq!(outcomes(&tries), [("a", Outcome::Accepted)]);
}

#[test]
fn a_change_ends_in_a_record_that_was_emptied_meanwhile() {
    let change = change("a", "b");
    let tries = end_change(&[], &change, "pod/1", Exchanged::Done, now()).unwrap();
    assert_eq!(
        outcomes(&tries),
        [("a", Outcome::Replaced), ("b", Outcome::Accepted)]
    );
}
