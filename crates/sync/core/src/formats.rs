//! The formats in which a secret can be stored, each read into fields. Digits of numbers and bytes of nested parts stay as
//! they are in the source.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use zeroize::Zeroizing;

use crate::data::Value;
use crate::document::{self, Limits, Node};

const YAML: Limits = Limits {
    bytes: 1024 * 1024,
    depth: 32,
    nodes: 64 * 1024,
};

/// The fields of a secret; `None` for one that is null.
pub(crate) type Fields = BTreeMap<String, Option<Value>>;

/// What is wrong with the bytes, in words that follow "the secret".
pub(crate) type Wrong = &'static str;

/// A JSON object, or the object at the end of a way into it.
pub(crate) fn json(bytes: &[u8], select: &[String]) -> Result<Fields, Wrong> {
    let mut part: &RawValue =
        serde_json::from_slice(bytes).map_err(|_| "is not JSON; format: raw takes it as it is")?;
    for step in select {
        part = json_step(part.get(), step).ok_or("has nothing at the place that select names")?;
    }
    let fields: BTreeMap<String, &RawValue> = serde_json::from_str(part.get())
        .map_err(|_| "is not a JSON object; format: raw takes it as it is")?;
    fields
        .into_iter()
        .map(|(key, raw)| Ok((key, json_value(raw.get())?)))
        .collect()
}

fn json_step<'a>(part: &'a str, step: &str) -> Option<&'a RawValue> {
    match part.as_bytes().first()? {
        b'{' => serde_json::from_str::<BTreeMap<String, &RawValue>>(part)
            .ok()?
            .remove(step),
        b'[' => serde_json::from_str::<Vec<&RawValue>>(part)
            .ok()?
            .get(step.parse::<usize>().ok()?)
            .copied(),
        _ => None,
    }
}

fn json_value(raw: &str) -> Result<Option<Value>, Wrong> {
    if raw == "null" {
        return Ok(None);
    }
    if raw.starts_with('"') {
        let text: Zeroizing<String> =
            Zeroizing::new(serde_json::from_str(raw).map_err(|_| "has a string that is not valid")?);
        return Ok(Some(Value::new(text.as_bytes())));
    }
    Ok(Some(Value::new(raw.as_bytes())))
}

/// A YAML map, or the map at the end of a way into it.
pub(crate) fn yaml(bytes: &[u8], select: &[String]) -> Result<Fields, Wrong> {
    let text = std::str::from_utf8(bytes).map_err(|_| "is not text; format: raw takes it as it is")?;
    let mut part = document::read(text, &YAML).map_err(|_| "is not YAML, or too deep or too large")?;
    for step in select {
        part = yaml_step(part, step).ok_or("has nothing at the place that select names")?;
    }
    let Node::Map(fields) = part else {
        return Err("is not a YAML map; format: raw takes it as it is");
    };
    Ok(fields
        .into_iter()
        .map(|(key, node)| (key, yaml_value(&node)))
        .collect())
}

fn yaml_step(part: Node, step: &str) -> Option<Node> {
    match part {
        Node::Map(fields) => fields
            .into_iter()
            .find(|(key, _)| key == step)
            .map(|(_, node)| node),
        Node::List(items) => items.into_iter().nth(step.parse().ok()?),
        Node::Null | Node::Scalar { .. } => None,
    }
}

fn yaml_value(node: &Node) -> Option<Value> {
    match node {
        Node::Null => None,
        Node::Scalar { text, .. } => Some(Value::new(text.as_bytes())),
        Node::List(_) | Node::Map(_) => {
            let mut text = Zeroizing::new(String::new());
            write_json(node, &mut text);
            Some(Value::new(text.as_bytes()))
        }
    }
}

/// JSON without spaces, in the order of the source, with its digits.
fn write_json(node: &Node, out: &mut String) {
    match node {
        Node::Null => out.push_str("null"),
        Node::Scalar { text, plain } if *plain && is_json_literal(text) => out.push_str(text),
        Node::Scalar { text, .. } => write_string(text, out),
        Node::List(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_json(item, out);
            }
            out.push(']');
        }
        Node::Map(fields) => {
            out.push('{');
            for (index, (key, value)) in fields.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_string(key, out);
                out.push(':');
                write_json(value, out);
            }
            out.push('}');
        }
    }
}

fn write_string(text: &str, out: &mut String) {
    // A string always has a JSON form.
    let quoted = Zeroizing::new(serde_json::to_string(text).unwrap_or_default());
    out.push_str(&quoted);
}

fn is_json_literal(text: &str) -> bool {
    matches!(text, "true" | "false") || serde_json::from_str::<serde_json::Number>(text).is_ok()
}

/// Lines of the form `NAME=value`, as shells and many libraries read them: comments, `export`, quotes.
pub(crate) fn dotenv(bytes: &[u8]) -> Result<Fields, Wrong> {
    let text = std::str::from_utf8(bytes).map_err(|_| "is not text; format: raw takes it as it is")?;
    let mut fields = Fields::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        if rest.starts_with('#') {
            rest = next_line(rest).trim_start();
            continue;
        }
        let (name, value) = rest
            .split_once('=')
            .filter(|(name, _)| !name.contains('\n'))
            .ok_or("has a line that is not of the form NAME=value")?;
        let name = name.strip_prefix("export ").unwrap_or(name).trim();
        let value = value.trim_start_matches([' ', '\t']);
        let read = match value.chars().next().filter(|c| matches!(c, '"' | '\'')) {
            // A quoted value may go on over lines.
            Some(quote) => {
                let (read, end) = quoted(&value[1..], quote).ok_or("has a quote that does not end")?;
                rest = next_line(&value[1 + end..]);
                read
            }
            None => {
                let line = value.split('\n').next().unwrap_or_default();
                rest = next_line(value);
                let bare = line.find(" #").map_or(line, |comment| &line[..comment]);
                Zeroizing::new(bare.trim().to_owned())
            }
        };
        fields.insert(name.to_owned(), Some(Value::new(read.as_bytes())));
        rest = rest.trim_start();
    }
    Ok(fields)
}

fn next_line(text: &str) -> &str {
    text.split_once('\n').map_or("", |(_, after)| after)
}

/// Reads up to the closing quote; gives the value and where the text goes on.
fn quoted(text: &str, quote: char) -> Option<(Zeroizing<String>, usize)> {
    let mut value = Zeroizing::new(String::new());
    let mut characters = text.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            c if c == quote => return Some((value, at + 1)),
            '\\' if quote == '"' => value.push(match characters.next()?.1 {
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                other => other,
            }),
            c => value.push(c),
        }
    }
    None
}
