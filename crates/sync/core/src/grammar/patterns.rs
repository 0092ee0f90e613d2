//! The patterns of one annotation: each is compiled once, and there are not many.

use std::collections::BTreeMap;

use super::{MOST_PATTERNS, invalid};
use crate::key_pattern::KeyPattern;
use crate::reason::Problem;

/// The most bytes that all compiled patterns of one annotation may need.
pub(super) const MOST_BYTES: usize = 2 * 1024 * 1024;

/// The patterns that were compiled so far.
#[derive(Default)]
pub(super) struct Patterns {
    compiled: BTreeMap<String, KeyPattern>,
    bytes: usize,
}

impl Patterns {
    /// Compiles a pattern of this field, unless it was compiled before.
    pub fn compile(&mut self, field: &str, text: &str) -> Result<KeyPattern, Problem> {
        if let Some(compiled) = self.compiled.get(text) {
            return Ok(compiled.clone());
        }
        if self.compiled.len() >= MOST_PATTERNS {
            return Err(invalid(format!(
                "{field}: the annotation must not have more than {MOST_PATTERNS} different patterns"
            )));
        }
        let Some(compiled) = KeyPattern::compile(text) else {
            return Err(invalid(format!(
                "{field}: each pattern must be a regular expression that is not too large"
            )));
        };
        self.bytes += compiled.size();
        if self.bytes > MOST_BYTES {
            return Err(invalid(format!(
                "{field}: the patterns of the annotation must not be so large together; use fewer classes such as \\w and \
                 fewer repetitions"
            )));
        }
        self.compiled.insert(text.to_owned(), compiled.clone());
        Ok(compiled)
    }
}
