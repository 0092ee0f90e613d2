//! Types by which objects are read: they borrow from the text where they can. Optional fields are `Option`, so that `null` is as
//! good as absent.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// A text; a whole number counts as its digits, because quantities and ports may be either.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Text<'a>(Cow<'a, str>);

/// Texts by texts, such as labels.
pub(crate) type Map<'a> = BTreeMap<Text<'a>, Text<'a>>;

impl<'a> Text<'a> {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The rest of the text after a prefix.
    pub(crate) fn strip_prefix(self, prefix: &str) -> Option<Self> {
        match self.0 {
            Cow::Borrowed(text) => text.strip_prefix(prefix).map(Self::from),
            Cow::Owned(text) => text.strip_prefix(prefix).map(|rest| Self::from(rest.to_owned())),
        }
    }
}

impl<'a> From<&'a str> for Text<'a> {
    fn from(text: &'a str) -> Self {
        Self(Cow::Borrowed(text))
    }
}

impl From<String> for Text<'_> {
    fn from(text: String) -> Self {
        Self(Cow::Owned(text))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor).map(Self)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or a whole number")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
        Ok(Cow::Owned(number.to_string()))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Cow::Owned(number.to_string()))
    }
}

/// A moment. It is sent as RFC 3339 in UTC with whole seconds.
#[derive(Debug, Clone, Copy, serde::Deserialize)]
pub(crate) struct Time(Timestamp);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0}", self.0)
    }
}

/// A reference to another object by its name.
#[derive(Default, serde::Deserialize)]
pub(crate) struct Named<'a> {
    #[serde(borrow)]
    pub(crate) name: Option<Text<'a>>,
}

/// The labels that a selector asks for; expressions are not sent.
#[derive(Default, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Selector<'a> {
    #[serde(borrow)]
    pub(crate) match_labels: Option<Map<'a>>,
}

impl<'a> Selector<'a> {
    pub(crate) fn labels(selector: Option<Self>) -> Option<Map<'a>> {
        selector.and_then(|selector| selector.match_labels)
    }
}

/// The names of the references, in their order. A reference without a name is left out.
pub(crate) fn names<'a>(references: Option<Vec<Named<'a>>>) -> Vec<Text<'a>> {
    references
        .into_iter()
        .flatten()
        .filter_map(|reference| reference.name)
        .collect()
}
