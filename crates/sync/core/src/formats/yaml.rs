//! Secrets that are YAML. Nested parts become JSON; how long it will be is known before it is written.

use super::{Field, Fields, NOT_TEXT, NOTHING_THERE, Place, Wrong, few};
use crate::data::Value;
use crate::document::{self, Content, Limits, Node, most_memory};

const YAML: Limits = Limits {
    bytes: 1024 * 1024,
    depth: 32,
    nodes: 64 * 1024,
    scalar: 1024 * 1024,
    key: 512,
    anchors: 256,
};

/// A YAML map, or the map at the end of a way into it.
pub(crate) fn yaml(bytes: &[u8], select: &[String]) -> Result<Fields, Wrong> {
    let text = std::str::from_utf8(bytes).map_err(|_| NOT_TEXT)?;
    let document = document::read(text, &YAML).map_err(|error| error.to_string())?;
    let mut part = document.root();
    for step in select {
        part = at(part, step).ok_or(NOTHING_THERE)?;
    }
    let Content::Map(pairs) = part.content() else {
        return Err("is not a YAML map; format: raw takes it as it is".into());
    };
    let mut left = most_memory(text.len()).saturating_sub(document.memory());
    let mut fields = Fields::new();
    for (index, (key, node)) in pairs.enumerate() {
        few(index + 1)?;
        let needs = key.len() + length(node);
        left = left.checked_sub(needs).ok_or_else(|| too_large(index + 1))?;
        let place = Place::Field(index + 1);
        fields.insert(
            key.to_owned(),
            Field {
                place,
                value: value(node),
            },
        );
    }
    Ok(fields)
}

fn too_large(number: usize) -> Wrong {
    format!("must not need more than four times its size in memory; field {number} is too large").into()
}

fn at<'d>(part: Node<'d>, step: &str) -> Option<Node<'d>> {
    match part.content() {
        Content::Map(fields) => fields.get(step),
        Content::List(mut items) => items.nth(step.parse().ok()?),
        Content::Null | Content::Scalar { .. } => None,
    }
}

fn value(node: Node<'_>) -> Option<Value> {
    match node.content() {
        Content::Null => None,
        Content::Scalar { text, .. } => Some(Value::new(text)),
        Content::List(_) | Content::Map(_) => {
            // The value takes the text over, so it is wiped with it.
            let mut json = String::with_capacity(length(node));
            write(node, &mut json);
            Some(Value::new(json))
        }
    }
}

/// How long the value of a field is.
fn length(node: Node<'_>) -> usize {
    match node.content() {
        Content::Null => 0,
        Content::Scalar { text, .. } => text.len(),
        Content::List(_) | Content::Map(_) => {
            let mut length = Length(0);
            write(node, &mut length);
            length.0
        }
    }
}

/// Where JSON is written to.
trait Sink {
    fn push(&mut self, text: &str);
}

impl Sink for String {
    fn push(&mut self, text: &str) {
        self.push_str(text);
    }
}

/// Counts what would be written.
struct Length(usize);

impl Sink for Length {
    fn push(&mut self, text: &str) {
        self.0 += text.len();
    }
}

/// JSON without spaces, in the order of the source, with its digits.
fn write(node: Node<'_>, out: &mut impl Sink) {
    match node.content() {
        Content::Null => out.push("null"),
        Content::Scalar { text, plain } if plain && is_json_literal(text) => out.push(text),
        Content::Scalar { text, .. } => write_string(text, out),
        Content::List(items) => {
            out.push("[");
            for (index, item) in items.enumerate() {
                if index > 0 {
                    out.push(",");
                }
                write(item, out);
            }
            out.push("]");
        }
        Content::Map(fields) => {
            out.push("{");
            for (index, (key, value)) in fields.enumerate() {
                if index > 0 {
                    out.push(",");
                }
                write_string(key, out);
                out.push(":");
                write(value, out);
            }
            out.push("}");
        }
    }
}

/// A JSON string. Documents hold no control characters but these three.
fn write_string(text: &str, out: &mut impl Sink) {
    out.push("\"");
    for part in text.split_inclusive(['"', '\\', '\n', '\r', '\t']) {
        let mut clean = part.chars();
        let escaped = match clean.next_back() {
            Some('"') => "\\\"",
            Some('\\') => "\\\\",
            Some('\n') => "\\n",
            Some('\r') => "\\r",
            Some('\t') => "\\t",
            _ => {
                out.push(part);
                continue;
            }
        };
        out.push(clean.as_str());
        out.push(escaped);
    }
    out.push("\"");
}

fn is_json_literal(text: &str) -> bool {
    matches!(text, "true" | "false") || serde_json::from_str::<serde_json::Number>(text).is_ok()
}
