//! Patterns for the keys of a secret.

use std::fmt;
use std::sync::Arc;

use regex::{Regex, RegexBuilder};
use serde::{Serialize, Serializer};

/// The most memory that a compiled pattern may need, in bytes.
pub const PATTERN_SIZE: usize = 64 * 1024;
/// What the programs of most patterns need at the most. A pattern counts as this or as [`PATTERN_SIZE`].
const USUAL_SIZE: usize = 8 * 1024;
/// What a pattern needs beside its program: to search for literals, and for matches. Measured, not promised by the library.
const OVERHEAD: usize = 12 * 1024;
/// The longest pattern, in bytes: to read it takes many times its size.
const LONGEST_PATTERN: usize = 512;
/// The most memory that the search for a match may keep for the next one. A pattern that needs more is searched more slowly.
const SEARCH_SIZE: usize = 16 * 1024;
/// The longest name that a pattern may make of a key: far longer than a Secret takes, and no more.
const LONGEST_NAME: usize = 1024;

/// A regular expression that must match a whole key.
///
/// It is compiled once, when the annotation is read. A clone shares the program.
#[derive(Clone)]
pub struct KeyPattern(Arc<Compiled>);

struct Compiled {
    text: Box<str>,
    whole: Regex,
    size: usize,
}

impl KeyPattern {
    /// Compiles a pattern; `None` if it is no regular expression, is too long, or needs too much memory.
    pub fn compile(text: &str) -> Option<Self> {
        if text.len() > LONGEST_PATTERN {
            return None;
        }
        // What is no pattern by itself must not become one between the anchors, such as `a)|(b`.
        build(text, PATTERN_SIZE)?;
        let anchored = format!("^(?:{text})$");
        let sizes = [USUAL_SIZE, PATTERN_SIZE].into_iter();
        let (whole, size) = sizes
            .filter_map(|size| Some((build(&anchored, size)?, size)))
            .next()?;
        let text = text.into();
        Some(Self(Arc::new(Compiled { text, whole, size })))
    }

    /// How many bytes of memory the pattern counts as.
    pub fn size(&self) -> usize {
        self.0.size + OVERHEAD
    }

    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.0.text
    }

    /// Whether it matches the whole key.
    pub fn matches(&self, key: &str) -> bool {
        self.0.whole.is_match(key)
    }

    /// The name that a key gets which it matches, with the groups of the pattern in `target`; `None` if that is far too long.
    pub fn rename(&self, key: &str, target: &str) -> Option<String> {
        let groups = target.matches('$').count();
        let longest = groups.saturating_mul(key.len()).saturating_add(target.len());
        // A group may be much shorter than the key, so this is only about keys that are too long to be tried.
        (longest <= LONGEST_NAME * 64)
            .then(|| self.0.whole.replace(key, target).into_owned())
            .filter(|name| name.len() <= LONGEST_NAME)
    }
}

fn build(pattern: &str, size: usize) -> Option<Regex> {
    RegexBuilder::new(pattern)
        .size_limit(size)
        .dfa_size_limit(SEARCH_SIZE)
        .build()
        .ok()
}

impl PartialEq for KeyPattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.text == other.0.text
    }
}

impl Eq for KeyPattern {}

impl fmt::Debug for KeyPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0.text, f)
    }
}

impl Serialize for KeyPattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pattern_matches_the_whole_key_only() {
        let pattern = KeyPattern::compile("DB_(USER|X)").unwrap();
        assert!(pattern.matches("DB_USER") && !pattern.matches("DB_USER2") && !pattern.matches("A_DB_USER"));
        assert_eq!(pattern.rename("DB_USER", "db.$1").as_deref(), Some("db.USER"));
        for bad in ["a)|(b", "(", "(?x)a # b", "(a{1000}){1000}"] {
            assert!(KeyPattern::compile(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn pattern_that_is_too_long_is_refused() {
        assert!(KeyPattern::compile(&"a".repeat(LONGEST_PATTERN)).is_some());
        assert!(KeyPattern::compile(&"a".repeat(LONGEST_PATTERN + 1)).is_none());
    }

    #[test]
    fn rename_makes_no_name_without_bound() {
        let pattern = KeyPattern::compile("(.*)").unwrap();
        assert_eq!(pattern.rename(&"k".repeat(1 << 20), &"$1".repeat(4096)), None);
        assert_eq!(pattern.rename(&"k".repeat(600), "$1$1"), None);
        assert_eq!(pattern.rename("k", "$1$1").as_deref(), Some("kk"));
    }

    #[test]
    fn pattern_with_unicode_classes_fits_its_memory() {
        for good in [r"\w+", "(?i)db_.*", r"\p{L}*"] {
            assert!(KeyPattern::compile(good).is_some(), "{good}");
        }
    }
}
