use super::decide::{pod, refused};
use super::*;

mod bounds;
mod changes;
mod model;
mod properties;
mod words;

pub(super) const WINDOW: Duration = Duration::from_secs(40);

pub(super) fn now() -> Timestamp {
    "2026-07-07T08:00:00Z".parse().unwrap()
}

pub(super) fn key(digest: &'static str) -> Key<'static> {
    Key {
        token: "t",
        secret: "s",
        digest,
        key: "k",
    }
}

pub(super) fn case(digest: &'static str) -> Case<'static> {
    Case {
        key: key(digest),
        by: "pod/1",
        again: "",
        account: Account::Automatic,
        flags: Flags::Clear,
        now: now(),
        window: WINDOW,
    }
}

pub(super) fn tried(digest: &str, by: &str, outcome: Outcome) -> Try {
    Try {
        token: "t".to_owned(),
        secret: "s".to_owned(),
        digest: digest.to_owned(),
        key: "k".to_owned(),
        by: by.to_owned(),
        at: now(),
        outcome,
        before: None,
        again: Vec::new(),
    }
}

fn ask(tries: &[Try], case: Case<'_>) -> Verdict {
    decide(tries, &case, &Sightings::default())
}

fn caution(verdict: Verdict) -> Option<Caution> {
    match verdict {
        Verdict::Try { caution, .. } => Some(caution),
        _ => None,
    }
}

#[test]
fn a_new_pin_is_written_down_and_tried_if_the_token_shows_no_wrong_one() {
    let Verdict::Try { tries, caution } = ask(&[], case("a")) else {
        panic!("it is not tried");
    };
    assert_eq!(tries, [tried("a", "pod/1", Outcome::Pending)]);
    assert_eq!(caution, Caution::Clear);
    for (flags, why) in [
        (Flags::Low, Refusal::Low),
        (Flags::Final, Refusal::Final),
        (Flags::Locked, Refusal::Locked),
    ] {
        assert_eq!(ask(&[], Case { flags, ..case("a") }), refused(why));
    }
}

#[test]
fn a_pin_that_was_refused_stays_so_and_one_that_was_right_is_tried_again() {
    for (outcome, why) in [
        (Outcome::Rejected, Refusal::Rejected),
        (Outcome::Locked, Refusal::Locked),
        (Outcome::Expired, Refusal::Expired),
        (Outcome::Form, Refusal::Form),
        (Outcome::Unanswered, Refusal::Unanswered),
        (Outcome::Other, Refusal::Unanswered),
        (Outcome::Replaced, Refusal::Rejected),
    ] {
        assert_eq!(ask(&[tried("a", "other/1", outcome)], case("a")), refused(why));
        // In a Secret that was made anew it is the same PIN.
        let mut elsewhere = tried("a", "other/1", outcome);
        elsewhere.secret = "s2".to_owned();
        assert_eq!(ask(&[elsewhere], case("a")), refused(why));
    }
    for outcome in [Outcome::Accepted, Outcome::Withdrawn] {
        let again = ask(&[tried("a", "other/1", outcome)], case("a"));
        assert_eq!(caution(again), Some(Caution::Clear));
    }
}

#[test]
fn an_order_tries_what_was_refused_but_not_on_a_locked_token() {
    let account = Account::Ordered;
    let tries = [tried("a", "other/1", Outcome::Rejected)];
    for flags in [Flags::Clear, Flags::Low, Flags::Final] {
        let verdict = ask(
            &tries,
            Case {
                account,
                flags,
                ..case("a")
            },
        );
        assert_eq!(caution(verdict), Some(Caution::Ordered));
    }
    let flags = Flags::Locked;
    let verdict = ask(
        &tries,
        Case {
            account,
            flags,
            ..case("a")
        },
    );
    assert_eq!(verdict, refused(Refusal::Locked));
}

#[test]
fn whoever_may_be_at_it_is_waited_for_on_our_own_clock() {
    let tries = [tried("b", "other/1", Outcome::Pending)];
    assert_eq!(ask(&tries, case("a")), Verdict::Wait(WINDOW));
    let mut seen = Sightings::default();
    seen.look(&tries, Duration::from_secs(100));
    seen.look(&tries, Duration::from_secs(130));
    assert_eq!(
        decide(&tries, &case("a"), &seen),
        Verdict::Wait(Duration::from_secs(10))
    );
    seen.look(&tries, Duration::from_secs(140));
    assert!(caution(decide(&tries, &case("a"), &seen)).is_some());
    // No clock of another node decides anything.
    for seconds in [-100_000, -300, 300, 100_000] {
        let now = now() + jiff::SignedDuration::from_secs(seconds);
        assert_eq!(ask(&tries, Case { now, ..case("a") }), Verdict::Wait(WINDOW));
    }
    // The last process of this pod has certainly ended.
    let tries = [tried("b", "pod/0", Outcome::Pending)];
    assert!(caution(ask(&tries, case("a"))).is_some());
}

#[test]
fn after_a_crash_the_flags_decide() {
    let open = |outcome| [tried("a", "pod/0", outcome)];
    let Verdict::Try { tries, .. } = ask(&open(Outcome::Pending), case("a")) else {
        panic!("it is not tried again");
    };
    assert_eq!(tries, [tried("a", "pod/1", Outcome::PendingAgain)]);
    let unanswered = Verdict::Refused {
        why: Refusal::Unanswered,
        tries: Some(open(Outcome::Unanswered).into()),
    };
    assert_eq!(ask(&open(Outcome::PendingAgain), case("a")), unanswered);
    for flags in [Flags::Low, Flags::Final] {
        assert_eq!(
            ask(&open(Outcome::Pending), Case { flags, ..case("a") }),
            unanswered
        );
    }
}

#[test]
fn a_pin_that_was_right_is_tried_again_after_any_number_of_crashes_while_the_flags_are_clear() {
    let mut tries = vec![tried("a", "pod/0", Outcome::Accepted)];
    for _ in 0..5 {
        let Verdict::Try { tries: written, .. } = ask(&tries, case("a")) else {
            panic!("it is not tried again: {tries:?}");
        };
        assert_eq!(written[0].before, Some(Outcome::Accepted));
        tries = written;
    }
    let flags = Flags::Low;
    let Verdict::Refused {
        why: Refusal::Unanswered,
        tries: Some(doubtful),
    } = ask(&tries, Case { flags, ..case("a") })
    else {
        panic!("the flags are not heeded");
    };
    // It may have been the wrong one, so it stays refused when they are clear again.
    assert_eq!(ask(&doubtful, case("a")), refused(Refusal::Unanswered));
    // Once it is wrong, it was never right.
    let wrong = settle(&tries, &key("a"), "pod/1", Outcome::Rejected, now()).unwrap();
    assert_eq!((wrong[0].outcome, wrong[0].before), (Outcome::Rejected, None));
}

#[test]
fn the_flags_say_nothing_of_a_try_that_was_not_the_last() {
    let tries = [
        tried("a", "pod/0", Outcome::Pending),
        tried("b", "other/1", Outcome::Accepted),
    ];
    let Verdict::Refused { why, tries: Some(_) } = ask(&tries, case("a")) else {
        panic!("it is tried");
    };
    assert_eq!(why, Refusal::Unanswered);
}

#[test]
fn once_another_pin_is_tried_an_open_try_stays_without_an_answer() {
    let open = [tried("a", "pod/0", Outcome::Pending)];
    let Verdict::Try { tries, .. } = ask(&open, case("b")) else {
        panic!("it is not tried");
    };
    let expected = [
        tried("a", "pod/0", Outcome::Unanswered),
        tried("b", "pod/1", Outcome::Pending),
    ];
    assert_eq!(tries, expected);
    // Even if the second is right, nobody knows what the first was.
    let right = settle(&tries, &key("b"), "pod/1", Outcome::Accepted, now()).unwrap();
    let Verdict::Refused { why, .. } = ask(&right, case("a")) else {
        panic!("it is tried");
    };
    assert_eq!(why, Refusal::Unanswered);
}

#[test]
fn the_security_officers_try_keeps_no_user_pin_waiting_and_says_nothing_of_it() {
    let mut officers = tried("a", "other/1", Outcome::Pending);
    officers.secret = OFFICER.to_owned();
    let tries = [tried("a", "pod/0", Outcome::Pending), officers.clone()];
    let Verdict::Try { tries, .. } = ask(&tries, case("a")) else {
        panic!("it is not tried again");
    };
    assert_eq!(tries, [officers, tried("a", "pod/1", Outcome::PendingAgain)]);
}

#[test]
fn a_try_that_was_never_sent_does_not_count_once_it_is_withdrawn() {
    let withdrawn = |outcome| {
        let tries = [tried("a", "pod/1", outcome)];
        settle(&tries, &key("a"), "pod/1", Outcome::Withdrawn, now()).unwrap()
    };
    for (outcome, next) in [
        (Outcome::Pending, Outcome::Pending),
        (Outcome::PendingAgain, Outcome::PendingAgain),
    ] {
        let Verdict::Try { tries, .. } = ask(&withdrawn(outcome), case("a")) else {
            panic!("it is not tried");
        };
        assert_eq!(tries, [tried("a", "pod/1", next)]);
    }
}

#[test]
fn a_pin_that_somebody_has_mended_is_tried_at_low_count_and_never_at_the_last_try() {
    let flags = Flags::Low;
    let mended = |tries: &[Try], digest| {
        caution(ask(
            tries,
            Case {
                flags,
                ..case(digest)
            },
        ))
    };
    let wrong = [tried("a", "pod/0", Outcome::Rejected)];
    assert_eq!(mended(&wrong, "b"), Some(Caution::Corrected));
    assert_eq!(
        mended(&[tried("a", "pod/0", Outcome::Pending)], "b"),
        Some(Caution::Corrected)
    );
    // Back to one that was right.
    let back = [tried("b", "pod/0", Outcome::Accepted), wrong[0].clone()];
    assert_eq!(mended(&back, "b"), Some(Caution::Corrected));
    // The wrong one is not ours.
    assert_eq!(mended(&[], "b"), None);
    let right_since = [wrong[0].clone(), tried("b", "pod/0", Outcome::Accepted)];
    assert_eq!(mended(&right_since, "b"), None);
    assert_eq!(mended(&right_since, "c"), None);
    // The same wrong PIN in another Secret is not mended.
    let mut elsewhere = wrong.clone();
    elsewhere[0].secret = "s2".to_owned();
    assert_eq!(mended(&elsewhere, "a"), None);
    let flags = Flags::Final;
    assert_eq!(ask(&wrong, Case { flags, ..case("b") }), refused(Refusal::Final));
}

#[test]
fn an_outcome_is_written_where_its_try_is() {
    let tries = [
        tried("a", "pod/1", Outcome::Pending),
        tried("b", "pod/1", Outcome::Pending),
    ];
    let settled = |outcome| settle(&tries, &key("a"), "pod/1", outcome, now());
    assert_eq!(settled(Outcome::Rejected).unwrap()[0].outcome, Outcome::Rejected);
    assert_eq!(
        settled(Outcome::Withdrawn).unwrap()[0].outcome,
        Outcome::Withdrawn
    );
    assert_eq!(settled(Outcome::Pending), None);
    let mut right = tried("a", "pod/1", Outcome::Pending);
    right.before = Some(Outcome::Accepted);
    let withdrawn = settle(&[right], &key("a"), "pod/1", Outcome::Withdrawn, now());
    assert_eq!(withdrawn.unwrap(), [tried("a", "pod/1", Outcome::Accepted)]);
    let again = [tried("a", "pod/1", Outcome::PendingAgain)];
    let withdrawn = settle(&again, &key("a"), "pod/1", Outcome::Withdrawn, now());
    assert_eq!(withdrawn.unwrap()[0].outcome, Outcome::Pending);
    // Others have taken over.
    let theirs = [tried("a", "pod/2", Outcome::Rejected)];
    assert_eq!(
        settle(&theirs, &key("a"), "pod/1", Outcome::Accepted, now()),
        None
    );
    let theirs = [tried("a", "pod/2", Outcome::Accepted)];
    let settled = settle(&theirs, &key("a"), "pod/1", Outcome::Rejected, now());
    assert_eq!(settled.unwrap()[0].outcome, Outcome::Rejected);
    // Somebody has emptied the record.
    let settled = settle(&[], &key("a"), "pod/1", Outcome::Rejected, now());
    assert_eq!(settled.unwrap(), [tried("a", "pod/1", Outcome::Rejected)]);
}
