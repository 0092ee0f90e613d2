//! The journal of a change: what a path is to hold after it, what is new of that, and what goes. It is made before the first
//! object is touched and destroyed after the last, so what is found beside a journal can be led to one of two ends.
//!
//! | bytes | |
//! |---|---|
//! | 3 | `TPJ` |
//! | 1 | format: 2 |
//! | 8 | generation after the change, big-endian |
//! | 2 | length of the path, big-endian |
//! | … | path |
//! | 2, 2, 2, 2 | how many objects are kept, are new, go, and how many labels the last two have; big-endian |
//! | 8 each | digests of what is kept |
//! | 8 each | digests of what is new |
//! | 4 each | half digests of what goes |
//! | 2 each | digests of the labels of what is new or goes |
//! | 4 | the first bytes of a SHA-256 over all before |
//!
//! Format 1 is the same without labels.

use std::collections::BTreeSet;

use crate::generation::seal;
use crate::label::{Label, LabelMark, PathMark, Turn};
use crate::object::{Found, HalfDigest, NewObject, ObjectDigest};
use crate::path::SecretPath;
use crate::secret::Value;
use crate::version::HIGHEST;

const MAGIC: &[u8] = b"TPJ";
/// What is written.
const FORMAT: u8 = 2;
/// What is read as well.
const WITHOUT_LABELS: u8 = 1;
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
    /// The labels of what is made and of what goes: an object of which no more is left is known by it.
    pub touched: BTreeSet<LabelMark>,
    /// The labels of the path before and after, if those tell that the change is over. It stands in the label.
    pub turn: Option<Turn>,
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
        let lengths = [
            self.kept.len(),
            self.new.len(),
            self.old.len(),
            self.touched.len(),
        ];
        for length in lengths {
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
        for label in self.touched.iter().take(MOST_OBJECTS) {
            bytes.extend(label.as_bytes());
        }
        bytes.extend(seal(&bytes));
        NewObject {
            label: Label::of_journal(PathMark::of(&self.path), self.turn),
            value: Value::new(bytes),
        }
    }

    /// Reads an object with the label of a journal for the path with this mark.
    pub fn of<H>(object: &Found<H>, mark: PathMark) -> Result<Self, JournalError> {
        let value = object.value.as_ref().ok_or(JournalError::Unreadable)?;
        let journal = Self::parse(value.expose())?;
        match PathMark::of(&journal.path) == mark {
            true => Ok(Self {
                turn: object.label.turn(),
                ..journal
            }),
            false => Err(JournalError::Damaged),
        }
    }

    /// Whether an object of which only the label is left may be one that was made or was to go.
    pub(crate) fn touches(&self, label: &Label) -> bool {
        self.touched.contains(&LabelMark::of(label))
    }

    fn parse(bytes: &[u8]) -> Result<Self, JournalError> {
        let damaged = JournalError::Damaged;
        let format = match bytes.strip_prefix(MAGIC) {
            Some([format @ (FORMAT | WITHOUT_LABELS), ..]) => *format,
            Some([format, ..]) => return Err(JournalError::Format(*format)),
            _ => return Err(damaged),
        };
        let end = bytes.len().saturating_sub(4);
        let (body, sealed) = bytes.split_at(end);
        if seal(body) != sealed {
            return Err(damaged);
        }
        let mut reader = Reader(body.get(MAGIC.len() + 1..).ok_or(damaged)?);
        let journal = reader.journal(format);
        journal.filter(|_| reader.0.is_empty()).ok_or(damaged)
    }
}

fn count(length: usize) -> [u8; 2] {
    u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes()
}

/// What is left to read.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn journal(&mut self, format: u8) -> Option<Journal> {
        let generation = Some(u64::from_be_bytes(self.array()?)).filter(|counter| *counter < HIGHEST)?;
        let length = self.count()?;
        let (path, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        let path = SecretPath::parse(std::str::from_utf8(path).ok()?).ok()?;
        let (kept, new, old) = (self.count()?, self.count()?, self.count()?);
        let touched = match format {
            WITHOUT_LABELS => 0,
            _ => self.count()?,
        };
        Some(Journal {
            generation,
            path,
            kept: self.set(kept, |reader| reader.array().map(ObjectDigest::from_bytes))?,
            new: self.set(new, |reader| reader.array().map(ObjectDigest::from_bytes))?,
            old: self.set(old, |reader| reader.array().map(HalfDigest::from_bytes))?,
            touched: self.set(touched, |reader| reader.array().map(LabelMark::from_bytes))?,
            turn: None,
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
mod tests;
