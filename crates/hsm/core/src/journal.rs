//! The journal of a change: what a path is to hold after it, what is new of that, and what goes. It is made before the first
//! object is touched and destroyed after the last, so what is found beside a journal can be led to one of two ends.
//!
//! | bytes | |
//! |---|---|
//! | 3 | `TPJ` |
//! | 1 | format: 1 |
//! | 8 | generation after the change, big-endian |
//! | 2 | length of the path, big-endian |
//! | … | path |
//! | 2, 2, 2 | how many objects are kept, are new, go; big-endian |
//! | 8 each | digests of what is kept |
//! | 8 each | digests of what is new |
//! | 4 each | half digests of what goes |
//! | 4 | the first bytes of a SHA-256 over all before |

use std::collections::BTreeSet;

use crate::generation::seal;
use crate::label::{Label, PathMark};
use crate::object::{Found, HalfDigest, NewObject, ObjectDigest};
use crate::path::SecretPath;
use crate::secret::Value;
use crate::version::HIGHEST;

const MAGIC: &[u8] = b"TPJ";
const FORMAT: u8 = 1;
/// The most objects of one kind in a journal.
pub(crate) const MOST_OBJECTS: usize = u16::MAX as usize;

/// A change of one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Journal {
    /// The generation of the token after it.
    pub generation: u64,
    /// The path.
    pub path: SecretPath,
    /// What was there and stays.
    pub kept: BTreeSet<ObjectDigest>,
    /// What is made. None of it was there.
    pub new: BTreeSet<ObjectDigest>,
    /// What was there and goes: values, metadata, and journals that could not be followed.
    pub old: BTreeSet<HalfDigest>,
}

/// Why a journal cannot be followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// The token does not give it.
    #[error("the journal cannot be read")]
    Unreadable,
    /// It is cut, or mixed up.
    #[error("the journal is damaged")]
    Damaged,
    /// A newer version of this program wrote it.
    #[error("the journal has format {0}, which is not known here")]
    Format(u8),
}

impl Journal {
    /// The object that says so. Digests that do not fit are left out, so whoever makes a journal checks that first.
    pub fn object(&self) -> NewObject {
        let path = self.path.as_str().as_bytes();
        let mut bytes = MAGIC.to_vec();
        bytes.push(FORMAT);
        bytes.extend(self.generation.to_be_bytes());
        bytes.extend(count(path.len()));
        bytes.extend(path);
        for length in [self.kept.len(), self.new.len(), self.old.len()] {
            bytes.extend(count(length));
        }
        for digest in self
            .kept
            .iter()
            .take(MOST_OBJECTS)
            .chain(self.new.iter().take(MOST_OBJECTS))
        {
            bytes.extend(digest.as_bytes());
        }
        for digest in self.old.iter().take(MOST_OBJECTS) {
            bytes.extend(digest.as_bytes());
        }
        bytes.extend(seal(&bytes));
        NewObject {
            label: Label::of_journal(PathMark::of(&self.path)),
            value: Value::new(bytes),
        }
    }

    /// Reads an object with the label of a journal for the path with this mark.
    pub fn of<H>(object: &Found<H>, mark: PathMark) -> Result<Self, JournalError> {
        let value = object.value.as_ref().ok_or(JournalError::Unreadable)?;
        let journal = Self::parse(value.expose())?;
        match PathMark::of(&journal.path) == mark {
            true => Ok(journal),
            false => Err(JournalError::Damaged),
        }
    }

    fn parse(bytes: &[u8]) -> Result<Self, JournalError> {
        let damaged = JournalError::Damaged;
        match bytes.strip_prefix(MAGIC) {
            Some([FORMAT, ..]) => {}
            Some([format, ..]) => return Err(JournalError::Format(*format)),
            _ => return Err(damaged),
        }
        let end = bytes.len().saturating_sub(4);
        let (body, sealed) = bytes.split_at(end);
        if seal(body) != sealed {
            return Err(damaged);
        }
        let mut reader = Reader(body.get(MAGIC.len() + 1..).ok_or(damaged)?);
        reader.journal().filter(|_| reader.0.is_empty()).ok_or(damaged)
    }
}

fn count(length: usize) -> [u8; 2] {
    u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes()
}

/// What is left to read.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn journal(&mut self) -> Option<Journal> {
        let generation = Some(u64::from_be_bytes(self.array()?)).filter(|counter| *counter < HIGHEST)?;
        let length = self.count()?;
        let (path, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        let path = SecretPath::parse(std::str::from_utf8(path).ok()?).ok()?;
        let (kept, new, old) = (self.count()?, self.count()?, self.count()?);
        Some(Journal {
            generation,
            path,
            kept: self.set(kept, |reader| reader.array().map(ObjectDigest::from_bytes))?,
            new: self.set(new, |reader| reader.array().map(ObjectDigest::from_bytes))?,
            old: self.set(old, |reader| reader.array().map(HalfDigest::from_bytes))?,
        })
    }

    fn set<T: Ord>(&mut self, length: usize, next: impl Fn(&mut Self) -> Option<T>) -> Option<BTreeSet<T>> {
        let set: BTreeSet<T> = (0..length).map(|_| next(self)).collect::<Option<_>>()?;
        (set.len() == length).then_some(set)
    }

    fn count(&mut self) -> Option<usize> {
        self.array().map(|bytes| u16::from_be_bytes(bytes).into())
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
        let mut expected = b"TPJ\x01\0\0\0\0\0\0\x01\x02\0\x07shop/db\0\x01\0\x02\0\x01".to_vec();
        for (number, length) in [(1, 8), (2, 8), (3, 8), (4, 4)] {
            expected.extend(vec![number; length]);
        }
        assert_eq!(bytes[..bytes.len() - 4], expected);
        assert_eq!(
            object.label,
            Label::of_journal(PathMark::of(&journal(&[], &[], &[]).path))
        );
    }

    #[test]
    fn a_hundred_keys_fit() {
        let all: Vec<u8> = (0..=100).collect();
        // A secret that is new, one that is renewed from the first key to the last, one of which a key changes.
        assert!(journal(&[], &all, &[]).object().value.len() <= 900);
        assert!(journal(&[], &all, &all).object().value.len() <= 1300);
        assert!(journal(&all[2..], &all[..2], &all[..2]).object().value.len() <= 900);
    }

    #[test]
    fn a_journal_that_cannot_be_followed_says_why() {
        let whole = journal(&[1], &[2], &[3]).object();
        let mut newer = whole.value.expose().to_vec();
        newer[3] = 2;
        assert_eq!(read(&newer), Err(JournalError::Format(2)));
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
                bytes.splice(0..0, *b"TPJ\x01");
                bytes.extend(seal(&bytes));
            }
            let _ = read(&bytes);
        }
    }
}
