//! The keys that a request may have. Judged are the keys of the secret: those of the Secret are chosen by the requester.

use super::pattern::Glob;
use crate::request::SourceKeys;

/// The keys that may be delivered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct KeyLimits {
    /// One of these has to cover all keys; any key is good if there is none.
    pub allowed: Vec<Vec<Glob>>,
    /// None of these may match a key.
    pub denied: Vec<Glob>,
}

impl KeyLimits {
    /// Whether these keys may be delivered.
    pub fn permit(&self, keys: &SourceKeys<'_>) -> bool {
        let matches = |globs: &[Glob], key: &str| globs.iter().any(|glob| glob.matches(key));
        let covers = |globs: &[Glob]| match keys {
            SourceKeys::Any => globs.iter().any(Glob::is_everything),
            SourceKeys::These(keys) => keys.iter().all(|key| matches(globs, key)),
        };
        let is_denied = match keys {
            SourceKeys::Any => !self.denied.is_empty(),
            SourceKeys::These(keys) => keys.iter().any(|key| matches(&self.denied, key)),
        };
        let is_allowed = self.allowed.is_empty() || self.allowed.iter().any(|globs| covers(globs));
        is_allowed && !is_denied
    }
}
