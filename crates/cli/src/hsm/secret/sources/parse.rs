//! Parses the texts of the sources, without I/O. No error holds a value, nor the error text of a parser, which quotes its input.

use std::fmt;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use trustplane_hsm_core::path::KeyName;
use trustplane_hsm_core::secret::Value;
use trustplane_process::secret::Secret;

use super::STDIN;

/// The mark that some editors put before a text.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Parses a key and its value, separated by the first `=`.
pub(super) fn literal(text: &Secret<String>) -> Result<(KeyName, Value)> {
    let parts = text.expose().split_once('=');
    let (name, value) = parts.context("want KEY=VALUE; the text has no =")?;
    Ok((key(name)?, Value::new(value)))
}

/// Parses a key and the path of its value, separated by the first `=`. Without `=` the name of the file is the key.
pub(super) fn keyed_path(text: &str) -> Result<(KeyName, &str)> {
    if let Some((name, path)) = text.split_once('=') {
        return Ok((key(name)?, path));
    }
    if text == STDIN {
        bail!("standard input has no name: want KEY=-");
    }
    let name = Path::new(text).file_name().and_then(|name| name.to_str());
    let name = name.context("the path has no file name that could be the key: want KEY=PATH")?;
    Ok((
        key(name).context("the file's name is the key: want KEY=PATH")?,
        text,
    ))
}

/// Parses the keys and values of an env file, as kubectl does: quotes are part of the value.
pub(super) fn env_file(content: &[u8]) -> Result<Vec<(KeyName, Value)>> {
    let content = content.strip_prefix(BYTE_ORDER_MARK).unwrap_or(content);
    let mut pairs = Vec::new();
    for (number, line) in (1..).zip(content.split(|byte| *byte == b'\n')) {
        let line = line.strip_suffix(b"\r").unwrap_or(line).trim_ascii_start();
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let at = line.iter().position(|byte| *byte == b'=');
        let (name, value) = match at {
            Some(at) => (&line[..at], &line[at + 1..]),
            None => bail!("line {number}: want KEY=VALUE; the line has no ="),
        };
        let name = std::str::from_utf8(name).unwrap_or("\u{fffd}");
        pairs.push((
            key(name).with_context(|| format!("line {number}"))?,
            Value::new(value),
        ));
    }
    Ok(pairs)
}

/// Parses the keys and values of a JSON object whose fields are strings.
pub(super) fn json(content: &[u8]) -> Result<Vec<(KeyName, Value)>> {
    let Fields(fields) = serde_json::from_slice(content).map_err(|error| {
        let place = format!("line {}, column {}", error.line(), error.column());
        match error.is_data() {
            true => anyhow::anyhow!("want an object of strings; the document is something else, {place}"),
            false => anyhow::anyhow!("the document is not JSON, {place}"),
        }
    })?;
    let pair = |(name, field): (String, Field)| match field {
        Field::Text(text) => Ok((key(&name)?, Value::new(text.expose().as_bytes()))),
        Field::Other(_) => bail!("key {name:?}: the value must be a string"),
    };
    fields.into_iter().map(pair).collect()
}

/// Every field of an object, also those with the same name.
struct Fields(Vec<(String, Field)>);

/// The value of a field.
#[derive(Deserialize)]
#[serde(untagged)]
enum Field {
    Text(Secret<String>),
    Other(IgnoredAny),
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Fields, M::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Object)
    }
}

fn key(name: &str) -> Result<KeyName> {
    KeyName::parse(name).with_context(|| format!("{name:?}"))
}
