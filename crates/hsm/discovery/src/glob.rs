//! Patterns for device files.

use std::path::{Path, PathBuf};

use crate::files::Root;

/// The most files that one pattern finds.
const MOST: usize = 1024;
/// The most steps of a pattern.
const DEEPEST: usize = 16;

/// A path below `/dev` in which `*` stands for any characters of a step, `?` for one, and `[a-z]` or `[!a-z]` for one of some.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    steps: Vec<Vec<Part>>,
}

/// A text that is no pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// It is elsewhere.
    #[error("`{0}` is not a path below /dev")]
    Elsewhere(String),
    /// It has steps that lead nowhere.
    #[error("`{0}` has an empty step, or `.` or `..` as a step, or too many steps")]
    Steps(String),
    /// A bracket is not closed.
    #[error("`{0}` has a bracket that is not closed")]
    Bracket(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Any,
    One,
    This(char),
    Of { ranges: Vec<(char, char)>, not: bool },
}

impl Part {
    fn takes(&self, c: char) -> bool {
        match self {
            Self::Any | Self::One => true,
            Self::This(this) => *this == c,
            Self::Of { ranges, not } => ranges.iter().any(|(from, to)| (*from..=*to).contains(&c)) != *not,
        }
    }
}

/// A file that matches.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Match {
    /// As it was found, below `/dev`.
    pub(crate) path: PathBuf,
    /// Where that leads to, below `/dev`.
    pub(crate) node: PathBuf,
}

impl Pattern {
    /// Reads a pattern.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let below = text.strip_prefix("/host").unwrap_or(text).strip_prefix("/dev/");
        let below = below.ok_or_else(|| PatternError::Elsewhere(text.to_owned()))?;
        let steps: Vec<_> = below.split('/').collect();
        if steps.len() > DEEPEST || steps.iter().any(|step| ["", ".", ".."].contains(step)) {
            return Err(PatternError::Steps(text.to_owned()));
        }
        let steps = steps.into_iter().map(parts).collect::<Option<_>>();
        Ok(Self {
            text: text.to_owned(),
            steps: steps.ok_or_else(|| PatternError::Bracket(text.to_owned()))?,
        })
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// All device files that match, and nothing that leads out of the directory.
    pub(crate) fn find(&self, dev: &Root) -> std::io::Result<Vec<Match>> {
        let mut paths = vec![PathBuf::new()];
        for step in &self.steps {
            let mut next = Vec::new();
            for path in paths {
                if !path.as_os_str().is_empty() && !dev.is_dir(&path) {
                    continue;
                }
                let names = dev.names(&path)?;
                let names = names.iter().filter(|name| matches(step, name));
                next.extend(names.map(|name| path.join(name)).take(MOST - next.len()));
            }
            paths = next;
        }
        let found = paths.into_iter().filter_map(|path| {
            let node = dev.real(&path)?;
            dev.place(&node)?.is_node.then_some(Match { path, node })
        });
        Ok(found.collect())
    }
}

/// A path below the directory of device files, as the node names it.
pub(crate) fn named(path: &Path) -> String {
    format!("/dev/{}", path.display())
}

fn parts(step: &str) -> Option<Vec<Part>> {
    let mut parts = Vec::new();
    let mut rest = step.chars();
    while let Some(c) = rest.next() {
        parts.push(match c {
            '*' => Part::Any,
            '?' => Part::One,
            '[' => {
                let (inside, after) = rest.as_str().split_once(']')?;
                rest = after.chars();
                one_of(inside)
            }
            c => Part::This(c),
        });
    }
    Some(parts)
}

fn one_of(inside: &str) -> Part {
    let negated = inside.strip_prefix('!').or_else(|| inside.strip_prefix('^'));
    let mut ranges = Vec::new();
    let mut rest = negated.unwrap_or(inside).chars();
    while let Some(from) = rest.next() {
        let mut ahead = rest.clone();
        let to = match (ahead.next(), ahead.next()) {
            (Some('-'), Some(to)) => {
                rest = ahead;
                to
            }
            _ => from,
        };
        ranges.push((from, to));
    }
    Part::Of {
        ranges,
        not: negated.is_some(),
    }
}

/// Whether a name matches, in a time that no pattern can blow up: of several `*` only the last has to be tried again.
fn matches(step: &[Part], name: &str) -> bool {
    let name: Vec<char> = name.chars().collect();
    let (mut at, mut seen) = (0, 0);
    let mut again: Option<(usize, usize)> = None;
    while seen < name.len() {
        match step.get(at) {
            Some(Part::Any) => {
                again = Some((at, seen));
                at += 1;
            }
            Some(part) if part.takes(name[seen]) => {
                at += 1;
                seen += 1;
            }
            _ => match again {
                Some((star, from)) => {
                    again = Some((star, from + 1));
                    at = star + 1;
                    seen = from + 1;
                }
                None => return false,
            },
        }
    }
    step[at..].iter().all(|part| *part == Part::Any)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn names_match_as_the_table_says() {
        for (pattern, name, matched) in [
            ("ttyACM*", "ttyACM0", true),
            ("ttyACM*", "ttyACM", true),
            ("ttyACM*", "ttyUSB0", false),
            ("tty?CM0", "ttyACM0", true),
            ("ttyACM[0-3]", "ttyACM3", true),
            ("ttyACM[0-3]", "ttyACM4", false),
            ("ttyACM[!0-3]", "ttyACM4", true),
            ("ttyACM[abc-]", "ttyACM-", true),
            ("*a*b*c", "xxaxxbxxc", true),
            ("*a*b*c", "xxaxxbxx", false),
            ("*", "", true),
            ("", "a", false),
            ("a", "ab", false),
        ] {
            let parts = parts(pattern).unwrap();
            assert_eq!(matches(&parts, name), matched, "{pattern} {name}");
        }
    }

    #[test]
    fn no_pattern_takes_long() {
        let parts = parts(&"*a".repeat(100)).unwrap();
        assert!(!matches(&parts, &"a".repeat(99)));
        assert!(matches(&parts, &"a".repeat(5000)));
    }

    #[test]
    fn a_pattern_stays_below_dev() {
        let wrong = [
            "",
            "tty*",
            "/dev",
            "/dev/",
            "/etc/passwd",
            "/dev/../etc/*",
            "/dev/./x",
            "/dev//x",
            "/dev/[x",
        ];
        for text in wrong {
            assert!(Pattern::parse(text).is_err(), "{text}");
        }
        assert!(Pattern::parse("/host/dev/ttyACM*").is_ok());
    }

    #[test]
    fn files_are_found_below_the_directory_and_nowhere_else() {
        let dir = tempfile::tempdir().unwrap();
        let dev = dir.path().join("dev");
        fs::create_dir_all(dev.join("serial/by-id")).unwrap();
        fs::create_dir(dev.join("ttyACM-directory")).unwrap();
        for name in ["dev/ttyACM0", "dev/ttyACM1", "dev/other", "outside"] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        symlink("../../ttyACM1", dev.join("serial/by-id/usb-1")).unwrap();
        symlink("../outside", dev.join("ttyACM-out")).unwrap();
        symlink("../..", dev.join("serial/up")).unwrap();
        let root = Root::open(&dev).unwrap();
        let find = |text: &str| {
            let found = Pattern::parse(text).unwrap().find(&root).unwrap();
            let told = found.into_iter().map(|m| (named(&m.path), named(&m.node)));
            told.collect::<Vec<_>>()
        };
        let pair = |path: &str, node: &str| (path.to_owned(), node.to_owned());
        assert_eq!(
            find("/dev/ttyACM*"),
            [
                pair("/dev/ttyACM0", "/dev/ttyACM0"),
                pair("/dev/ttyACM1", "/dev/ttyACM1")
            ]
        );
        assert_eq!(
            find("/dev/serial/by-id/*"),
            [pair("/dev/serial/by-id/usb-1", "/dev/ttyACM1")]
        );
        assert_eq!(find("/dev/serial/up/*"), []);
        assert_eq!(find("/dev/absent/*"), []);
    }
}
