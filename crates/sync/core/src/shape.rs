//! From what a provider has to the content of a Secret: read, select, choose, rename, and only then check.

use std::collections::BTreeSet;

use regex::Regex;

use crate::data::{Data, Payload, Value};
use crate::formats::{self, Fields};
use crate::name::{KEY_RULE, is_data_key};
use crate::reason::{Problem, Reason, Retry};
use crate::request::{Format, Keys, Shape};
use crate::types;

/// The most bytes of values that the API server takes in one Secret.
pub const MOST_BYTES: usize = 1_048_576;

/// The content of a Secret, and what its readers should know of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shaped {
    /// The content; never empty.
    pub data: Data,
    /// Keys that were asked for and are not there.
    pub missing: Vec<String>,
    /// The keys of the secret that the content was made from: policies judge these, because the requester chooses the others.
    pub sources: Vec<String>,
}

/// Makes the content of a Secret of this type. On an error nothing may be written: the last good content stays.
pub fn shape(payload: &Payload, shape: &Shape, secret_type: &str) -> Result<Shaped, Problem> {
    let fields = read(payload, shape)?;
    if fields.is_empty() {
        return Err(unusable("the secret has no keys"));
    }
    let (chosen, missing) = choose(fields, &shape.keys);
    if shape.strict && !missing.is_empty() {
        return Err(key_missing(&missing));
    }
    let chosen = rename(filter(chosen, shape)?, shape)?;
    if chosen.is_empty() {
        return Err(match missing.is_empty() {
            true => unusable("no key of the secret is left after keys, include and exclude"),
            false => key_missing(&missing),
        });
    }
    let sources = chosen.iter().map(|entry| entry.source.clone()).collect();
    let data = check(chosen, shape.strict)?;
    types::check(&data, secret_type).map_err(unusable)?;
    Ok(Shaped {
        data,
        missing,
        sources,
    })
}

/// What is told when keys are missing: a warning, or a refusal if the request is strict.
pub fn key_missing(missing: &[String]) -> Problem {
    let names: Vec<_> = missing.iter().map(|name| shown(name)).collect();
    Problem {
        reason: Reason::SecretKeyMissing,
        retry: Retry::Slow,
        text: format!("the secret has no {}", names.join(", ")),
    }
}

fn unusable(text: impl Into<String>) -> Problem {
    Problem {
        reason: Reason::SecretDataInvalid,
        retry: Retry::Slow,
        text: text.into(),
    }
}

fn read(payload: &Payload, shape: &Shape) -> Result<Fields, Problem> {
    let wrong = |wrong: &str| unusable(format!("the secret {wrong}"));
    match payload {
        Payload::Map(_) if !shape.select.is_empty() => {
            Err(wrong("has no nested parts, so select has no meaning"))
        }
        Payload::Map(map) => Ok(map
            .iter()
            .map(|(key, value)| (key.clone(), Some(value.clone())))
            .collect()),
        Payload::Bytes(bytes) if bytes.is_empty() => Err(wrong("is empty")),
        Payload::Bytes(bytes) => match shape.format {
            Format::Raw => Ok(Fields::from([(shape.key.clone(), Some(bytes.clone()))])),
            Format::Json => formats::json(bytes.expose(), &shape.select).map_err(wrong),
            Format::Yaml => formats::yaml(bytes.expose(), &shape.select).map_err(wrong),
            Format::Dotenv => formats::dotenv(bytes.expose()).map_err(wrong),
        },
    }
}

type Chosen = Vec<Entry>;

/// A key on its way into the Secret.
struct Entry {
    /// Its name in the secret.
    source: String,
    /// Its name in the Secret.
    key: String,
    value: Option<Value>,
}

/// The keys that were asked for, under the names that were asked for, and those that are missing.
fn choose(fields: Fields, keys: &Keys) -> (Chosen, Vec<String>) {
    let wanted: Vec<(&String, &String)> = match keys {
        Keys::All => {
            let entry = |(key, value): (String, _)| Entry {
                source: key.clone(),
                key,
                value,
            };
            return (fields.into_iter().map(entry).collect(), Vec::new());
        }
        Keys::Map(map) => map.iter().map(|(target, source)| (target, source)).collect(),
        Keys::List(list) => list.iter().map(|key| (key, key)).collect(),
    };
    let (mut chosen, mut missing) = (Chosen::new(), Vec::new());
    for (target, source) in wanted {
        match fields.get(source) {
            Some(value) => chosen.push(Entry {
                source: source.clone(),
                key: target.clone(),
                value: value.clone(),
            }),
            None => missing.push(source.clone()),
        }
    }
    (chosen, missing)
}

fn filter(chosen: Chosen, shape: &Shape) -> Result<Chosen, Problem> {
    let (include, exclude) = (compile(&shape.include)?, compile(&shape.exclude)?);
    let is_wanted = |key: &str| {
        (include.is_empty() || include.iter().any(|pattern| pattern.is_match(key)))
            && !exclude.iter().any(|pattern| pattern.is_match(key))
    };
    Ok(chosen.into_iter().filter(|entry| is_wanted(&entry.key)).collect())
}

fn rename(chosen: Chosen, shape: &Shape) -> Result<Chosen, Problem> {
    let mut rules = Vec::new();
    for (pattern, target) in &shape.rename {
        rules.push((whole(pattern)?, target));
    }
    let new_name = |key: String| {
        let rule = rules.iter().find(|(pattern, _)| pattern.is_match(&key));
        match rule {
            Some((pattern, target)) => pattern.replace(&key, target.as_str()).into_owned(),
            None => key,
        }
    };
    Ok(chosen
        .into_iter()
        .map(|entry| Entry {
            key: new_name(entry.key),
            ..entry
        })
        .collect())
}

fn compile(patterns: &[String]) -> Result<Vec<Regex>, Problem> {
    patterns.iter().map(|pattern| whole(pattern)).collect()
}

/// A pattern that must match the whole key. The grammar has checked it, so an error here is about the anchors.
fn whole(pattern: &str) -> Result<Regex, Problem> {
    Regex::new(&format!("^(?:{pattern})$")).map_err(|_| unusable("a pattern of the request cannot be used"))
}

fn check(chosen: Chosen, strict: bool) -> Result<Data, Problem> {
    let mut data = Data::new();
    let mut seen = BTreeSet::new();
    for Entry { key, value, .. } in chosen {
        if !is_data_key(&key) {
            return Err(unusable(format!("the key {} {KEY_RULE}", shown(&key))));
        }
        if !seen.insert(key.clone()) {
            return Err(unusable(format!("two keys get the name {}", shown(&key))));
        }
        let value = match value {
            Some(value) => value,
            None if strict => return Err(unusable(format!("the value of {} is null", shown(&key)))),
            None => Value::new(""),
        };
        data.insert(key, value);
    }
    let bytes: usize = data.values().map(Value::len).sum();
    if bytes > MOST_BYTES {
        return Err(Problem {
            reason: Reason::SecretTooLarge,
            retry: Retry::Slow,
            text: format!("the values have {bytes} bytes together; a Secret takes at most {MOST_BYTES}"),
        });
    }
    Ok(data)
}

/// A key for people to read: quoted, escaped, and not longer than a name should be.
fn shown(key: &str) -> String {
    let short: String = key.chars().take(64).collect();
    let more = if short.len() < key.len() { "…" } else { "" };
    format!("\"{}{more}\"", short.escape_default())
}

#[cfg(test)]
mod tests;
