//! Names that the API server takes.

use std::fmt;

/// The rule for names of Secrets, for messages.
pub const SUBDOMAIN_RULE: &str = "must be a DNS-1123 subdomain: at most 253 characters, lower-case letters, digits, '-' and '.', \
                                  each part beginning and ending with a letter or digit";
/// The rule for keys of a Secret, for messages.
pub const KEY_RULE: &str =
    "must be at most 253 letters, digits, '-', '_' and '.', and must not be '.' or begin with '..'";

/// The name of a Secret: a DNS-1123 subdomain.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SecretName(Box<str>);

impl SecretName {
    /// Takes a name that the API server would take.
    pub fn parse(name: &str) -> Option<Self> {
        let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let part = |part: &str| part.starts_with(edge) && part.ends_with(edge);
        let allowed = |c: char| edge(c) || matches!(c, '-' | '.');
        (name.len() <= 253 && name.split('.').all(part) && name.chars().all(allowed))
            .then(|| Self(name.into()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SecretName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether a Secret can have this key.
pub fn is_data_key(key: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !key.is_empty() && key.len() <= 253 && key != "." && !key.starts_with("..") && key.chars().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_the_api_server_takes() {
        let longest = "a".repeat(253);
        for good in ["a", "app-credentials", "a.b-c.d0", "0", &longest] {
            assert!(SecretName::parse(good).is_some(), "{good}");
        }
        let too_long = "a".repeat(254);
        for bad in [
            "", "A", "a_b", "-a", "a-", ".a", "a.", "a..b", "a.-b", "ä", "a/b", "a b", "a\n", &too_long,
        ] {
            assert!(SecretName::parse(bad).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn keys_are_what_the_api_server_takes() {
        for good in ["a", "A_b-c.9", ".env", "a..b", "tls.crt", "-", "_"] {
            assert!(is_data_key(good), "{good}");
        }
        let too_long = "a".repeat(254);
        for bad in ["", ".", "..", "..a", "a b", "a/b", "ä", "a\n", &too_long] {
            assert!(!is_data_key(bad), "{bad:?}");
        }
    }
}
