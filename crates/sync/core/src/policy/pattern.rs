//! Patterns of policies: texts with `*`, and paths whose parts are such texts.

use crate::path::CanonicalPath;

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
            |c, token| *token == Token::Char(*c),
        )
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

    /// Whether it speaks of a path; nothing if that hangs on what is not known.
    pub fn matches(&self, path: &CanonicalPath, filling: Filling<'_>) -> Option<bool> {
        let mut filled = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            filled.push(match part {
                Part::One(glob) => Part::One(glob.filled(filling)?),
                Part::Any => Part::Any,
            });
        }
        let authority: Vec<&str> = path.authority.iter().flat_map(|arn| arn.split(':')).collect();
        let same_authority = authority.len() == self.authority.len()
            && authority
                .iter()
                .zip(&self.authority)
                .all(|(word, glob)| glob.matches(word));
        let same_name = is_matched(
            &path.segments,
            &filled,
            |part| *part == Part::Any,
            |segment, part| matches!(part, Part::One(glob) if glob.matches(segment)),
        );
        Some(same_authority && same_name)
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
mod tests {
    use proptest::prelude::*;
    use regex::Regex;

    use super::*;

    const TEAM: Filling<'static> = Filling {
        namespace: "team",
        service_account: Some("web"),
    };

    fn speaks(pattern: &str, path: &str) -> bool {
        let pattern = PathPattern::parse(pattern).unwrap_or_else(|| panic!("{pattern}"));
        pattern
            .matches(&CanonicalPath::parse(path).unwrap(), TEAM)
            .unwrap()
    }

    #[test]
    fn parts_are_matched_one_by_one() {
        for (pattern, path, expected) in [
            ("a/b", "a/b", true),
            ("/a/b", "a/b", true),
            ("a/b", "/a/b", true),
            ("a/*", "a/b", true),
            ("a/*", "a/b/c", false),
            ("a/*", "a", false),
            ("a/**", "a/b/c", true),
            ("a/**", "a", true),
            ("**", "a/b", true),
            ("**/c", "a/b/c", true),
            ("a/**/c/*", "a/x/c/y/c/z", true),
            ("a/**/c", "a/x/c/y", false),
            ("{namespace}/{serviceAccount}-*", "team/web-1", true),
            ("{namespace}/*", "teams/x", false),
            ("x{namespace}y", "xteamy", true),
            ("a*c*e", "abcde", true),
            ("a*c*e", "abcdef", false),
        ] {
            assert_eq!(speaks(pattern, path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn another_account_is_reached_only_by_its_arn() {
        let arn = "arn:aws:secretsmanager:eu-west-1:123:secret:team/db-AbCdEf";
        assert!(speaks(
            "arn:aws:secretsmanager:eu-*:123:secret:{namespace}/db-*",
            arn
        ));
        assert!(speaks("arn:*:*:*:*:secret:**", arn));
        assert!(!speaks("arn:aws:secretsmanager:eu-west-1:124:secret:**", arn));
        assert!(!speaks("**", arn));
        assert!(!speaks("arn:*:*:*:*:secret:**", "team/db"));
    }

    #[test]
    fn what_could_never_match_is_no_pattern() {
        for bad in [
            "",
            "/",
            "a//b",
            "a/",
            "a/../b",
            "./a",
            "a**",
            "{pod}/a",
            "a}",
            "{",
            "arn:aws:x",
            "arn:a:b:c:d:key:x",
        ] {
            assert_eq!(PathPattern::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn without_the_account_nothing_is_said() {
        let pattern = PathPattern::parse("{serviceAccount}/*").unwrap();
        let nobody = Filling {
            service_account: None,
            ..TEAM
        };
        assert!(pattern.names_account());
        assert_eq!(
            pattern.matches(&CanonicalPath::parse("web/x").unwrap(), nobody),
            None
        );
    }

    proptest! {
        #[test]
        fn stars_mean_what_they_mean_to_a_regex(pattern in "[ab*]{0,12}", text in "[ab]{0,16}") {
            let regex = Regex::new(&format!("^{}$", pattern.replace('*', ".*"))).unwrap();
            prop_assert_eq!(Glob::new(&pattern).matches(&text), regex.is_match(&text));
        }

        #[test]
        fn paths_mean_what_they_mean_to_a_regex(
            pattern in "(a|b|\\*|\\*\\*|a\\*)(/(a|b|\\*|\\*\\*|a\\*)){0,5}",
            path in "[ab]{1,2}(/[ab]{1,2}){0,6}",
        ) {
            // Every part brings its slash along, so that any number of parts can be none.
            let parts = pattern.split('/').map(|part| match part {
                "**" => "([^/]+/)*".to_owned(),
                part => format!("{}/", part.replace('*', "[^/]*")),
            });
            let regex = Regex::new(&format!("^{}$", parts.collect::<String>())).unwrap();
            prop_assert_eq!(speaks(&pattern, &path), regex.is_match(&format!("{path}/")));
        }

        #[test]
        fn nothing_written_makes_it_fall_over(pattern in ".{0,40}", path in ".{0,40}") {
            if let (Some(pattern), Ok(path)) = (PathPattern::parse(&pattern), CanonicalPath::parse(&path)) {
                let _ = pattern.matches(&path, TEAM);
            }
        }
    }
}
