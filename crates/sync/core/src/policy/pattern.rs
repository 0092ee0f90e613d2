//! Patterns of policies: texts with `*`, and paths whose parts are such texts.

use crate::path::{CanonicalPath, Home};

/// Stands for any of the characters that AWS adds to a name in an ARN. No path and no pattern can hold it.
const ANY: char = '\0';

/// A text with `*` for any run of characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Glob(Vec<Token>);

/// A path pattern: `*` stays within a part, `**` is a part of its own and stands for any number of parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PathPattern {
    /// The parts of an ARN before the name; a pattern without them speaks of the store's own account only.
    authority: Vec<Glob>,
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    One(Glob),
    Any,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    Char(char),
    Star,
    Namespace,
    ServiceAccount,
}

/// What placeholders stand for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Filling<'a> {
    pub namespace: &'a str,
    /// Not known if nobody has looked.
    pub service_account: Option<&'a str>,
}

impl Glob {
    /// A pattern without placeholders.
    pub fn new(text: &str) -> Self {
        let token = |c| if c == '*' { Token::Star } else { Token::Char(c) };
        Self(text.chars().map(token).collect())
    }

    /// A pattern with placeholders; nothing if a brace is neither.
    fn with_placeholders(mut text: &str) -> Option<Self> {
        let mut tokens = Vec::new();
        while let Some(c) = text.chars().next() {
            let (token, length) = match c {
                '*' => (Token::Star, 1),
                '{' if text.starts_with("{namespace}") => (Token::Namespace, "{namespace}".len()),
                '{' if text.starts_with("{serviceAccount}") => {
                    (Token::ServiceAccount, "{serviceAccount}".len())
                }
                '{' | '}' => return None,
                other => (Token::Char(other), other.len_utf8()),
            };
            tokens.push(token);
            text = text.get(length..).unwrap_or_default();
        }
        Some(Self(tokens))
    }

    /// Whether it is about the whole of a text.
    pub fn matches(&self, text: &str) -> bool {
        is_matched(
            &text.chars().collect::<Vec<_>>(),
            &self.0,
            |token| *token == Token::Star,
            |c, token| match token {
                Token::Char(other) => c == other || (*c == ANY && other.is_ascii_alphanumeric()),
                _ => false,
            },
        )
    }

    /// Whether it is about every text.
    pub fn is_everything(&self) -> bool {
        !self.0.is_empty() && self.0.iter().all(|token| *token == Token::Star)
    }

    /// The same without placeholders; nothing if one of them is not known.
    fn filled(&self, filling: Filling<'_>) -> Option<Self> {
        let mut filled = Vec::with_capacity(self.0.len());
        for token in &self.0 {
            match token {
                Token::Namespace => filled.extend(filling.namespace.chars().map(Token::Char)),
                Token::ServiceAccount => filled.extend(filling.service_account?.chars().map(Token::Char)),
                other => filled.push(*other),
            }
        }
        Some(Self(filled))
    }
}

impl PathPattern {
    /// Reads a pattern; nothing if it could never match, or could mean two things.
    pub fn parse(text: &str) -> Option<Self> {
        let (authority, name) = match text.strip_prefix("arn:") {
            None => (Vec::new(), text),
            Some(arn) => {
                let parts: Vec<&str> = arn.splitn(6, ':').collect();
                let [partition, service, region, account, "secret", name] = parts.as_slice() else {
                    return None;
                };
                let words = ["arn", partition, service, region, account];
                (words.into_iter().map(Glob::new).collect(), *name)
            }
        };
        let name = name.strip_prefix('/').unwrap_or(name);
        let part = |part: &str| match part {
            "" | "." | ".." => None,
            "**" => Some(Part::Any),
            other if other.contains("**") => None,
            other => Glob::with_placeholders(other).map(Part::One),
        };
        let parts = name.split('/').map(part).collect::<Option<_>>()?;
        Some(Self { authority, parts })
    }

    /// Whether it speaks of a path, by the one spelling that the path has; nothing if that hangs on what is not known. An
    /// ARN of the store's own account is also its name, but only if every name that it may mean is meant.
    pub fn covers(&self, path: &CanonicalPath, home: &Home, filling: Filling<'_>) -> Option<bool> {
        let parts = self.filled(filling)?;
        let as_name = || {
            self.authority.is_empty()
                && path.is_at_home(home) == Some(true)
                && path.names().iter().all(|name| fits(name, &parts))
        };
        Some(self.is_spelled(path, &parts) || as_name())
    }

    /// Whether it speaks of a path by any spelling that the path may have: an ARN may be that of a name, and a name may have
    /// that ARN, unless the store's own place is known to be another one.
    pub fn may_cover(&self, path: &CanonicalPath, home: &Home, filling: Filling<'_>) -> Option<bool> {
        let parts = self.filled(filling)?;
        let as_name = || path.names().iter().any(|name| fits(name, &parts));
        let as_arn = || {
            let mut names = path.names().into_iter();
            names.any(|name| fits(&name, &parts) || fits(&in_arn(name), &parts))
        };
        let other_spelling = match (&path.authority, self.authority.is_empty()) {
            (None, true) => false,
            (Some(_), true) => path.is_at_home(home) != Some(false) && as_name(),
            (None, false) => self.may_be_at(home) && as_arn(),
            (Some(authority), false) => self.has_authority(authority) && as_arn(),
        };
        Some(self.is_spelled(path, &parts) || other_spelling)
    }

    fn is_spelled(&self, path: &CanonicalPath, parts: &[Part]) -> bool {
        let same_authority = match &path.authority {
            None => self.authority.is_empty(),
            Some(authority) => self.has_authority(authority),
        };
        same_authority && fits(&path.segments, parts)
    }

    fn has_authority(&self, authority: &str) -> bool {
        let words: Vec<&str> = authority.split(':').collect();
        words.len() == self.authority.len()
            && words
                .iter()
                .zip(&self.authority)
                .all(|(word, glob)| glob.matches(word))
    }

    /// Whether its ARNs can be those of plain names.
    fn may_be_at(&self, home: &Home) -> bool {
        let [_, _, service, region, account] = self.authority.as_slice() else {
            return false;
        };
        let agrees = |glob: &Glob, known: Option<&str>| known.is_none_or(|known| glob.matches(known));
        service.matches("secretsmanager")
            && agrees(region, home.region.as_deref())
            && agrees(account, home.account.as_deref())
    }

    fn filled(&self, filling: Filling<'_>) -> Option<Vec<Part>> {
        let fill = |part: &Part| match part {
            Part::One(glob) => glob.filled(filling).map(Part::One),
            Part::Any => Some(Part::Any),
        };
        self.parts.iter().map(fill).collect()
    }

    /// Whether it asks for the pod's service account.
    pub fn names_account(&self) -> bool {
        let parts = self.parts.iter();
        parts
            .filter_map(|part| match part {
                Part::One(glob) => Some(glob),
                Part::Any => None,
            })
            .any(|glob| glob.0.contains(&Token::ServiceAccount))
    }
}

fn fits(name: &[String], parts: &[Part]) -> bool {
    is_matched(
        name,
        parts,
        |part| *part == Part::Any,
        |segment, part| matches!(part, Part::One(glob) if glob.matches(segment)),
    )
}

/// A name as it stands in an ARN, with any suffix.
fn in_arn(mut name: Vec<String>) -> Vec<String> {
    if let Some(last) = name.last_mut() {
        last.push('-');
        last.extend([ANY; 6]);
    }
    name
}

/// Whether a pattern fits the whole of a sequence. Only the last star ever has to take more, so that the time is at most the
/// product of both lengths.
fn is_matched<T, P>(
    items: &[T],
    pattern: &[P],
    is_star: impl Fn(&P) -> bool,
    fits: impl Fn(&T, &P) -> bool,
) -> bool {
    let (mut item, mut at) = (0, 0);
    let mut last_star: Option<(usize, usize)> = None;
    while let Some(current) = items.get(item) {
        match (pattern.get(at), last_star) {
            (Some(star), _) if is_star(star) => {
                last_star = Some((at, item));
                at += 1;
            }
            (Some(one), _) if fits(current, one) => {
                item += 1;
                at += 1;
            }
            (_, Some((star, taken))) => {
                last_star = Some((star, taken + 1));
                item = taken + 1;
                at = star + 1;
            }
            (_, None) => return false,
        }
    }
    pattern.get(at..).unwrap_or_default().iter().all(is_star)
}

#[cfg(test)]
mod tests;
