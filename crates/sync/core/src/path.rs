//! Canonical paths: what policies are judged on. A path that could mean two things to two readers is refused before any
//! provider sees it.

use std::sync::Arc;

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

/// The provider whose paths may be ARNs.
pub const ARN_PROVIDER: &str = "aws-secretsmanager";

/// Where the plain names of a provider lie, as far as that is known. An ARN of that place is another spelling of a name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Home {
    /// The region.
    pub region: Option<Arc<str>>,
    /// The account.
    pub account: Option<Arc<str>>,
}

impl Home {
    /// Whether the first parts of an ARN name this place; nothing if too little is known.
    fn is_at(&self, authority: &str) -> Option<bool> {
        let mut words = authority.split(':').skip(3);
        let (region, account) = (words.next(), words.next());
        let same =
            |known: &Option<Arc<str>>, word: Option<&str>| known.as_deref().map(|known| Some(known) == word);
        match (same(&self.region, region), same(&self.account, account)) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (Some(true), Some(true)) => Some(true),
            _ => None,
        }
    }
}

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
    pub fn belongs_to(&self, namespace: &str, home: &Home) -> bool {
        self.is_at_home(home) == Some(true)
            && self.segments.len() > 1
            && self.segments.first().is_some_and(|first| first == namespace)
    }

    /// Whether it lies where plain names do; nothing if too little is known.
    pub fn is_at_home(&self, home: &Home) -> Option<bool> {
        match &self.authority {
            None => Some(true),
            Some(authority) => home.is_at(authority),
        }
    }

    /// The names that it may mean. The name in an ARN may end with six characters that AWS has added, or with six of its own:
    /// nobody can tell, so both names count.
    pub fn names(&self) -> Vec<Vec<String>> {
        let mut names = vec![self.segments.clone()];
        if self.authority.is_some()
            && let Some((last, folder)) = self.segments.split_last()
            && let Some(name) = without_suffix(last)
        {
            names.push(folder.iter().cloned().chain([name.to_owned()]).collect());
        }
        names
    }
}

/// The name before the hyphen and the six characters that AWS adds to it in an ARN.
fn without_suffix(name: &str) -> Option<&str> {
    let (name, suffix) = name.rsplit_once('-')?;
    let is_suffix = suffix.len() == 6 && suffix.bytes().all(|byte| byte.is_ascii_alphanumeric());
    (is_suffix && !name.is_empty()).then_some(name)
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
    fn arn_means_both_names_when_it_ends_like_a_suffix() {
        let names = |name: &str| path(&format!("arn:aws:secretsmanager:r:1:secret:{name}")).names();
        assert_eq!(names("a/db-AbCdEf"), [["a", "db-AbCdEf"], ["a", "db"]]);
        for plain in ["a/db", "a/db-AbCdE", "a/db-AbCdEfG", "a/db-AbCd_f", "a/-AbCdEf"] {
            assert_eq!(names(plain).len(), 1, "{plain}");
        }
        assert_eq!(path("a/db-AbCdEf").names().len(), 1, "a plain name is what it is");
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
        let nowhere = Home::default();
        assert!(path("/team-a/db").belongs_to("team-a", &nowhere));
        for other in [
            "team-b/db",
            "team-a",
            "team-a-x/db",
            "x/team-a/db",
            "arn:aws:secretsmanager:r:1:secret:team-a/db",
        ] {
            assert!(!path(other).belongs_to("team-a", &nowhere), "{other}");
        }
        // An ARN of the store's own account is a name, if region and account are known.
        let home = |region: &str, account: &str| Home {
            region: Some(region.into()),
            account: Some(account.into()),
        };
        let arn = path("arn:aws:secretsmanager:r:1:secret:team-a/db-AbCdEf");
        assert!(arn.belongs_to("team-a", &home("r", "1")));
        assert!(!arn.belongs_to("team-b", &home("r", "1")));
        assert!(!arn.belongs_to("team-a", &home("r", "2")));
        assert!(!arn.belongs_to("team-a", &home("s", "1")));
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
