//! The formats in which a secret can be stored, each read into fields. Digits of numbers and bytes of nested parts stay as
//! they are in the source.
//!
//! **Guarantees.** From `n` bytes come at most 4096 fields, whose names and values need at most
//! [`most_memory`](crate::document::most_memory)`(n)` together. What is wrong is told by position and rule, never by text: a part
//! of a secret may stand anywhere, also where a name should be.

mod dotenv;
mod json;
mod yaml;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use crate::data::Value;

pub(crate) use dotenv::dotenv;
pub(crate) use json::json;
pub(crate) use yaml::yaml;

/// The most fields of one secret.
pub const MOST_FIELDS: usize = 4096;

const NOT_TEXT: &str = "is not text; format: raw takes it as it is";
const NOTHING_THERE: &str = "has nothing at the place that select names";

/// The fields of a secret.
pub(crate) type Fields = BTreeMap<String, Field>;

/// What is wrong with the bytes, in words that follow "the secret".
pub(crate) type Wrong = Cow<'static, str>;

/// One field of a secret.
#[derive(Clone)]
pub(crate) struct Field {
    /// Where it stands: its name comes from the secret, and is not to be told.
    pub place: Place,
    /// Its value; `None` if it is null.
    pub value: Option<Value>,
}

/// Where in a secret something stands, from 1 on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Line(usize),
    Field(usize),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => write!(f, "line {line} of the secret"),
            Self::Field(field) => write!(f, "field {field} of the secret"),
        }
    }
}

/// Refuses the field with this number, if it is one too many.
fn few(number: usize) -> Result<(), Wrong> {
    match number > MOST_FIELDS {
        true => Err(format!("has more than {MOST_FIELDS} fields").into()),
        false => Ok(()),
    }
}
