//! What is written: JSON with sorted keys, and the contract's rule for fields that are left out.

use std::collections::BTreeSet;

use serde::ser::{Serialize, Serializer};

use super::input::{Map, Text, Time};

/// An object whose fields are in the order of their keys.
#[derive(Debug, Default)]
pub(crate) struct Object<'a>(Vec<(&'static str, Json<'a>)>);

impl<'a> Object<'a> {
    /// With a field that is always present: the contract marks it with `*`.
    pub(crate) fn always(mut self, key: &'static str, value: impl Into<Json<'a>>) -> Self {
        self.put(key, value.into());
        self
    }

    /// With a field that is left out when it is empty: `""`, `0`, `false`, no items, or not given.
    pub(crate) fn optional(mut self, key: &'static str, value: impl Into<Json<'a>>) -> Self {
        let value = value.into();
        if !value.is_empty() {
            self.put(key, value);
        }
        self
    }

    /// With a field that is left out only when it is not given.
    pub(crate) fn given(mut self, key: &'static str, value: Option<impl Into<Json<'a>>>) -> Self {
        if let Some(value) = value {
            self.put(key, value.into());
        }
        self
    }

    fn put(&mut self, key: &'static str, value: Json<'a>) {
        match self.0.binary_search_by_key(&key, |(key, _)| *key) {
            Ok(index) => self.0[index].1 = value,
            Err(index) => self.0.insert(index, (key, value)),
        }
    }
}

/// A value of a field.
#[derive(Debug)]
pub(crate) enum Json<'a> {
    Absent,
    Bool(bool),
    Number(i64),
    Text(Text<'a>),
    List(Vec<Json<'a>>),
    Map(Map<'a>),
    Object(Object<'a>),
}

impl Json<'_> {
    fn is_empty(&self) -> bool {
        match self {
            Self::Absent => true,
            Self::Bool(value) => !value,
            Self::Number(value) => *value == 0,
            Self::Text(text) => text.as_str().is_empty(),
            Self::List(items) => items.is_empty(),
            Self::Map(map) => map.is_empty(),
            // The contract's own writer never leaves out a struct, whatever is in it.
            Self::Object(_) => false,
        }
    }
}

/// The objects that a function makes of the items of a list.
pub(crate) fn each<'a, T>(items: Option<Vec<T>>, object: impl Fn(T) -> Object<'a>) -> Vec<Object<'a>> {
    items.into_iter().flatten().map(object).collect()
}

impl Serialize for Json<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Absent => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Number(value) => serializer.serialize_i64(*value),
            Self::Text(text) => serializer.serialize_str(text.as_str()),
            Self::List(items) => serializer.collect_seq(items),
            Self::Map(map) => {
                serializer.collect_map(map.iter().map(|(key, text)| (key.as_str(), text.as_str())))
            }
            Self::Object(object) => object.serialize(serializer),
        }
    }
}

impl Serialize for Object<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

impl From<bool> for Json<'_> {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Json<'_> {
    fn from(value: i64) -> Self {
        Self::Number(value)
    }
}

impl From<usize> for Json<'_> {
    fn from(value: usize) -> Self {
        Self::Number(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

impl<'a> From<Text<'a>> for Json<'a> {
    fn from(text: Text<'a>) -> Self {
        Self::Text(text)
    }
}

impl<'a> From<&'a str> for Json<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text.into())
    }
}

impl From<Time> for Json<'_> {
    fn from(time: Time) -> Self {
        Self::Text(time.to_string().into())
    }
}

impl<'a> From<Map<'a>> for Json<'a> {
    fn from(map: Map<'a>) -> Self {
        Self::Map(map)
    }
}

impl<'a> From<Object<'a>> for Json<'a> {
    fn from(object: Object<'a>) -> Self {
        Self::Object(object)
    }
}

impl<'a> From<BTreeSet<Text<'a>>> for Json<'a> {
    fn from(names: BTreeSet<Text<'a>>) -> Self {
        Self::List(names.into_iter().map(Self::Text).collect())
    }
}

impl<'a, T: Into<Json<'a>>> From<Vec<T>> for Json<'a> {
    fn from(items: Vec<T>) -> Self {
        Self::List(items.into_iter().map(Into::into).collect())
    }
}

impl<'a, T: Into<Json<'a>>> From<Option<T>> for Json<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Absent, Into::into)
    }
}
