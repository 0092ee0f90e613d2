//! When a store counts as current.

use super::*;

fn since(rig: &Rig) -> Option<Instant> {
    rig.machine.currency().map(|span| span.since())
}

#[test]
fn a_store_is_current_from_its_first_list_on() {
    let mut rig = Rig::new();
    rig.on(Input::Accepted);
    assert_eq!(since(&rig), None);
    rig.bookmark("10", true);
    let listed = rig.now;
    rig.pass(60);
    rig.bookmark("11", false);
    let span = rig.machine.currency().unwrap();
    assert_eq!((span.since(), span.confirmed()), (listed, rig.now));
}

#[test]
fn a_watch_that_ends_in_its_time_is_no_gap() {
    let mut rig = Rig::live();
    let listed = rig.now;
    for _ in 0..5 {
        for _ in 0..3 {
            rig.pass(60);
            rig.bookmark("11", false);
        }
        rig.fail(Reason::Ended);
        assert_eq!(since(&rig), Some(listed));
        rig.on(Input::Accepted);
    }
    assert_eq!(since(&rig), Some(listed));
}

#[test]
fn a_break_ends_the_span_until_a_bookmark_of_the_new_connection() {
    for reason in [
        Reason::Connection,
        Reason::TimedOut,
        Reason::Server,
        Reason::Unauthorized,
    ] {
        let mut rig = Rig::live();
        rig.pass(30);
        rig.fail(reason);
        assert_eq!(since(&rig), None, "{reason:?}");
        rig.pass(600);
        rig.on(Input::Accepted);
        rig.object("12");
        assert_eq!(since(&rig), None, "one event does not tell that all have come");
        rig.pass(1);
        rig.bookmark("13", false);
        assert_eq!(since(&rig), Some(rig.now), "{reason:?}");
    }
}

#[test]
fn a_watch_that_ends_at_once_is_a_break() {
    let mut rig = Rig::live();
    rig.pass(30);
    rig.bookmark("11", false);
    rig.fail(Reason::Ended);
    rig.on(Input::Accepted);
    rig.fail(Reason::Ended);
    assert_eq!(
        since(&rig),
        None,
        "a server that goes away ends its watches first"
    );
}

#[test]
fn a_wish_for_a_list_ends_the_span_until_the_list() {
    let mut rig = Rig::live();
    rig.pass(5);
    rig.on(Input::Relist);
    assert_eq!(since(&rig), None);
    rig.on(Input::Accepted);
    rig.bookmark("14", false);
    assert_eq!(since(&rig), None, "the list is not complete");
    rig.bookmark("14", true);
    assert_eq!(since(&rig), Some(rig.now));
}

#[test]
fn a_store_that_has_not_seen_everything_is_not_current() {
    let mut rig = Rig::resumed("7");
    rig.on(Input::Accepted);
    rig.bookmark("9", false);
    assert_eq!(since(&rig), None);
}

#[test]
fn a_server_without_bookmarks_is_listed_after_a_break() {
    let mut rig = Rig::live();
    rig.fail(Reason::Connection);
    rig.ask();
    rig.on(Input::Accepted);
    rig.object("12");
    rig.pass(200);
    rig.fail(Reason::Ended);
    assert_eq!(rig.ask(), Ask::Stream);
}

#[test]
fn a_server_that_fell_silent_begins_a_new_span_when_it_is_heard() {
    let mut rig = Rig::live();
    rig.pass(150);
    rig.object("12");
    assert_eq!(since(&rig), Some(rig.now));
}
