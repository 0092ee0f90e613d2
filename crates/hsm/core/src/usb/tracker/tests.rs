use proptest::prelude::*;

use super::*;

const GRACE: SignedDuration = SignedDuration::from_secs(300);

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + second).unwrap()
}

fn found(serial: Option<&str>, path: &str) -> Found {
    Found {
        device_path: path.to_owned(),
        node: path.to_owned(),
        serial: serial.map(str::to_owned),
        info: BTreeMap::new(),
    }
}

fn tracker(limit: Option<usize>) -> Tracker {
    Tracker::new(limit, GRACE)
}

/// Serial or path, path, available, since when.
fn picture(tracker: &Tracker) -> Vec<(&str, &str, bool, i64)> {
    let line = |tracked: &'_ Tracked| tracked.since.as_second() - 1_000_000;
    tracker
        .devices()
        .iter()
        .map(|tracked| {
            let found = &tracked.found;
            let serial = found.serial.as_deref().unwrap_or("-");
            (
                serial,
                found.device_path.as_str(),
                tracked.available,
                line(tracked),
            )
        })
        .collect()
}

#[test]
fn a_lost_device_stays_until_the_grace_period_has_passed() {
    let mut tracker = tracker(None);
    assert!(tracker.see(vec![found(Some("A"), "/dev/1")], at(0)));
    assert!(!tracker.see(vec![found(Some("A"), "/dev/1")], at(10)));
    assert_eq!(picture(&tracker), [("A", "/dev/1", true, 0)]);
    assert!(tracker.see(vec![], at(20)));
    assert_eq!(picture(&tracker), [("A", "/dev/1", false, 20)]);
    assert!(!tracker.see(vec![], at(319)));
    assert!(tracker.see(vec![], at(320)));
    assert_eq!(picture(&tracker), []);
}

#[test]
fn a_device_that_comes_back_is_available_again() {
    let mut tracker = tracker(None);
    tracker.see(vec![found(Some("A"), "/dev/1")], at(0));
    tracker.see(vec![], at(20));
    tracker.see(vec![found(Some("A"), "/dev/1")], at(30));
    assert_eq!(picture(&tracker), [("A", "/dev/1", true, 30)]);
}

#[test]
fn a_device_with_a_new_number_is_the_same_device_elsewhere() {
    let mut tracker = tracker(None);
    tracker.see(vec![found(Some("A"), "/dev/bus/usb/001/015")], at(0));
    // Nobody looked while it was away.
    assert!(tracker.see(vec![found(Some("A"), "/dev/bus/usb/001/016")], at(5)));
    assert_eq!(picture(&tracker), [("A", "/dev/bus/usb/001/016", true, 5)]);
    // And with a look between.
    tracker.see(vec![], at(6));
    tracker.see(vec![found(Some("A"), "/dev/bus/usb/002/003")], at(7));
    assert_eq!(picture(&tracker), [("A", "/dev/bus/usb/002/003", true, 7)]);
}

#[test]
fn without_a_serial_number_the_file_is_the_device() {
    let mut tracker = tracker(None);
    tracker.see(vec![found(None, "/dev/1")], at(0));
    tracker.see(vec![found(None, "/dev/2")], at(5));
    assert_eq!(
        picture(&tracker),
        [("-", "/dev/1", false, 5), ("-", "/dev/2", true, 5)]
    );
}

#[test]
fn two_tokens_with_one_serial_number_are_both_told_and_marked() {
    let mut tracker = tracker(None);
    let (first, second) = (found(Some("A"), "/dev/1"), found(Some("A"), "/dev/2"));
    tracker.see(vec![first.clone()], at(0));
    assert!(tracker.see(vec![second.clone(), first.clone()], at(5)));
    assert_eq!(
        picture(&tracker),
        [("A", "/dev/1", true, 0), ("A", "/dev/2", true, 5)]
    );
    assert!(tracker.devices().iter().all(is_duplicate));
    assert_eq!(
        tracker.devices()[0].reported("n").device_info["duplicate-serial"],
        "2"
    );
    // One of them goes: the other is alone, and no longer marked.
    tracker.see(vec![second], at(6));
    assert_eq!(picture(&tracker), [("A", "/dev/2", true, 5)]);
    assert!(!is_duplicate(&tracker.devices()[0]));
}

fn is_duplicate(tracked: &Tracked) -> bool {
    tracked.found.info.contains_key(DUPLICATE)
}

#[test]
fn serial_numbers_that_differ_in_case_alone_are_one() {
    let mut tracker = tracker(None);
    tracker.see(vec![found(Some("e6"), "/dev/1")], at(0));
    tracker.see(
        vec![found(Some("E6"), "/dev/2"), found(Some("e6"), "/dev/1")],
        at(5),
    );
    assert_eq!(
        picture(&tracker),
        [("e6", "/dev/1", true, 0), ("E6", "/dev/2", true, 5)]
    );
    assert!(tracker.devices().iter().all(is_duplicate));
}

#[test]
fn a_device_stays_the_first_whatever_else_becomes_known_of_it() {
    let mut tracker = tracker(None);
    tracker.see(vec![found(Some("A"), "/dev/1")], at(0));
    // udev sets the mode of a file a moment after the kernel has made it.
    let settled = found(Some("A"), "/dev/1").with_access(0o660, 46);
    assert!(tracker.see(vec![settled], at(5)));
    assert_eq!(picture(&tracker), [("A", "/dev/1", true, 0)]);
    assert_eq!(tracker.devices()[0].found.info["gid"], "46");
}

#[test]
fn two_tokens_with_one_serial_number_that_are_both_lost_are_both_kept() {
    let mut tracker = tracker(None);
    let both = vec![found(Some("A"), "/dev/1"), found(Some("A"), "/dev/2")];
    tracker.see(both, at(0));
    tracker.see(vec![], at(1));
    assert_eq!(
        picture(&tracker),
        [("A", "/dev/1", false, 1), ("A", "/dev/2", false, 1)]
    );
    tracker.see(vec![found(Some("A"), "/dev/3")], at(2));
    assert_eq!(picture(&tracker), [("A", "/dev/3", true, 2)]);
}

#[test]
fn a_device_that_is_found_in_two_ways_is_one() {
    let mut tracker = tracker(None);
    let mut by_path = found(None, "/dev/sc-hsm");
    by_path.node = "/dev/bus/usb/001/015".to_owned();
    tracker.see(vec![by_path, found(Some("A"), "/dev/bus/usb/001/015")], at(0));
    assert_eq!(picture(&tracker), [("A", "/dev/bus/usb/001/015", true, 0)]);
}

#[test]
fn a_device_in_use_keeps_its_place_until_it_is_lost_and_another_is_there() {
    let mut tracker = tracker(Some(1));
    let (a, b) = (found(Some("A"), "/dev/1"), found(Some("B"), "/dev/2"));
    tracker.see(vec![b.clone()], at(0));
    assert_eq!(tracker.left_out(), 0);
    // Nothing of B is different, and yet there is something to tell.
    assert!(tracker.see(vec![a.clone(), b.clone()], at(1)));
    assert_eq!(picture(&tracker), [("B", "/dev/2", true, 0)]);
    assert_eq!(tracker.left_out(), 1);
    // One that is there beats one that is lost, at once.
    tracker.see(vec![a.clone()], at(2));
    assert_eq!(picture(&tracker), [("A", "/dev/1", true, 2)]);
    assert_eq!(tracker.left_out(), 0);
    tracker.see(vec![a, b], at(3));
    assert_eq!(picture(&tracker), [("A", "/dev/1", true, 2)]);
    tracker.see(vec![], at(4));
    assert_eq!(picture(&tracker), [("A", "/dev/1", false, 4)]);
}

#[test]
fn of_several_that_are_lost_the_last_one_keeps_its_place_longest() {
    let mut tracker = tracker(Some(2));
    let (a, b, c) = (
        found(Some("A"), "/dev/1"),
        found(Some("B"), "/dev/2"),
        found(Some("C"), "/dev/3"),
    );
    tracker.see(vec![a, b.clone()], at(0));
    tracker.see(vec![b], at(1));
    tracker.see(vec![], at(2));
    tracker.see(vec![c], at(3));
    assert_eq!(
        picture(&tracker),
        [("B", "/dev/2", false, 2), ("C", "/dev/3", true, 3)]
    );
}

#[test]
fn a_second_token_with_the_serial_number_of_one_in_use_counts_as_new() {
    let mut tracker = tracker(Some(1));
    tracker.see(vec![found(Some("A"), "/dev/2")], at(0));
    tracker.see(
        vec![found(Some("A"), "/dev/1"), found(Some("A"), "/dev/2")],
        at(1),
    );
    assert_eq!(picture(&tracker), [("A", "/dev/2", true, 0)]);
    assert!(is_duplicate(&tracker.devices()[0]));
}

#[test]
fn a_process_goes_on_where_the_last_one_ended() {
    let mut before = tracker(Some(1));
    before.see(vec![found(Some("B"), "/dev/2")], at(0));
    before.see(vec![], at(5));
    let reported: Vec<_> = before.devices().iter().map(|d| d.reported("n")).collect();
    let mut after = tracker(Some(1));
    after.restore(&reported, at(6));
    assert_eq!(after.devices(), before.devices());
    after.see(
        vec![found(Some("A"), "/dev/1"), found(Some("B"), "/dev/2")],
        at(7),
    );
    assert_eq!(picture(&after), [("B", "/dev/2", true, 7)]);
}

#[test]
fn a_process_that_may_use_fewer_than_the_last_one_keeps_those_that_came_first() {
    let all = || {
        ["A", "B", "C"]
            .map(|serial| found(Some(serial), &format!("/dev/{serial}")))
            .to_vec()
    };
    let mut before = tracker(None);
    before.see(all()[1..].to_vec(), at(0));
    before.see(all(), at(5));
    let reported: Vec<_> = before.devices().iter().map(|d| d.reported("n")).collect();
    for (limit, kept) in [(1, &["B"][..]), (2, &["B", "C"]), (3, &["A", "B", "C"])] {
        let mut after = tracker(Some(limit));
        after.restore(&reported, at(6));
        after.see(all(), at(7));
        let serials = |tracker: &Tracker| -> Vec<String> {
            let serials = tracker.devices().iter();
            serials
                .filter_map(|tracked| tracked.found.serial.clone())
                .collect()
        };
        assert_eq!(serials(&after), kept);
        assert_eq!(after.left_out(), 3 - limit);
        assert!(!after.see(all(), at(8)));
    }
}

#[test]
fn what_was_reported_of_a_time_to_come_is_of_now() {
    let mut before = tracker(None);
    before.see(vec![found(Some("A"), "/dev/1"), found(None, "/dev/2")], at(9_000));
    before.see(vec![found(Some("A"), "/dev/1")], at(9_001));
    let reported: Vec<_> = before.devices().iter().map(|d| d.reported("n")).collect();
    let mut after = tracker(None);
    after.restore(&reported, at(10));
    after.see(vec![found(Some("A"), "/dev/1")], at(20));
    assert_eq!(
        picture(&after),
        [("A", "/dev/1", true, 10), ("-", "/dev/2", false, 10)]
    );
    after.see(vec![found(Some("A"), "/dev/1")], at(310));
    assert_eq!(picture(&after), [("A", "/dev/1", true, 10)]);
}

fn looks() -> impl Strategy<Value = Vec<Vec<Found>>> {
    let device = (proptest::option::of("[AB]"), 0..4_u8)
        .prop_map(|(serial, path)| found(serial.as_deref(), &format!("/dev/{path}")));
    proptest::collection::vec(proptest::collection::vec(device, 0..5), 0..12)
}

proptest! {
    #[test]
    fn without_a_limit_exactly_what_is_there_is_available(looks in looks()) {
        let mut tracker = tracker(None);
        for (second, look) in looks.into_iter().enumerate() {
            let there: BTreeSet<_> = look.iter().map(|found| found.device_path.clone()).collect();
            tracker.see(look, at(second as i64));
            let available = tracker.devices().iter().filter(|d| d.available);
            let available: Vec<_> = available.map(|d| d.found.device_path.clone()).collect();
            prop_assert_eq!(available.iter().cloned().collect::<BTreeSet<_>>(), there);
            prop_assert_eq!(available.iter().collect::<BTreeSet<_>>().len(), available.len(), "each file once");
        }
    }

    #[test]
    fn the_order_of_a_look_does_not_matter(looks in looks(), limit in proptest::option::of(0..4_usize)) {
        let (mut one, mut other) = (tracker(limit), tracker(limit));
        for (second, look) in looks.into_iter().enumerate() {
            let backwards = look.iter().rev().cloned().collect();
            let changed = one.see(look, at(second as i64));
            prop_assert_eq!(changed, other.see(backwards, at(second as i64)));
            prop_assert_eq!(one.devices(), other.devices());
        }
    }

    #[test]
    fn no_more_than_the_limit_and_never_at_the_cost_of_one_in_use(looks in looks(), limit in 1..4_usize) {
        let mut tracker = tracker(Some(limit));
        for (second, look) in looks.into_iter().enumerate() {
            // Of two serial numbers at one file only one is there.
            let there: BTreeSet<_> = grouped(look.clone()).into_keys().collect();
            let used: BTreeSet<_> = tracker.devices().iter().map(|d| Key::of(&d.found)).collect();
            tracker.see(look, at(second as i64));
            prop_assert!(tracker.devices().len() <= limit);
            let now: BTreeSet<_> = tracker.devices().iter().map(|d| Key::of(&d.found)).collect();
            // A file may turn out to belong to a token with a serial number; then that is the device.
            for key in used.intersection(&there).filter(|key| matches!(key, Key::Serial(_))) {
                prop_assert!(now.contains(key));
            }
        }
    }

    #[test]
    fn looking_again_changes_nothing(looks in looks(), limit in proptest::option::of(1..4_usize)) {
        let mut tracker = tracker(limit);
        for (second, look) in looks.into_iter().enumerate() {
            tracker.see(look.clone(), at(second as i64));
            prop_assert!(!tracker.see(look, at(second as i64)));
        }
    }

    #[test]
    fn nothing_outlives_the_grace_period(looks in looks()) {
        let mut tracker = tracker(None);
        let last = looks.len() as i64;
        for (second, look) in looks.into_iter().enumerate() {
            tracker.see(look, at(second as i64));
        }
        tracker.see(vec![], at(last));
        tracker.see(vec![], at(last + 300));
        prop_assert!(tracker.devices().is_empty());
    }
}
