//! What an agent sends to its platform.
//!
//! The four paths, the form of the token request and the JSON of each payload are those of the Obsyk operator. Objects are kept as
//! text: an agent writes them once, in their canonical form, and a platform reads what it needs.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Where tokens are issued.
pub const TOKEN_PATH: &str = "/oauth/token";
/// Where snapshots go.
pub const SNAPSHOT_PATH: &str = "/api/v1/agent/snapshot";
/// Where single changes go.
pub const EVENTS_PATH: &str = "/api/v1/agent/events";
/// Where heartbeats go.
pub const HEARTBEAT_PATH: &str = "/api/v1/agent/heartbeat";
/// The grant by which an agent gets a token (RFC 7523).
pub const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

/// What happened to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EventType {
    /// It is new to the platform.
    Added,
    /// It changed.
    Modified,
    /// It is gone.
    Deleted,
}

impl EventType {
    /// Reads the word in any case. Agents of an older generation say `UPDATED` for a modification.
    pub fn read(word: &str) -> Option<Self> {
        let is = |known: &str| word.eq_ignore_ascii_case(known);
        if is("added") {
            Some(Self::Added)
        } else if is("modified") || is("updated") {
            Some(Self::Modified)
        } else if is("deleted") {
            Some(Self::Deleted)
        } else {
            None
        }
    }
}

/// One change of one object, as the body of a request to [`EVENTS_PATH`].
#[derive(Debug, Serialize)]
pub struct EventPayload<'a> {
    /// The uid of the namespace `kube-system`.
    pub cluster_uid: &'a str,
    /// What happened.
    #[serde(rename = "type")]
    pub type_: EventType,
    /// The kind, such as `Pod`.
    pub kind: &'a str,
    /// The uid of the object.
    pub uid: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its namespace; absent for kinds without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<&'a str>,
    /// The object; absent if it is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<&'a RawValue>,
}

/// The body of a request to [`HEARTBEAT_PATH`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeartbeatPayload {
    /// The uid of the namespace `kube-system`.
    pub cluster_uid: String,
    /// The version of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_version: Option<String>,
}

/// What a snapshot says besides its arrays of objects.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotHead {
    /// The uid of the namespace `kube-system`.
    pub cluster_uid: String,
    /// The name of the cluster, for people.
    pub cluster_name: String,
    /// The version of its API server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes_version: Option<String>,
    /// Who runs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<String>,
    /// Where it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// The version of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_version: Option<String>,
}

/// The claims of an assertion. Times are in seconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AssertionClaims<'a> {
    /// The client.
    pub iss: &'a str,
    /// The client again.
    pub sub: &'a str,
    /// The platform's URL as the agent was given it, alone in a list.
    pub aud: [&'a str; 1],
    /// Now.
    pub iat: i64,
    /// In five minutes.
    pub exp: i64,
    /// Another for each try.
    pub jti: String,
}

/// The answer of [`TOKEN_PATH`].
#[derive(Deserialize)]
pub struct TokenResponse {
    /// The token.
    pub access_token: String,
    /// How long it is good, in seconds.
    #[serde(default)]
    pub expires_in: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_types_of_both_generations_are_read() {
        for (word, read) in [
            ("added", Some(EventType::Added)),
            ("UPDATED", Some(EventType::Modified)),
            ("Modified", Some(EventType::Modified)),
            ("DELETED", Some(EventType::Deleted)),
            ("renamed", None),
        ] {
            assert_eq!(EventType::read(word), read, "{word}");
        }
    }

    #[test]
    fn an_event_without_object_and_namespace_leaves_both_out() {
        let event = EventPayload {
            cluster_uid: "c",
            type_: EventType::Deleted,
            kind: "Node",
            uid: "u",
            name: "n",
            namespace: None,
            object: None,
        };
        assert_eq!(
            serde_json::to_string(&event).unwrap(),
            r#"{"cluster_uid":"c","type":"deleted","kind":"Node","uid":"u","name":"n"}"#
        );
    }
}
