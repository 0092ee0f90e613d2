//! What `kubectl trustplane hsm` and the tool `trustplane-agent secrets` say to each other: one request and one answer, each a
//! JSON document on one line.
//!
//! `V` is a value of a secret. Each side has its own type for it, which wipes and redacts the value, and writes it as base64.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The subcommand of the agent's program that answers requests.
pub const SUBCOMMAND: &str = "secrets";

/// What the plugin asks of the agent of one token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum Request<V> {
    /// Every secret of the token, without values. Deleted secrets are included.
    List {},
    /// One secret.
    Read {
        /// Its path.
        path: String,
        /// Whether the answer has the values. Without them it has their sizes only.
        values: bool,
    },
    /// Write a secret.
    Write {
        /// Its path.
        path: String,
        /// What happens to the keys that the secret has.
        mode: WriteMode,
        /// Keys and values.
        data: BTreeMap<String, V>,
        /// What the secret is for; without this an existing secret keeps its description.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        description: Option<String>,
    },
    /// Delete a secret, or one key of it.
    Delete {
        /// Its path.
        path: String,
        /// The key; without this the whole secret.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
    },
}

/// What a write does with the secret at the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WriteMode {
    /// Makes the secret. If there is a secret with the same content, it is left as it is; a secret with other content is an error.
    Create,
    /// Sets the given keys and keeps the others. The secret must exist.
    Merge,
    /// Sets the given keys and removes the others. The secret must exist.
    Replace,
}

/// What the agent of one token answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum Answer<V> {
    /// Every secret of the token.
    List {
        /// The secrets, in the order of their paths.
        secrets: Vec<ListedSecret>,
    },
    /// One secret that was not deleted.
    Secret(TokenSecret<V>),
    /// A secret was written or deleted, or already had the wanted content.
    Changed {
        /// The version of the secret, or of its tombstone.
        version: u64,
        /// The checksum of its data; absent for a deleted secret.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        checksum: Option<String>,
        /// Whether the token was written to.
        written: bool,
    },
    /// The request was not carried out.
    Error(ToolError),
}

/// What is known about a secret without its values.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListedSecret {
    /// Its path.
    pub path: String,
    /// Its version.
    pub version: u64,
    /// The checksum of its data.
    pub checksum: String,
    /// The digest of its data. Two secrets have the same digest only if they have the same keys with the same values.
    pub digest: String,
    /// How many keys it has.
    pub keys: u32,
    /// Whether it was deleted.
    pub deleted: bool,
    /// When it was written, as an RFC 3339 time.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub timestamp: String,
    /// What it is for.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Why it cannot be read; then only the path is known. Empty if it can be read.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub fault: String,
}

/// One secret as a token has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenSecret<V> {
    /// Its version.
    pub version: u64,
    /// The checksum of its data.
    pub checksum: String,
    /// The digest of its data. Two secrets have the same digest only if they have the same keys with the same values.
    pub digest: String,
    /// What it is for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// How many bytes the value of each key has.
    pub sizes: BTreeMap<String, usize>,
    /// Keys and values, if they were asked for.
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    pub data: Option<BTreeMap<String, V>>,
}

/// Why a request was not carried out. No text holds a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolError {
    /// What it means, for programs.
    pub kind: ErrorKind,
    /// What it means, for people.
    pub message: String,
    /// How the agent is doing, if it does not serve the token: the phase that it reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
}

/// What an error means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorKind {
    /// The token has no such secret, or the secret has no such key.
    NotFound,
    /// The token has a secret with other content at the path.
    Exists,
    /// Other writers changed the secret at every attempt.
    Conflict,
    /// Neither this token nor any token like it can take what the request asks for.
    Invalid,
    /// The token has no room.
    Full,
    /// The token has a secret at the path that cannot be read.
    Damaged,
    /// The token in its present state refuses the change.
    Refused,
    /// The agent does not serve the token. Nothing was changed.
    Unavailable,
    /// The connection or the token failed during the change: it is not known whether the token has the change.
    EffectUnknown,
    /// The agent does not know the request: agent and plugin are of different versions.
    Unsupported,
    /// A kind that this version does not know.
    #[serde(other)]
    Other,
}

impl ToolError {
    /// An error with this text.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            phase: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn requests_are_documents_with_one_named_field() {
        let write = Request::Write {
            path: "shop/db".to_owned(),
            mode: WriteMode::Merge,
            data: [("user".to_owned(), "YWRtaW4=".to_owned())].into(),
            description: None,
        };
        let cases = [
            (Request::List {}, json!({"list": {}})),
            (
                write,
                json!({"write": {"path": "shop/db", "mode": "merge", "data": {"user": "YWRtaW4="}}}),
            ),
            (
                Request::Delete {
                    path: "a".to_owned(),
                    key: Some("k".to_owned()),
                },
                json!({"delete": {"path": "a", "key": "k"}}),
            ),
        ];
        for (request, document) in cases {
            assert_eq!(serde_json::to_value(&request).unwrap(), document);
            assert_eq!(
                serde_json::from_value::<Request<String>>(document).unwrap(),
                request
            );
        }
    }

    #[test]
    fn an_error_of_a_newer_agent_is_understood_as_another_kind() {
        let document = json!({"error": {"kind": "on-fire", "message": "m"}});
        let answer: Answer<String> = serde_json::from_value(document).unwrap();
        assert_eq!(answer, Answer::Error(ToolError::new(ErrorKind::Other, "m")));
    }
}
