//! A value as requests, answers and printed documents have it: base64 in the document, wiped and redacted in memory.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use zeroize::Zeroizing;

use crate::secret::Value;

/// A value that is written as base64.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encoded(pub Value);

impl Serialize for Encoded {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = Zeroizing::new(STANDARD.encode(self.0.expose()));
        serializer.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for Encoded {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Zeroizing::new(String::deserialize(deserializer)?);
        let bytes = STANDARD.decode(&*text);
        let bytes = bytes.map_err(|_| serde::de::Error::custom("a value is not base64"))?;
        Ok(Self(Value::new(bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binary_value_is_base64_in_a_document_and_redacted_in_a_print() {
        let value = Encoded(Value::new([0, 255, b'\n', b'"']));
        let text = serde_json::to_string(&value).unwrap();
        assert_eq!(text, "\"AP8KIg==\"");
        assert_eq!(serde_json::from_str::<Encoded>(&text).unwrap(), value);
        assert_eq!(format!("{value:?}"), "Encoded(Value(…))");
        let error = serde_json::from_str::<Encoded>("\"hunter2!\"").unwrap_err();
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}
