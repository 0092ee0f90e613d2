//! Canonical paths: what policies are judged on. A path that could mean two things to two readers is refused before any
//! provider sees it.

/// Where a secret is, in a form in which equal places are equal texts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CanonicalPath {
    /// Beyond the store's own account and region: the first parts of an ARN, such as `arn:aws:secretsmanager:eu-west-1:123`.
    pub authority: Option<String>,
    /// The parts between slashes; never empty, no part of it empty.
    pub segments: Vec<String>,
}

/// Why a path is refused, in words that follow "path: ".
pub type Refusal = &'static str;

impl CanonicalPath {
    /// Reads a path. One slash at the beginning says nothing; everything else does.
    pub fn parse(path: &str) -> Result<Self, Refusal> {
        let (authority, name) = match path.strip_prefix("arn:") {
            None => (None, path),
            Some(arn) => {
                let parts: Vec<&str> = arn.splitn(6, ':').collect();
                let [partition, service, region, account, kind, name] = parts.as_slice() else {
                    return Err(
                        "must be a whole ARN: arn:partition:secretsmanager:region:account:secret:name",
                    );
                };
                let is_word = |word: &&&str| {
                    !word.is_empty()
                        && word
                            .chars()
                            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
                };
                if *service != "secretsmanager"
                    || *kind != "secret"
                    || ![partition, region, account].iter().all(is_word)
                {
                    return Err(
                        "must be a whole ARN: arn:partition:secretsmanager:region:account:secret:name",
                    );
                }
                (
                    Some(format!("arn:{partition}:{service}:{region}:{account}")),
                    *name,
                )
            }
        };
        let name = name.strip_prefix('/').unwrap_or(name);
        if name
            .chars()
            .any(|c| c.is_control() || matches!(c, '%' | '\\' | '\u{2028}' | '\u{2029}'))
        {
            return Err("must not hold control characters, '%' or '\\'");
        }
        let segments: Vec<String> = name.split('/').map(str::to_owned).collect();
        if segments.iter().any(String::is_empty) {
            return Err("must not hold '//' or end with '/'");
        }
        if segments.iter().any(|segment| segment == "." || segment == "..") {
            return Err("must not hold '.' or '..' as a part");
        }
        if segments.iter().any(|segment| segment.trim() != segment) {
            return Err("must not have spaces at the edge of a part");
        }
        Ok(Self { authority, segments })
    }

    /// What is allowed without any policy: the first of several segments is the namespace, in the store's own account.
    pub fn belongs_to(&self, namespace: &str) -> bool {
        self.authority.is_none()
            && self.segments.len() > 1
            && self.segments.first().is_some_and(|first| first == namespace)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn path(text: &str) -> CanonicalPath {
        CanonicalPath::parse(text).unwrap_or_else(|rule| panic!("{text}: {rule}"))
    }

    #[test]
    fn a_path_is_its_segments() {
        assert_eq!(path("/prod/db").segments, ["prod", "db"]);
        assert_eq!(path("prod/db"), path("/prod/db"));
        assert_eq!(path("flat").segments, ["flat"]);
        let arn = path("arn:aws:secretsmanager:eu-west-1:123456789012:secret:prod/db-AbCdEf");
        assert_eq!(
            arn.authority.as_deref(),
            Some("arn:aws:secretsmanager:eu-west-1:123456789012")
        );
        // The suffix stays: without it, one name could pass for another.
        assert_eq!(arn.segments, ["prod", "db-AbCdEf"]);
    }

    #[test]
    fn what_could_mean_two_things_is_refused() {
        let bad = [
            "",
            "/",
            "//a",
            "a//b",
            "a/",
            "a/../b",
            "..",
            "a/./b",
            "a/%2e%2e/b",
            "a%2fb",
            "a\\b",
            "a/ b",
            " a",
            "a\nb",
            "arn:aws:secretsmanager:eu-west-1:123",
            "arn:aws:ssm:eu-west-1:123:secret:a",
            "arn::secretsmanager:r:1:secret:a",
            "arn:aws:secretsmanager:R:1:secret:a",
            "arn:aws:secretsmanager:r:1:secret:../a",
            "arn:aws:secretsmanager:r:1:secret:",
        ];
        for text in bad {
            assert!(CanonicalPath::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn without_a_policy_only_ones_own_folder_is_open() {
        assert!(path("/team-a/db").belongs_to("team-a"));
        for other in [
            "team-b/db",
            "team-a",
            "team-a-x/db",
            "x/team-a/db",
            "arn:aws:secretsmanager:r:1:secret:team-a/db",
        ] {
            assert!(!path(other).belongs_to("team-a"), "{other}");
        }
    }

    proptest! {
        #[test]
        fn what_is_canonical_stays_so(text in "[a-c./% :]{0,20}") {
            if let Ok(path) = CanonicalPath::parse(&text) && path.authority.is_none() {
                prop_assert_eq!(CanonicalPath::parse(&path.segments.join("/")), Ok(path.clone()));
                prop_assert!(path.segments.iter().all(|s| !s.is_empty() && s != ".." && !s.contains(['/', '%'])));
            }
        }
    }
}
