//! From what a provider has to the content of a Secret: read, select, choose, rename, and only then check.

use std::collections::BTreeMap;

use trustplane_plan::secret_type::{self, MOST_BYTES};

use crate::data::{Data, Payload, Value};
use crate::formats::{self, Field, Fields, Place};
use crate::name::{KEY_RULE, is_data_key};
use crate::reason::{Problem, Reason, Retry};
use crate::request::{Format, Keys, Shape};

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
    let (chosen, missing) = choose(fields, shape)?;
    if shape.strict && !missing.is_empty() {
        return Err(key_missing(&missing));
    }
    if chosen.is_empty() {
        return Err(match missing.is_empty() {
            true => unusable("no key of the secret is left after keys, include and exclude"),
            false => key_missing(&missing),
        });
    }
    let sources = chosen.iter().map(|key| key.source.clone()).collect();
    let data = check(chosen, shape)?;
    secret_type::check(secret_type, |key| data.get(key)).map_err(unusable)?;
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
    let wrong = |wrong: formats::Wrong| unusable(format!("the secret {wrong}"));
    match payload {
        Payload::Map(_) if !shape.select.is_empty() => {
            Err(wrong("has no nested parts, so select has no meaning".into()))
        }
        Payload::Map(map) => Ok(map
            .iter()
            .enumerate()
            .map(|(index, (key, value))| (key.clone(), field(index, value)))
            .collect()),
        Payload::Bytes(bytes) if bytes.is_empty() => Err(wrong("is empty".into())),
        Payload::Bytes(bytes) => match shape.format {
            Format::Raw => Ok(Fields::from([(shape.key.clone(), field(0, bytes))])),
            Format::Json => formats::json(bytes.expose(), &shape.select).map_err(wrong),
            Format::Yaml => formats::yaml(bytes.expose(), &shape.select).map_err(wrong),
            Format::Dotenv => formats::dotenv(bytes.expose()).map_err(wrong),
        },
    }
}

fn field(index: usize, value: &Value) -> Field {
    Field {
        place: Place::Field(index + 1),
        value: Some(value.clone()),
    }
}

/// A key on its way into the Secret.
struct Key {
    /// Its name in the secret.
    source: String,
    /// Its name in the Secret.
    name: String,
    /// Where its name comes from in the secret; `None` if the request names it. Only what the request names may be told.
    found: Option<Place>,
    value: Option<Value>,
}

impl Key {
    /// The key, for messages that begin with it.
    fn told(&self) -> String {
        match self.found {
            Some(place) => place.to_string(),
            None => format!("the key {}", shown(&self.name)),
        }
    }
}

type Chosen = Vec<Key>;

/// The keys that are wanted, under the names that were asked for, and those that are missing.
fn choose(fields: Fields, shape: &Shape) -> Result<(Chosen, Vec<String>), Problem> {
    let asked: Vec<(&String, &String)> = match &shape.keys {
        Keys::All => {
            let wanted = fields.into_iter().filter(|(name, _)| is_wanted(name, shape));
            let wanted = wanted.map(|(name, field)| Key {
                source: name.clone(),
                name,
                found: Some(field.place),
                value: field.value,
            });
            return Ok((wanted.collect(), Vec::new()));
        }
        Keys::Map(map) => map.iter().map(|(target, source)| (target, source)).collect(),
        Keys::List(list) => list.iter().map(|key| (key, key)).collect(),
    };
    let missing = asked.iter().filter(|(_, source)| !fields.contains_key(*source));
    let missing = missing.map(|(_, source)| (*source).clone()).collect();
    let wanted = || {
        let wanted = asked.iter().filter(|(target, _)| is_wanted(target, shape));
        wanted.filter_map(|(target, source)| Some((*target, *source, fields.get(*source)?)))
    };
    // One field may be asked for under many names: what all of them need is known before any is copied.
    is_small(wanted().filter_map(|(_, _, field)| field.value.as_ref()))?;
    let chosen = wanted().map(|(target, source, field)| Key {
        source: source.clone(),
        name: target.clone(),
        found: None,
        value: field.value.clone(),
    });
    Ok((chosen.collect(), missing))
}

fn is_wanted(key: &str, shape: &Shape) -> bool {
    (shape.include.is_empty() || shape.include.iter().any(|pattern| pattern.matches(key)))
        && !shape.exclude.iter().any(|pattern| pattern.matches(key))
}

/// The name that a key gets; `None` if it is far too long.
fn new_name(key: &str, shape: &Shape) -> Option<String> {
    let rule = shape.rename.iter().find(|(pattern, _)| pattern.matches(key));
    match rule {
        Some((pattern, target)) => pattern.rename(key, target),
        None => Some(key.to_owned()),
    }
}

fn check(chosen: Chosen, shape: &Shape) -> Result<Data, Problem> {
    let mut data = Data::new();
    let mut first: BTreeMap<String, Option<Place>> = BTreeMap::new();
    for mut key in chosen {
        match new_name(&key.name, shape) {
            Some(name) if is_data_key(&name) => key.name = name,
            _ => return Err(unusable(format!("{}: its name as a key {KEY_RULE}", key.told()))),
        }
        if let Some(before) = first.insert(key.name.clone(), key.found) {
            return Err(unusable(twice(&key, before)));
        }
        let value = match key.value {
            Some(value) => value,
            None if shape.strict => return Err(unusable(format!("{}: its value is null", key.told()))),
            None => Value::new(""),
        };
        data.insert(key.name, value);
    }
    is_small(data.values())?;
    Ok(data)
}

fn is_small<'a>(values: impl Iterator<Item = &'a Value>) -> Result<(), Problem> {
    let bytes: usize = values.map(Value::len).sum();
    if bytes > MOST_BYTES {
        return Err(Problem {
            reason: Reason::SecretTooLarge,
            retry: Retry::Slow,
            text: format!("the values have {bytes} bytes together; a Secret takes at most {MOST_BYTES}"),
        });
    }
    Ok(())
}

fn twice(key: &Key, before: Option<Place>) -> String {
    match (before, key.found) {
        (Some(before), Some(place)) => format!("{before} and {place} get the same name"),
        _ => format!("two keys get the name {}", shown(&key.name)),
    }
}

/// A name of the request for people to read: quoted, escaped, and not longer than a name should be. Never one of the secret.
fn shown(key: &str) -> String {
    let short: String = key.chars().take(64).collect();
    let more = if short.len() < key.len() { "…" } else { "" };
    format!("\"{}{more}\"", short.escape_default())
}

#[cfg(test)]
mod tests;
