//! Labels: how an object says what it is.
//!
//! | label | object |
//! |---|---|
//! | `<path>/<key>` | the value of a key |
//! | `<path>` | the value of the key `data` |
//! | `<path>/_metadata` | the metadata of a secret |
//! | `.trustplane/journal/<mark>/<before>-<after>/_metadata` | the journal of a change of the path with this mark |
//! | `.trustplane/journal/<mark>/_metadata` | the same, of a change whose end its labels do not tell |
//! | `.trustplane/generation/_metadata` | the generation of the token |
//! | `.trustplane/husk/_metadata` | what is left of an object that could be destroyed only by half |
//!
//! Those with a dot are ours. No path begins with one, so they are in nobody's way, and the original passes over every label
//! that ends like theirs.

mod marks;

use std::fmt;

pub use marks::{LabelMark, LabelsMark, PathMark, Turn};

use crate::path::{KeyName, SecretPath};

/// How labels of metadata end.
const METADATA_SUFFIX: &str = "/_metadata";
/// How labels of journals begin.
const JOURNAL: &str = ".trustplane/journal/";
/// The label of the generation.
const GENERATION: &str = ".trustplane/generation/_metadata";
/// The label of a husk.
const HUSK: &str = ".trustplane/husk/_metadata";

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

    /// The label of a journal of one path.
    pub fn of_journal(mark: PathMark, turn: Option<Turn>) -> Self {
        let turn = turn.map_or(String::new(), |turn| format!("/{turn}"));
        Self::new(format!("{JOURNAL}{mark}{turn}{METADATA_SUFFIX}"))
    }

    /// The label of the generation.
    pub fn of_generation() -> Self {
        Self::new(GENERATION)
    }

    /// The label of what is left of an object that could be destroyed only by half: it says nothing of anybody.
    pub fn of_husk() -> Self {
        Self::new(HUSK)
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// How the labels of its path tell the end of a change, if this is a journal that says so.
    pub(crate) fn turn(&self) -> Option<Turn> {
        let text = std::str::from_utf8(&self.0).ok()?;
        journal(text.strip_suffix(METADATA_SUFFIX)?)?.1
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
        if let Some((mark, _)) = journal(front) {
            return Meaning::Journal(mark);
        }
        SecretPath::parse(front).map_or(Meaning::Foreign, Meaning::Metadata)
    }
}

/// What the label of a journal says, without its ending.
fn journal(front: &str) -> Option<(PathMark, Option<Turn>)> {
    let text = front.strip_prefix(JOURNAL)?;
    match text.split_once('/') {
        None => Some((PathMark::parse(text)?, None)),
        Some((mark, turn)) => Some((PathMark::parse(mark)?, Some(Turn::parse(turn)?))),
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
        let labels = [Label::new("db/k"), Label::of_metadata(&path("db"))];
        let turn = Turn {
            before: LabelsMark::of([].into_iter()),
            after: LabelsMark::of(labels.iter()),
        };
        let own = [
            Label::of_generation(),
            Label::of_journal(mark, None),
            Label::of_journal(mark, Some(turn)),
            Label::of_husk(),
        ];
        for own in own {
            let text = own.to_string();
            // So the original passes over them, whichever path it is asked for.
            assert!(
                text.starts_with(".trustplane/") && text.ends_with("/_metadata"),
                "{text}"
            );
            assert!(SecretPath::parse(text.trim_end_matches(METADATA_SUFFIX)).is_err());
        }
        assert_eq!(Label::of_generation().meaning(), Meaning::Generation);
        for turn in [None, Some(turn)] {
            let label = Label::of_journal(mark, turn);
            assert_eq!((label.meaning(), label.turn()), (Meaning::Journal(mark), turn));
            // No module that we know of cuts it.
            assert!(label.as_bytes().len() < 127, "{label}");
        }
        assert_eq!(Label::of_husk().meaning(), Meaning::Foreign);
        assert_ne!(mark, PathMark::of(&path("db2")));
        assert_eq!(LabelsMark::of(labels.iter().rev()), turn.after);
        let twice = labels.iter().chain(&labels[..1]);
        assert!(LabelsMark::of(twice) != turn.after && LabelsMark::of(labels[1..].iter()) != turn.after);
    }

    #[test]
    fn what_is_no_label_of_ours_or_the_originals_is_foreign() {
        let cases: [&[u8]; 12] = [
            b"\xff",
            b"/_metadata",
            b"my cert/_metadata",
            b".trustplane/_metadata",
            b".trustplane/later/_metadata",
            b".trustplane/journal/_metadata",
            b".trustplane/journal/0123/_metadata",
            b".trustplane/journal/0123456789ABCDEF/_metadata",
            b".trustplane/journal/+123456789abcdef/_metadata",
            b".trustplane/journal/0123456789abcdef/01234567/_metadata",
            b".trustplane/journal/0123456789abcdef/01234567-0123456/_metadata",
            b".trustplane/journal/0123456789abcdef/01234567-012345678/_metadata",
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
