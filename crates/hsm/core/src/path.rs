//! Names of secrets and of their keys. Whatever passes here has one place on a token, and is nobody else's place.

use std::borrow::Borrow;
use std::fmt;

/// The longest path, in bytes.
pub const LONGEST_PATH: usize = 256;
/// The longest name of a key, in bytes.
pub const LONGEST_KEY: usize = 253;
/// The key whose label is the path itself.
pub const DEFAULT_KEY: &str = "data";
/// What no path may end with and no key may be: it marks objects that hold no value.
pub const METADATA: &str = "_metadata";

/// Why a path is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("path: {0}")]
pub struct PathError(&'static str);

/// Why the name of a key is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("key: {0}")]
pub struct KeyError(&'static str);

/// Where a secret is.
///
/// The rule is that of the original's agent, with dots allowed inside, because a resource may have them in its name. No part
/// begins with a dot: what does is our own.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SecretPath(Box<str>);

impl SecretPath {
    /// Reads a path.
    pub fn parse(path: &str) -> Result<Self, PathError> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | '-' | '.');
        if path.is_empty() || path.len() > LONGEST_PATH {
            return Err(PathError("must have 1 to 256 characters"));
        }
        if !path.chars().all(allowed) {
            return Err(PathError(
                "must be of letters, digits, '/', '_', '-' and '.' only",
            ));
        }
        if path.split('/').any(str::is_empty) {
            return Err(PathError("must not begin or end with '/' or hold '//'"));
        }
        if path.contains("..") || path.split('/').any(|part| part.starts_with('.')) {
            return Err(PathError(
                "must not hold '..' or have a part that begins with '.'",
            ));
        }
        if path.ends_with(METADATA) || path.split('/').any(|part| part == METADATA) {
            return Err(PathError("must not end with '_metadata' or have it as a part"));
        }
        Ok(Self(path.into()))
    }

    /// The path.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The path above, if there is one, and the last part.
    pub fn parent(&self) -> Option<(&str, &str)> {
        self.0.rsplit_once('/')
    }
}

/// Paths are equal and in order as their texts are.
impl Borrow<str> for SecretPath {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SecretPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The name of one value of a secret: what a Kubernetes Secret takes as a key, and not the name of the metadata.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyName(Box<str>);

impl KeyName {
    /// Reads a name.
    pub fn parse(key: &str) -> Result<Self, KeyError> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if key.is_empty() || key.len() > LONGEST_KEY {
            return Err(KeyError("must have 1 to 253 characters"));
        }
        if !key.chars().all(allowed) {
            return Err(KeyError("must be of letters, digits, '-', '_' and '.' only"));
        }
        if key == "." || key.starts_with("..") {
            return Err(KeyError("must not be '.' or begin with '..'"));
        }
        if key == METADATA {
            return Err(KeyError("must not be '_metadata'"));
        }
        Ok(Self(key.into()))
    }

    /// The key whose label is the path itself.
    pub fn data() -> Self {
        Self(DEFAULT_KEY.into())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is the key whose label is the path itself.
    pub fn is_default(&self) -> bool {
        &*self.0 == DEFAULT_KEY
    }
}

impl fmt::Display for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_the_original_and_may_hold_dots() {
        let longest = "a".repeat(256);
        for good in [
            "a",
            "db-prod",
            "a.b",
            "a/b/c",
            "A_b-9",
            "secrets/default/test-secret",
            "_",
            "a_metadata/b",
            "a/b.c",
            &longest,
        ] {
            assert_eq!(
                SecretPath::parse(good).map(|path| path.to_string()),
                Ok(good.to_owned())
            );
        }
    }

    #[test]
    fn a_path_that_could_be_another_place_is_refused() {
        let too_long = "a".repeat(257);
        for bad in [
            "",
            "/",
            "/a",
            "a/",
            "a//b",
            "..",
            "a..b",
            "a/../b",
            ".",
            ".a",
            "a/.b",
            "a/./b",
            ".trustplane",
            "a b",
            "ä",
            "a\n",
            "a\0",
            "a%2fb",
            "a\\b",
            "_metadata",
            "a/_metadata",
            "my_metadata",
            "a/_metadata/b",
            &too_long,
        ] {
            assert!(SecretPath::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn keys_are_what_a_secret_takes_but_for_the_metadata() {
        for good in [
            "a",
            "data",
            "tls.crt",
            ".env",
            ".dockerconfigjson",
            "a..b",
            "-",
            "_",
            "my_metadata",
        ] {
            assert!(KeyName::parse(good).is_ok(), "{good}");
        }
        let too_long = "a".repeat(254);
        for bad in [
            "",
            ".",
            "..",
            "..a",
            "a b",
            "a/b",
            "/",
            "ä",
            "a\n",
            "_metadata",
            &too_long,
        ] {
            assert!(KeyName::parse(bad).is_err(), "{bad:?}");
        }
    }
}
