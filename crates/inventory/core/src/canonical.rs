//! The one form in which an object is sent, compared and hashed: keys sorted at every level, no spaces.

use aws_lc_rs::digest::{SHA256, digest as hash};
use serde::ser::{Serialize, Serializer};
use serde_json::Value;

/// The canonical form of any JSON value. Numbers and texts are written as `serde_json` writes them.
///
/// The order does not hang on how `serde_json` keeps maps: a feature of it that any crate may switch on changes that.
pub fn canonical(value: &Value) -> String {
    // A `Value` has texts as keys, so its serialisation cannot fail.
    serde_json::to_string(&Sorted(value)).unwrap_or_default()
}

/// The first 64 bits of the SHA-256 of a canonical form. Equal objects have equal digests in every process.
pub fn digest(canonical: &str) -> u64 {
    let bytes = hash(&SHA256, canonical.as_bytes());
    bytes
        .as_ref()
        .iter()
        .take(8)
        .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

struct Sorted<'a>(&'a Value);

impl Serialize for Sorted<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Array(items) => serializer.collect_seq(items.iter().map(Sorted)),
            Value::Object(map) => {
                let mut fields: Vec<(&String, Sorted<'_>)> =
                    map.iter().map(|(key, value)| (key, Sorted(value))).collect();
                fields.sort_unstable_by_key(|(key, _)| *key);
                serializer.collect_map(fields)
            }
            other => other.serialize(serializer),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn canonical_form_sorts_keys_at_every_level() {
        let value: Value =
            serde_json::from_str(r#" { "b" : [ { "z": 1, "a": "é\n" } ], "a" : {"d": null, "c": 1.5} } "#)
                .unwrap();
        assert_eq!(
            canonical(&value),
            r#"{"a":{"c":1.5,"d":null},"b":[{"a":"é\n","z":1}]}"#
        );
    }

    #[test]
    fn digest_is_the_head_of_sha256_in_big_endian() {
        // SHA-256 of nothing begins with e3b0c44298fc1c14.
        assert_eq!(digest(""), 0xe3b0_c442_98fc_1c14);
        assert_ne!(digest("{}"), digest("[]"));
        assert_eq!(canonical(&json!({})), "{}");
    }
}
