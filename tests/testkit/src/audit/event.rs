//! One line of the audit log.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

/// A request that the API server has answered, or a watch that it has begun to answer.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// The verb, as roles name it.
    pub verb: String,
    /// How far the request had come.
    pub stage: String,
    #[serde(rename = "requestURI")]
    pub(super) request_uri: String,
    pub(super) user: User,
    #[serde(default)]
    pub(super) user_agent: String,
    #[serde(default)]
    pub(super) object_ref: ObjectReference,
    #[serde(default)]
    response_status: ResponseStatus,
    /// When the API server got the request.
    #[serde(rename = "requestReceivedTimestamp")]
    pub received: Timestamp,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    /// What was sent, where the audit policy keeps it.
    pub request_object: Option<Value>,
    /// What was answered, where the audit policy keeps it.
    pub response_object: Option<Value>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct User {
    #[serde(default)]
    pub(super) username: String,
    #[serde(default)]
    pub(super) extra: BTreeMap<String, Vec<String>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ObjectReference {
    pub(super) resource: String,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) api_group: String,
    pub(super) subresource: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct ResponseStatus {
    code: u16,
}

impl Event {
    /// The status code of the answer.
    pub fn code(&self) -> u16 {
        self.response_status.code
    }

    /// Who asked, by user agent.
    pub fn agent(&self) -> &str {
        &self.user_agent
    }

    /// Who asked, by user name.
    pub fn user(&self) -> &str {
        &self.user.username
    }

    /// The plural of the kind.
    pub fn resource(&self) -> &str {
        &self.object_ref.resource
    }

    /// The subresource; empty for the object itself.
    pub fn subresource(&self) -> &str {
        &self.object_ref.subresource
    }

    /// The namespace; empty for objects that live in none.
    pub fn namespace(&self) -> &str {
        &self.object_ref.namespace
    }

    /// The name of the object. A create names it in its body only.
    pub fn name(&self) -> &str {
        let sent = || self.request_object.as_ref()?.pointer("/metadata/name")?.as_str();
        match self.object_ref.name.as_str() {
            "" => sent().unwrap_or_default(),
            name => name,
        }
    }

    /// Whether it was asked to change something. A review asks a question by creating an object that nobody keeps, and a
    /// dry run changes nothing.
    pub fn is_write(&self) -> bool {
        const QUESTIONS: [&str; 2] = ["authorization.k8s.io", "authentication.k8s.io"];
        matches!(
            self.verb.as_str(),
            "create" | "update" | "patch" | "delete" | "deletecollection"
        ) && !QUESTIONS.contains(&self.object_ref.api_group.as_str())
            && !self.request_uri.contains("dryRun=All")
    }

    /// Whether it was let through to take effect.
    pub fn succeeded(&self) -> bool {
        (200..300).contains(&self.code())
    }

    /// Whether the request was forbidden.
    pub fn denied(&self) -> bool {
        self.annotations
            .get("authorization.k8s.io/decision")
            .map(String::as_str)
            == Some("forbid")
    }

    /// Why the authorizer let it through, such as the binding that grants it.
    pub fn reason(&self) -> &str {
        self.annotations
            .get("authorization.k8s.io/reason")
            .map_or("", String::as_str)
    }

    /// Whether the token with this id was used.
    pub(super) fn used(&self, credential: &str) -> bool {
        let ids = self.user.extra.get("authentication.kubernetes.io/credential-id");
        ids.is_some_and(|ids| ids.iter().any(|id| id == credential))
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = &self.object_ref;
        write!(f, "{} {} {}", self.received, self.verb, place.resource)?;
        if !place.subresource.is_empty() {
            write!(f, "/{}", place.subresource)?;
        }
        write!(f, " {}/{}", place.namespace, self.name())?;
        write!(f, " → {} by {} ({})", self.code(), self.user(), self.agent())
    }
}
