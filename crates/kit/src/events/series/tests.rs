use trustplane_plan::kinds::CONFIG_MAP;
use trustplane_plan::{ObjectRef, Severity, Target};

use super::*;

mod shares;

fn note(uid: &str, text: &str) -> Note {
    note_in("ns", uid, text)
}

fn note_in(namespace: &str, uid: &str, text: &str) -> Note {
    let about = Target {
        kind: CONFIG_MAP,
        object: ObjectRef::new(Some(namespace), "n"),
    };
    Note::new(about, uid, Severity::Normal, "Reason", "Act", text)
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn wall(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn stored(count: u32) -> Option<Stored> {
    Some(Stored::new("1", count))
}

#[test]
fn equal_notes_become_one_with_a_count() {
    let mut buffer = Buffer::default();
    assert_eq!(
        buffer.tell("a", &note("u", "x"), seconds(0), wall(0)),
        Told::Started
    );
    assert_eq!(
        buffer.tell("a", &note("u", "x"), seconds(1), wall(1)),
        Told::Joined
    );
    let due = buffer.due(seconds(1)).unwrap();
    assert_eq!(
        (due.pending, due.first, due.last, &due.stored),
        (2, wall(0), wall(1), &None)
    );
    // One more while it is being published is not lost, and not published at the same time.
    buffer.tell("a", &note("u", "x"), seconds(2), wall(2));
    assert_eq!(buffer.due(Duration::MAX), None, "a series has one sender");
    buffer.published(&due, stored(2), seconds(2));
    assert_eq!(
        buffer.due(seconds(11)),
        None,
        "a series is not published at every note"
    );
    let due = buffer.due(seconds(12)).unwrap();
    assert_eq!((due.pending, due.stored), (1, stored(2)));
}

#[test]
fn a_series_that_goes_on_is_published_ever_more_rarely() {
    let mut buffer = Buffer::default();
    let mut published = 0;
    for second in 0..3600 {
        buffer.tell("a", &note("u", "x"), seconds(second), wall(second as i64));
        if let Some(due) = buffer.due(seconds(second)) {
            buffer.published(&due, stored(1), seconds(second));
            published += 1;
        }
    }
    assert!((8..=13).contains(&published), "{published} writes in an hour");
}

#[test]
fn one_loud_object_does_not_silence_another() {
    let mut buffer = Buffer::default();
    let loud: Vec<Told> = (0..100)
        .map(|n| {
            buffer.tell(
                &format!("l{n}"),
                &note("loud", &n.to_string()),
                seconds(0),
                wall(0),
            )
        })
        .collect();
    assert!(loud.contains(&Told::OverBudget) && loud.contains(&Told::Started));
    assert_eq!(
        buffer.tell("q", &note("quiet", "x"), seconds(0), wall(0)),
        Told::Started
    );
}

#[test]
fn a_note_that_cannot_be_published_is_given_up() {
    let mut buffer = Buffer::default();
    buffer.tell("a", &note("u", "x"), seconds(0), wall(0));
    buffer.tell("a", &note("u", "x"), seconds(0), wall(0));
    let (mut now, mut tries, mut given_up) = (seconds(0), 0, 0);
    while let Some(due) = buffer.due(now) {
        tries += 1;
        given_up += buffer.failed(&due, now, Some(seconds(1)));
        now += seconds(1);
    }
    assert_eq!((tries, given_up, buffer.depth()), (MAX_FAILURES, 2, 0));
    buffer.tell("b", &note("u", "x"), now, wall(0));
    let due = buffer.due(now).unwrap();
    assert_eq!(
        buffer.failed(&due, now, None),
        1,
        "what can never succeed is not tried again"
    );
}
