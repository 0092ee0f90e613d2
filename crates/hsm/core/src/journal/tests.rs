use proptest::prelude::*;

use super::*;
use crate::label::LabelsMark;

fn journal(kept: &[u8], new: &[u8], old: &[u8]) -> Journal {
    let whole = |numbers: &[u8]| {
        numbers
            .iter()
            .map(|n| ObjectDigest::from_bytes([*n; 8]))
            .collect()
    };
    Journal {
        generation: 258,
        path: SecretPath::parse("shop/db").unwrap(),
        kept: whole(kept),
        new: whole(new),
        old: old.iter().map(|n| HalfDigest::from_bytes([*n; 4])).collect(),
        touched: new
            .iter()
            .chain(old)
            .map(|n| LabelMark::from_bytes([*n; 2]))
            .collect(),
        turn: None,
    }
}

fn found(value: Option<&[u8]>) -> Found<()> {
    Found {
        handle: (),
        label: Label::new("of no interest"),
        value: value.map(Value::new),
    }
}

fn read(bytes: &[u8]) -> Result<Journal, JournalError> {
    Journal::of(
        &found(Some(bytes)),
        PathMark::of(&SecretPath::parse("shop/db").unwrap()),
    )
}

#[test]
fn the_bytes_are_as_documented() {
    let object = journal(&[1], &[2, 3], &[4]).object();
    let bytes = object.value.expose();
    let mut expected = b"TPJ\x02\0\0\0\0\0\0\x01\x02\0\x07shop/db\0\x01\0\x02\0\x01\0\x03".to_vec();
    for (number, length) in [(1, 8), (2, 8), (3, 8), (4, 4), (2, 2), (3, 2), (4, 2)] {
        expected.extend(vec![number; length]);
    }
    assert_eq!(bytes[..bytes.len() - 4], expected);
    assert_eq!(
        object.label,
        Label::of_journal(PathMark::of(&journal(&[], &[], &[]).path), None)
    );
}

#[test]
fn a_journal_of_the_first_format_is_read() {
    let mut bytes = b"TPJ\x01\0\0\0\0\0\0\x01\x02\0\x07shop/db\0\x01\0\x02\0\x01".to_vec();
    for (number, length) in [(1, 8), (2, 8), (3, 8), (4, 4)] {
        bytes.extend(vec![number; length]);
    }
    bytes.extend(seal(&bytes));
    let expected = Journal {
        touched: BTreeSet::new(),
        ..journal(&[1], &[2, 3], &[4])
    };
    assert_eq!(read(&bytes), Ok(expected));
}

#[test]
fn what_the_labels_tell_stands_in_the_label() {
    let labels = [Label::new("shop/db/k")];
    let turn = Turn {
        before: LabelsMark::of([].into_iter()),
        after: LabelsMark::of(labels.iter()),
    };
    let written = Journal {
        turn: Some(turn),
        ..journal(&[1], &[2], &[3])
    };
    let object = written.object();
    let read = Journal::of(
        &Found {
            handle: (),
            label: object.label,
            value: Some(object.value),
        },
        PathMark::of(&written.path),
    );
    assert_eq!(read, Ok(written));
}

#[test]
fn a_hundred_keys_fit() {
    let all: Vec<u8> = (0..=100).collect();
    // A secret that is new, one that is renewed from the first key to the last, one of which a key changes.
    assert!(journal(&[], &all, &[]).object().value.len() <= 1100);
    assert!(journal(&[], &all, &all).object().value.len() <= 1500);
    assert!(journal(&all[2..], &all[..2], &all[..2]).object().value.len() <= 900);
    // As many objects as a token of 127 can hold twice fit into a value of 1,024 bytes.
    let half = &all[..62];
    assert!(journal(&[], half, half).object().value.len() <= 1000);
}

#[test]
fn a_journal_that_cannot_be_followed_says_why() {
    let whole = journal(&[1], &[2], &[3]).object();
    let mut newer = whole.value.expose().to_vec();
    newer[3] = 3;
    assert_eq!(read(&newer), Err(JournalError::Format(3)));
    assert_eq!(read(b""), Err(JournalError::Damaged));
    assert_eq!(read(b"TPJ"), Err(JournalError::Damaged));
    assert_eq!(read(b"TPJ\x01"), Err(JournalError::Damaged));
    let mark = PathMark::of(&SecretPath::parse("shop/db").unwrap());
    assert_eq!(Journal::of(&found(None), mark), Err(JournalError::Unreadable));
    // A journal under the label of another path is nobody's.
    let other = PathMark::of(&SecretPath::parse("shop/db2").unwrap());
    assert_eq!(
        Journal::of(&found(Some(whole.value.expose())), other),
        Err(JournalError::Damaged)
    );
}

proptest! {
    #[test]
    fn what_is_written_is_read_again_and_nothing_else(
        kept in prop::collection::vec(any::<u8>(), 0..5), new in prop::collection::vec(any::<u8>(), 0..5),
        old in prop::collection::vec(any::<u8>(), 0..5), at: prop::sample::Index, flip in 1..=255_u8,
    ) {
        let journal = journal(&kept, &new, &old);
        let object = journal.object();
        let bytes = object.value.expose();
        prop_assert_eq!(read(bytes), Ok(journal));
        let at = at.index(bytes.len());
        let mut damaged = bytes.to_vec();
        damaged[at] ^= flip;
        prop_assert!(read(&damaged).is_err());
        prop_assert!(read(&bytes[..at]).is_err());
        prop_assert!(read(&[bytes, &[flip]].concat()).is_err());
    }

    #[test]
    fn any_bytes_are_read_or_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..80), sealed: bool) {
        // Behind a good seal the reader is reached.
        if sealed {
            bytes.splice(0..0, *b"TPJ\x02");
            bytes.extend(seal(&bytes));
        }
        let _ = read(&bytes);
    }
}
