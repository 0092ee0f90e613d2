//! Patterns for device files: what an HSMDevice may say, and what a node understands, are one grammar.

/// The most steps of a pattern.
const DEEPEST: usize = 16;
/// The most bytes of a pattern.
const LONGEST: usize = 256;

/// A path below `/dev` in which `*` stands for any characters of a step, `?` for one, and `[a-z]` or `[!a-z]` for one of some.
///
/// ```
/// use trustplane_hsm_core::usb::Pattern;
///
/// let pattern = Pattern::parse("/dev/tty[AU]*").unwrap();
/// assert!(pattern.steps()[0].matches("ttyACM0"));
/// assert!(Pattern::parse("/dev/tty[").is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    steps: Vec<PatternStep>,
}

/// What stands between two slashes of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatternStep(Vec<Part>);

/// A text that is no pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// It is elsewhere.
    #[error("must be a path below /dev")]
    Elsewhere,
    /// It has steps that lead nowhere.
    #[error("must have 1 to 16 steps below /dev, none of them empty, `.` or `..`")]
    Steps,
    /// A bracket is not closed.
    #[error("must close each bracket in its step")]
    Bracket,
    /// It is longer than any path of a device, or has characters that no path of a device has.
    #[error("must have at most 256 bytes, and no control characters")]
    Text,
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

impl Pattern {
    /// Reads a pattern.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        if text.len() > LONGEST || text.chars().any(char::is_control) {
            return Err(PatternError::Text);
        }
        let below = text.strip_prefix("/dev/").ok_or(PatternError::Elsewhere)?;
        let steps: Vec<_> = below.split('/').collect();
        if steps.len() > DEEPEST || steps.iter().any(|step| ["", ".", ".."].contains(step)) {
            return Err(PatternError::Steps);
        }
        let steps = steps.into_iter().map(PatternStep::parse).collect::<Option<_>>();
        Ok(Self {
            text: text.to_owned(),
            steps: steps.ok_or(PatternError::Bracket)?,
        })
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Its steps below `/dev`.
    pub fn steps(&self) -> &[PatternStep] {
        &self.steps
    }
}

impl PatternStep {
    fn parse(step: &str) -> Option<Self> {
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
        Some(Self(parts))
    }

    /// Whether a name matches, in a time that no pattern can blow up: of several `*` only the last has to be tried again.
    pub fn matches(&self, name: &str) -> bool {
        let (step, name) = (&self.0, name.chars().collect::<Vec<_>>());
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

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, name: &str) -> bool {
        PatternStep::parse(pattern).unwrap().matches(name)
    }

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
            assert_eq!(matches(pattern, name), matched, "{pattern} {name}");
        }
    }

    #[test]
    fn no_pattern_takes_long() {
        let pattern = "*a".repeat(100);
        assert!(!matches(&pattern, &"a".repeat(99)));
        assert!(matches(&pattern, &"a".repeat(5000)));
    }

    #[test]
    fn a_pattern_stays_below_dev() {
        let deep = format!("/dev{}", "/a".repeat(DEEPEST + 1));
        let long = format!("/dev/{}", "a".repeat(LONGEST));
        for (text, wrong) in [
            ("", PatternError::Elsewhere),
            ("tty*", PatternError::Elsewhere),
            ("/dev", PatternError::Elsewhere),
            ("/etc/passwd", PatternError::Elsewhere),
            ("/host/dev/tty*", PatternError::Elsewhere),
            ("/dev/", PatternError::Steps),
            ("/dev/../etc/*", PatternError::Steps),
            ("/dev/./x", PatternError::Steps),
            ("/dev//x", PatternError::Steps),
            ("/dev/x/", PatternError::Steps),
            (deep.as_str(), PatternError::Steps),
            ("/dev/[x", PatternError::Bracket),
            ("/dev/[a/b]", PatternError::Bracket),
            ("/dev/a\nb", PatternError::Text),
            (long.as_str(), PatternError::Text),
        ] {
            assert_eq!(Pattern::parse(text), Err(wrong), "{text}");
        }
        assert!(Pattern::parse(&deep[..deep.len() - 2]).is_ok());
    }
}
