//! Short digests of paths and labels, which stand in labels and in journals.

use std::fmt;

use super::Label;
use crate::checksum::{Framed, hex};
use crate::path::SecretPath;

/// A short digest of a path. It stands in the label of a journal, so that a journal which cannot be read still says which path
/// it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathMark([u8; 8]);

impl PathMark {
    /// The mark of a path.
    pub fn of(path: &SecretPath) -> Self {
        let mut digest = Framed::new("path");
        digest.add(path.as_str().as_bytes());
        Self(digest.short())
    }

    /// Sixteen digits, each of them as we write it.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let number = u64::from_str_radix(text, 16).ok()?;
        let mark = Self(number.to_be_bytes());
        (mark.to_string() == text).then_some(mark)
    }
}

/// A short digest of a label, which serves to know it again among a few.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LabelMark([u8; LabelMark::LENGTH]);

impl LabelMark {
    /// How many bytes it has.
    pub const LENGTH: usize = 2;

    /// The mark of a label.
    pub fn of(label: &Label) -> Self {
        let mut digest = Framed::new("label");
        digest.add(label.as_bytes());
        Self(digest.short())
    }

    pub(crate) fn from_bytes(bytes: [u8; Self::LENGTH]) -> Self {
        Self(bytes)
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// A short digest of all labels of a path. Cards show labels to anybody, so no value is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LabelsMark([u8; 4]);

impl LabelsMark {
    /// The mark of these labels. In which order they are does not count, and how often each is there does.
    pub fn of<'a>(labels: impl Iterator<Item = &'a Label>) -> Self {
        let mut labels: Vec<&Label> = labels.collect();
        labels.sort();
        let mut digest = Framed::new("labels");
        for label in labels {
            digest.add(label.as_bytes());
        }
        Self(digest.short())
    }

    /// Eight digits, each of them as we write it.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let number = u32::from_str_radix(text, 16).ok()?;
        let mark = Self(number.to_be_bytes());
        (mark.to_string() == text).then_some(mark)
    }
}

impl fmt::Display for LabelsMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

/// The labels of a path before a change and after it. It stands in the label of a journal, so that a journal which is destroyed by
/// half, and cannot be read any more, still says that its change is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// Before it.
    pub before: LabelsMark,
    /// After it.
    pub after: LabelsMark,
}

impl Turn {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (before, after) = text.split_once('-')?;
        Some(Self {
            before: LabelsMark::parse(before)?,
            after: LabelsMark::parse(after)?,
        })
    }
}

impl fmt::Display for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.before, self.after)
    }
}

impl fmt::Display for PathMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}
