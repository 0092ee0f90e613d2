//! Labels: how an object says what it is.
//!
//! | label | object |
//! |---|---|
//! | `<path>/<key>` | the value of a key |
//! | `<path>` | the value of the key `data` |
//! | `<path>/_metadata` | the metadata of a secret |
//! | `.trustplane/journal/<mark>/_metadata` | the journal of a change of the path with this mark |
//! | `.trustplane/generation/_metadata` | the generation of the token |
//!
//! The last two are ours. No path begins with a dot, so they are in nobody's way, and the original passes over every label that
//! ends like theirs.

use std::fmt;

use crate::checksum::{Framed, hex};
use crate::path::{KeyName, SecretPath};

/// How labels of metadata end.
const METADATA_SUFFIX: &str = "/_metadata";
/// How labels of journals begin.
const JOURNAL: &str = ".trustplane/journal/";
/// The label of the generation.
const GENERATION: &str = ".trustplane/generation/_metadata";

/// A label, as it is on the token. It need not be text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label(Box<[u8]>);

impl Label {
    /// A label that was found.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into().into())
    }

    /// The label of a value.
    pub fn of_key(path: &SecretPath, key: &KeyName) -> Self {
        match key.is_default() {
            true => Self::new(path.as_str()),
            false => Self::new(format!("{path}/{key}")),
        }
    }

    /// The label of a secret's metadata.
    pub fn of_metadata(path: &SecretPath) -> Self {
        Self::new(format!("{path}{METADATA_SUFFIX}"))
    }

    /// The label of the journals of one path.
    pub fn of_journal(mark: PathMark) -> Self {
        Self::new(format!("{JOURNAL}{mark}{METADATA_SUFFIX}"))
    }

    /// The label of the generation.
    pub fn of_generation() -> Self {
        Self::new(GENERATION)
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// What the label says by itself.
    pub(crate) fn meaning(&self) -> Meaning<'_> {
        let Ok(text) = std::str::from_utf8(&self.0) else {
            return Meaning::Foreign;
        };
        if text == GENERATION {
            return Meaning::Generation;
        }
        let Some(front) = text.strip_suffix(METADATA_SUFFIX) else {
            return Meaning::Value(text);
        };
        if let Some(mark) = front.strip_prefix(JOURNAL).and_then(PathMark::parse) {
            return Meaning::Journal(mark);
        }
        SecretPath::parse(front).map_or(Meaning::Foreign, Meaning::Metadata)
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

impl fmt::Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Label({self})")
    }
}

/// What a label says by itself.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Meaning<'a> {
    /// A value; whose it is depends on its neighbours.
    Value(&'a str),
    /// The metadata of a path.
    Metadata(SecretPath),
    /// A journal of the path with this mark.
    Journal(PathMark),
    /// The generation.
    Generation,
    /// Nothing that a secret can have.
    Foreign,
}

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
    fn parse(text: &str) -> Option<Self> {
        let number = u64::from_str_radix(text, 16).ok()?;
        let mark = Self(number.to_be_bytes());
        (mark.to_string() == text).then_some(mark)
    }
}

impl fmt::Display for PathMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> SecretPath {
        SecretPath::parse(text).unwrap()
    }

    #[test]
    fn labels_are_those_of_the_original() {
        let label = |path_text: &str, key: &str| {
            Label::of_key(&path(path_text), &KeyName::parse(key).unwrap()).to_string()
        };
        assert_eq!(label("db", "password"), "db/password");
        assert_eq!(label("db", "data"), "db");
        assert_eq!(label("a/b", "c"), "a/b/c");
        assert_eq!(Label::of_metadata(&path("a/b")).to_string(), "a/b/_metadata");
    }

    #[test]
    fn our_own_labels_are_in_nobodys_way() {
        let mark = PathMark::of(&path("db"));
        for own in [Label::of_generation(), Label::of_journal(mark)] {
            let text = own.to_string();
            // So the original passes over them, whichever path it is asked for.
            assert!(
                text.starts_with(".trustplane/") && text.ends_with("/_metadata"),
                "{text}"
            );
            assert!(SecretPath::parse(text.trim_end_matches(METADATA_SUFFIX)).is_err());
        }
        assert_eq!(Label::of_generation().meaning(), Meaning::Generation);
        assert_eq!(Label::of_journal(mark).meaning(), Meaning::Journal(mark));
        assert_ne!(mark, PathMark::of(&path("db2")));
    }

    #[test]
    fn what_is_no_label_of_ours_or_the_originals_is_foreign() {
        let cases: [&[u8]; 9] = [
            b"\xff",
            b"/_metadata",
            b"my cert/_metadata",
            b".trustplane/_metadata",
            b".trustplane/later/_metadata",
            b".trustplane/journal/_metadata",
            b".trustplane/journal/0123/_metadata",
            b".trustplane/journal/0123456789ABCDEF/_metadata",
            b".trustplane/journal/+123456789abcdef/_metadata",
        ];
        for foreign in cases {
            assert_eq!(
                Label::new(foreign).meaning(),
                Meaning::Foreign,
                "{}",
                foreign.escape_ascii()
            );
        }
        assert_eq!(Label::new("_metadata").meaning(), Meaning::Value("_metadata"));
        assert_eq!(
            format!("{:?}", Label::new(b"a\n\xff".as_slice())),
            r"Label(a\n\xff)"
        );
    }
}
