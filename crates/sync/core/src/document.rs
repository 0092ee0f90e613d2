//! Reads YAML (and so JSON) that a stranger wrote, within limits, into a small tree. Scalars keep their text: what a number
//! or a date means is for the reader of the field to say.
//!
//! # Memory
//!
//! **Guarantee.** A document of `n` bytes holds at most [`most_memory`]`(n)` = 4 × `n` + 64 KiB, whatever is in it. Counted are
//! the capacities of all buffers that the reader keeps: the tree (8 bytes for each value, in blocks that never move), the text of
//! scalars that are not in the source as they stand (escapes, folded lines), and the list of anchors. Each is charged before it
//! is allocated, and a document that needs more is refused.
//!
//! - Scalars point into the source. An alias points to its anchor: nothing is copied for it. What aliases would repeat if they
//!   were written out is charged in bytes, against a bound of the same size, so that a reader may write them out.
//!
//! The YAML parser has buffers of its own while it runs: the scalar that it unescapes (at most three times its source while the
//! buffer grows), and the tokens of one possible key. A key has at most [`Limits::key`] characters, so that queue does not grow with
//! the document; measured with a counting allocator it stays below 350 KiB. What the parser would keep without bound is refused
//! before the parser sees it: directives for tags, and long runs of blanks, which it copies several times.

mod build;
mod tape;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use granit_parser::Parser;

use build::Builder;
pub use tape::{Content, Document, Items, Node, Pairs};

const CONTROL: &str = "must not hold control characters";
const TAGS: &str = "must not have YAML tags";
/// The longest run of blanks and line breaks.
const MOST_BLANKS: usize = 16 * 1024;
/// A document may need this many times its own size.
const MEMORY_FACTOR: usize = 4;
/// What a document may need beyond that, so that no small one is refused.
const MEMORY_BASE: usize = 64 * 1024;

/// The most bytes of memory that a document of this many bytes may need.
pub const fn most_memory(bytes: usize) -> usize {
    bytes.saturating_mul(MEMORY_FACTOR).saturating_add(MEMORY_BASE)
}

/// How much a document may hold.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of text.
    pub bytes: usize,
    /// Maps and lists within each other.
    pub depth: usize,
    /// Scalars, maps and lists in all.
    pub nodes: usize,
    /// Bytes of one scalar.
    pub scalar: usize,
    /// Characters of one key.
    pub key: usize,
    /// Anchors; with none, aliases are refused as well.
    pub anchors: usize,
}

/// Why a document cannot be read. It names the rule and the line, never the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{rule} (line {line}, column {column})")]
pub struct DocumentError {
    rule: Cow<'static, str>,
    line: usize,
    column: usize,
}

/// Reads the first document of a text.
pub fn read<'t>(text: &'t str, limits: &Limits) -> Result<Document<'t>, DocumentError> {
    let start = Place { line: 1, column: 1 };
    if text.len() > limits.bytes {
        return Err(start.error(format!("must not be longer than {} bytes", limits.bytes)));
    }
    if let Some(line) = text.lines().position(|line| line.chars().any(is_forbidden)) {
        return Err(Place::of_line(line).error(CONTROL));
    }
    if let Some(line) = head(text).position(|line| line.starts_with("%TAG")) {
        return Err(Place::of_line(line).error(TAGS));
    }
    if let Some(offset) = blanks(text) {
        let rule = format!("must not have more than {MOST_BLANKS} blanks in a row");
        return Err(Place::of_offset(text, offset).error(rule));
    }
    let options = granit_parser::options! {
        simple_key_max_lookahead: limits.key,
        emit_unresolved_aliases: true,
        emit_comments: false,
    };
    let mut builder = Builder::new(text, limits);
    for next in Parser::new_from_str_with_options(text, options) {
        // The parser's own words may quote the text, so there is one word for all of them.
        let (event, span) = next.map_err(|error| Place::of(error.marker()).error("is not valid YAML"))?;
        let place = Place::of(&span.start);
        if builder.take(event, place)? {
            break;
        }
    }
    Ok(builder.end())
}

/// The lines before the first document, where directives can be.
fn head(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .take_while(|line| line.trim().is_empty() || line.starts_with(['%', '#']))
}

/// Where a run of blanks begins that is too long.
fn blanks(text: &str) -> Option<usize> {
    let mut start = 0;
    for (at, byte) in text.bytes().enumerate() {
        if !byte.is_ascii_whitespace() {
            start = at + 1;
        } else if at - start >= MOST_BLANKS {
            return Some(start);
        }
    }
    None
}

/// Tab and line breaks are part of any text; the rest of the control characters is a trick or a mistake.
fn is_forbidden(c: char) -> bool {
    (c.is_control() && !matches!(c, '\t' | '\r' | '\n')) || matches!(c, '\u{feff}' | '\u{2028}' | '\u{2029}')
}

#[derive(Clone, Copy)]
struct Place {
    line: usize,
    column: usize,
}

impl Place {
    fn of(marker: &granit_parser::Marker) -> Self {
        Self {
            line: marker.line(),
            column: marker.col() + 1,
        }
    }

    fn of_line(index: usize) -> Self {
        Self {
            line: index + 1,
            column: 1,
        }
    }

    /// Where in a text this many bytes of it end.
    fn of_offset(text: &str, offset: usize) -> Self {
        let before = text.get(..offset).unwrap_or_default();
        let line = before.rsplit('\n').next().unwrap_or_default();
        Self {
            line: before.matches('\n').count() + 1,
            column: line.chars().count() + 1,
        }
    }

    fn error(self, rule: impl Into<Cow<'static, str>>) -> DocumentError {
        DocumentError {
            rule: rule.into(),
            line: self.line,
            column: self.column,
        }
    }
}
