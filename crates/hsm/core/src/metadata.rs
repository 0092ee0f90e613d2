//! The metadata object of a secret: the JSON of the original, with our knowledge of the labels `sync.*` in it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::version::{Stamp, StampError};

/// What is known about a secret. An empty text means that it was not given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Metadata {
    /// What it is for.
    pub description: String,
    /// Labels of the user, and all others that we give no meaning to.
    pub labels: BTreeMap<String, String>,
    /// How the values are written.
    pub format: String,
    /// What the values are.
    pub data_type: String,
    /// When it was first written, as somebody said.
    pub created_at: String,
    /// Where it came from.
    pub source: String,
    /// What the labels `sync.*` say.
    pub stamp: Stamp,
}

/// Why a metadata object cannot be used. It holds nothing of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MetadataError {
    /// It is no JSON object with texts in it.
    #[error("is not the JSON that it should be (line {line}, column {column})")]
    Json {
        /// The line.
        line: usize,
        /// The column.
        column: usize,
    },
    /// A label of ours is wrong.
    #[error("{0}")]
    Stamp(#[from] StampError),
}

/// As it is read. `null` counts as not given, and fields that we do not know are left alone.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Read {
    description: Option<String>,
    labels: Option<BTreeMap<String, Option<String>>>,
    format: Option<String>,
    data_type: Option<String>,
    created_at: Option<String>,
    source: Option<String>,
}

/// As it is written, in the order of the original.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Written<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<&'a str, String>,
    #[serde(skip_serializing_if = "str::is_empty")]
    format: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    data_type: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    created_at: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    source: &'a str,
}

impl Metadata {
    /// Reads what we or the original wrote.
    pub fn parse(json: &[u8]) -> Result<Self, MetadataError> {
        // The parser's own words may quote the text.
        let read: Read = serde_json::from_slice(json).map_err(|error| MetadataError::Json {
            line: error.line(),
            column: error.column(),
        })?;
        let given = read.labels.unwrap_or_default().into_iter();
        let mut labels = given
            .map(|(label, text)| (label, text.unwrap_or_default()))
            .collect();
        Ok(Self {
            stamp: Stamp::take(&mut labels)?,
            labels,
            description: read.description.unwrap_or_default(),
            format: read.format.unwrap_or_default(),
            data_type: read.data_type.unwrap_or_default(),
            created_at: read.created_at.unwrap_or_default(),
            source: read.source.unwrap_or_default(),
        })
    }

    /// The JSON, byte by byte as the original writes it: sorted labels, and markup escaped.
    pub fn to_json(&self) -> String {
        let given = self
            .labels
            .iter()
            .map(|(label, text)| (label.as_str(), text.clone()));
        let written = Written {
            description: &self.description,
            labels: given.chain(self.stamp.labels()).collect(),
            format: &self.format,
            data_type: &self.data_type,
            created_at: &self.created_at,
            source: &self.source,
        };
        // Texts and maps of texts always have a JSON form, and markup can only stand within a text of it.
        let mut json = serde_json::to_string(&written).unwrap_or_default();
        let escapes = [
            ("<", "\\u003c"),
            (">", "\\u003e"),
            ("&", "\\u0026"),
            ("\u{2028}", "\\u2028"),
            ("\u{2029}", "\\u2029"),
        ];
        for (sign, escape) in escapes {
            if json.contains(sign) {
                json = json.replace(sign, escape);
            }
        }
        json
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_json_is_that_of_the_original() {
        let metadata = Metadata {
            description: "db <prod> & co".into(),
            labels: BTreeMap::from([("zone".into(), "b".into()), ("app".into(), "a".into())]),
            format: "json".into(),
            data_type: "plaintext".into(),
            created_at: "2026-01-02T03:04:05Z".into(),
            source: "cli".into(),
            stamp: Stamp {
                version: 3,
                timestamp: Some("2026-01-02T03:04:05.678Z".parse().unwrap()),
                ..Stamp::default()
            },
        };
        let json = concat!(
            r#"{"description":"db \u003cprod\u003e \u0026 co","labels":{"app":"a","sync.timestamp":"2026-01-02T03:04:05Z","#,
            r#""sync.version":"3","zone":"b"},"format":"json","dataType":"plaintext","createdAt":"2026-01-02T03:04:05Z","#,
            r#""source":"cli"}"#
        );
        assert_eq!(metadata.to_json(), json);
        assert_eq!(Metadata::default().to_json(), "{}");
    }

    #[test]
    fn what_others_wrote_is_read_with_patience() {
        let odd =
            br#" {"labels":{"a":null,"sync.version":"2"},"format":null,"unknown":[1,{}],"source":"x"} "#;
        let metadata = Metadata::parse(odd).unwrap();
        let expected = Metadata {
            labels: BTreeMap::from([("a".into(), String::new())]),
            source: "x".into(),
            stamp: Stamp {
                version: 2,
                ..Stamp::default()
            },
            ..Metadata::default()
        };
        assert_eq!(metadata, expected);
        assert_eq!(Metadata::parse(b"{}"), Ok(Metadata::default()));
        assert_eq!(Metadata::parse(br#"{"labels":null}"#), Ok(Metadata::default()));
    }

    #[test]
    fn what_cannot_be_understood_is_an_error_that_shows_nothing_of_it() {
        let cases: [&[u8]; 6] = [
            b"",
            b"hunter2",
            b"{\"description\":\"hunter2\"",
            br#"{"labels":{"a":12345}}"#,
            br#"{"description":{"hunter2":1}}"#,
            b"\xff",
        ];
        for bad in cases {
            let error = Metadata::parse(bad).unwrap_err().to_string();
            assert!(error.starts_with("is not the JSON"), "{error}");
            assert!(!error.contains("hunter2") && !error.contains("12345"), "{error}");
        }
        let error = Metadata::parse(br#"{"labels":{"sync.version":"hunter2"}}"#).unwrap_err();
        assert_eq!(error, MetadataError::Stamp(StampError::Version));
        assert!(!error.to_string().contains("hunter2"));
    }

    #[test]
    fn the_stamp_speaks_for_the_labels() {
        let metadata = Metadata {
            labels: BTreeMap::from([("sync.version".into(), "9".into())]),
            stamp: Stamp {
                version: 2,
                ..Stamp::default()
            },
            ..Metadata::default()
        };
        assert_eq!(metadata.to_json(), r#"{"labels":{"sync.version":"2"}}"#);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(
            description in any::<String>(), labels in prop::collection::btree_map("[a-z<&\"]{1,4}", any::<String>(), 0..3),
            version in 0_u64..5, deleted: bool,
        ) {
            let stamp = Stamp { version, deleted, ..Stamp::default() };
            let metadata = Metadata { description, labels, stamp, ..Metadata::default() };
            let json = metadata.to_json();
            let markup = ['<', '>', '&', '\u{2028}', '\u{2029}'];
            prop_assert!(!json.contains(markup), "{}", json);
            prop_assert_eq!(Metadata::parse(json.as_bytes()), Ok(metadata));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = Metadata::parse(&bytes);
        }
    }
}
