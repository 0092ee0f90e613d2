//! Secrets that are JSON. Only what is asked for is taken out of the text.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::{Field, Fields, NOTHING_THERE, Place, Wrong, few};
use crate::data::Value;

/// A JSON object, or the object at the end of a way into it.
pub(crate) fn json(bytes: &[u8], select: &[String]) -> Result<Fields, Wrong> {
    let mut part: &RawValue =
        serde_json::from_slice(bytes).map_err(|_| "is not JSON; format: raw takes it as it is")?;
    for step in select {
        part = at(part.get(), step).ok_or(NOTHING_THERE)?;
    }
    let mut object = Object::default();
    let read = serde_json::Deserializer::from_str(part.get()).deserialize_map(&mut object);
    match (object.wrong, read) {
        (Some(wrong), _) => Err(wrong),
        (None, Err(_)) => Err("is not a JSON object; format: raw takes it as it is".into()),
        (None, Ok(())) => Ok(object.fields),
    }
}

/// The part of an object or list that a step leads to. Of two fields with one name the last counts.
fn at<'a>(part: &'a str, step: &str) -> Option<&'a RawValue> {
    let mut source = serde_json::Deserializer::from_str(part);
    match part.as_bytes().first()? {
        b'{' => source.deserialize_map(FieldNamed(step)).ok()?,
        b'[' => source.deserialize_seq(ItemAt(step.parse().ok()?)).ok()?,
        _ => None,
    }
}

/// Reads the fields of an object, one by one.
#[derive(Default)]
struct Object {
    fields: Fields,
    wrong: Option<Wrong>,
}

impl<'de> Visitor<'de> for &mut Object {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut number = 0;
        while let Some(key) = map.next_key::<String>()? {
            let raw: &RawValue = map.next_value()?;
            number += 1;
            match few(number).and_then(|()| value(raw.get())) {
                Ok(value) => {
                    let place = Place::Field(number);
                    self.fields.insert(key, Field { place, value });
                }
                Err(wrong) => {
                    self.wrong = Some(wrong);
                    return Err(serde::de::Error::custom("a field cannot be taken"));
                }
            }
        }
        Ok(())
    }
}

fn value(raw: &str) -> Result<Option<Value>, Wrong> {
    if raw == "null" {
        return Ok(None);
    }
    if raw.starts_with('"') {
        let text: String = serde_json::from_str(raw).map_err(|_| "has a string that is not valid")?;
        return Ok(Some(Value::new(text)));
    }
    Ok(Some(Value::new(raw.as_bytes())))
}

/// Finds a field by its name, and keeps nothing else.
struct FieldNamed<'n>(&'n str);

impl<'de> Visitor<'de> for FieldNamed<'_> {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(is_named) = map.next_key_seed(IsNamed(self.0))? {
            match is_named {
                true => found = Some(map.next_value()?),
                false => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(found)
    }
}

/// Whether a key is this one.
struct IsNamed<'n>(&'n str);

impl<'de> DeserializeSeed<'de> for IsNamed<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for IsNamed<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<bool, E> {
        Ok(key == self.0)
    }
}

/// Finds an item by its number, and keeps nothing else.
struct ItemAt(usize);

impl<'de> Visitor<'de> for ItemAt {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let (mut found, mut index) = (None, 0);
        while let Some(item) = list.next_element::<&RawValue>()? {
            if index == self.0 {
                found = Some(item);
            }
            index += 1;
        }
        Ok(found)
    }
}
