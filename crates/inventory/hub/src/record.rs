//! One object of a cluster as the hub keeps it, read from what an agent sent.
//!
//! Reading is lenient: fields that are null or of no use are passed over, kinds that the hub does not know are kept as they are. Only what
//! identifies an object must be there, within limits. Redaction runs here, so nothing behind this module sees what it removes.

use serde_json::Value;
use trustplane_inventory_core::{InventoryKind, canonical, digest, redact};

use crate::status::{Status, status, word};
use crate::store::merge::ObjectName;
use crate::time::{self, Millis};

/// The longest name and namespace: what Kubernetes permits.
pub const MAX_NAME: usize = 253;
/// The longest uid, of an object or a cluster.
pub const MAX_UID: usize = 128;
/// The longest kind.
pub const MAX_KIND: usize = 63;
/// How deep JSON may be nested.
pub const MAX_DEPTH: usize = 64;

/// What is wrong with a request: a field and the rule that it breaks. Never a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {rule}")]
pub struct Rejection {
    /// The field, such as `pods[3].uid`.
    pub field: String,
    /// The rule that it breaks.
    pub rule: String,
    /// For metrics.
    pub reason: Reason,
}

/// Why records are rejected, as a metric tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Reason {
    /// Not JSON, or not of the right shape.
    Malformed,
    /// A required field is missing.
    Missing,
    /// A field or the whole is too long or too deep.
    Limit,
}

impl Rejection {
    /// A field that breaks a rule.
    pub fn new(field: impl Into<String>, rule: impl Into<String>, reason: Reason) -> Self {
        Self {
            field: field.into(),
            rule: rule.into(),
            reason,
        }
    }

    /// The same within a larger whole.
    #[must_use]
    pub fn within(mut self, outer: &str) -> Self {
        self.field = format!("{outer}.{}", self.field);
        self
    }
}

/// An object, ready to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its kind.
    pub kind: String,
    /// Its uid.
    pub uid: String,
    /// Its namespace; empty if it has none.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its projection in canonical form, redacted.
    pub object: String,
    /// The digest of that.
    pub digest: i64,
    /// Its status.
    pub status: Status,
    /// By what related objects find it.
    pub link: Option<String>,
    /// When an Event happened last.
    pub occurred: Option<Millis>,
    /// When it was made.
    pub created: Option<Millis>,
}

/// Who an object is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectIdentity {
    /// Its kind.
    pub kind: String,
    /// Its uid.
    pub uid: String,
    /// Its namespace; empty if it has none.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl ObjectIdentity {
    /// Reads `uid`, `name` and `namespace` of a JSON object.
    pub fn read(kind: &str, from: &Value) -> Result<Self, Rejection> {
        Ok(Self {
            kind: checked("kind", kind, MAX_KIND)?,
            uid: required(from, "uid", MAX_UID)?,
            namespace: optional(from, "namespace", MAX_NAME)?.unwrap_or_default(),
            name: required(from, "name", MAX_NAME)?,
        })
    }
}

impl Record {
    /// Reads an object whose identity was read before.
    pub fn read(identity: ObjectIdentity, mut object: Value) -> Result<Self, Rejection> {
        if !object.is_object() {
            return Err(Rejection::new(
                "object",
                "must be a JSON object",
                Reason::Malformed,
            ));
        }
        let kind = InventoryKind::from_name(&identity.kind);
        redact::object(&identity.kind, &mut object);
        let canonical = canonical(&object);
        let ObjectIdentity {
            kind: kind_name,
            uid,
            namespace,
            name,
        } = identity;
        Ok(Self {
            digest: digest(&canonical).cast_signed(),
            status: status(kind, &object),
            link: link(kind, &object),
            occurred: (kind == Some(InventoryKind::Event)).then(|| occurred(&object)),
            created: time::read(word(&object, "k8s_created_at")),
            object: canonical,
            kind: kind_name,
            uid,
            namespace,
            name,
        })
    }

    /// Where it is among the live objects.
    pub fn object_name(&self) -> ObjectName {
        ObjectName {
            kind: self.kind.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }
}

/// By what related objects find an object: see the table `objects`.
fn link(kind: Option<InventoryKind>, object: &Value) -> Option<String> {
    let link = match kind? {
        InventoryKind::Pod => word(object, "node_name"),
        InventoryKind::Job => word(object, "owner_ref"),
        InventoryKind::Event => word(object.get("involved_object")?, "uid"),
        _ => return None,
    };
    (!link.is_empty() && link.len() <= MAX_NAME).then(|| link.to_owned())
}

/// Events are sorted by this, so it is never unknown.
fn occurred(event: &Value) -> Millis {
    ["last_timestamp", "first_timestamp", "k8s_created_at"]
        .iter()
        .find_map(|field| time::read(word(event, field)))
        .unwrap_or_default()
}

/// A text that must be there.
pub fn required(from: &Value, field: &'static str, limit: usize) -> Result<String, Rejection> {
    optional(from, field, limit)?.ok_or_else(|| Rejection::new(field, "required", Reason::Missing))
}

/// A text that may be missing, null or empty.
pub fn optional(from: &Value, field: &'static str, limit: usize) -> Result<Option<String>, Rejection> {
    match from.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.is_empty() => Ok(None),
        Some(Value::String(text)) => checked(field, text, limit).map(Some),
        Some(_) => Err(Rejection::new(field, "must be a text", Reason::Malformed)),
    }
}

fn checked(field: &'static str, text: &str, limit: usize) -> Result<String, Rejection> {
    if text.is_empty() {
        return Err(Rejection::new(field, "required", Reason::Missing));
    }
    if text.len() > limit {
        let rule = format!("must have at most {limit} bytes");
        return Err(Rejection::new(field, rule, Reason::Limit));
    }
    if text.chars().any(char::is_control) {
        return Err(Rejection::new(
            field,
            "must have no control characters",
            Reason::Malformed,
        ));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::arbitrary::projection;
    use crate::status::StatusClass;

    fn identity(kind: &str) -> ObjectIdentity {
        let object = json!({"uid": "u", "name": "n", "namespace": "ns"});
        ObjectIdentity::read(kind, &object).unwrap()
    }

    #[test]
    fn a_pod_is_read_with_what_finds_it() {
        let pod = json!({"uid": "u", "name": "n", "namespace": "ns", "node_name": "node-1", "phase": "Failed",
            "k8s_created_at": "2024-01-02T03:04:05Z", "field_of_tomorrow": [1], "labels": null});
        let record = Record::read(identity("Pod"), pod).unwrap();
        assert_eq!(record.link.as_deref(), Some("node-1"));
        assert_eq!(record.status.class, StatusClass::Error);
        assert_eq!(record.created, time::read("2024-01-02T03:04:05Z"));
        assert!(record.object.contains("field_of_tomorrow"));
    }

    #[test]
    fn an_unknown_kind_is_kept_without_its_values() {
        let object = json!({"uid": "u", "name": "n", "data": {"password": "hunter2"}, "spec": {"size": 1}});
        let record = Record::read(identity("Widget"), object).unwrap();
        assert_eq!(record.status.class, StatusClass::None);
        assert!(!record.object.contains("hunter2"));
        assert!(record.object.contains("size"));
    }

    #[test]
    fn an_event_happens_when_it_was_last_seen() {
        let event = |last: &str| {
            let object = json!({"last_timestamp": last, "first_timestamp": "2024-01-01T00:00:00Z",
                "involved_object": {"uid": "pod-uid"}});
            Record::read(identity("Event"), object).unwrap()
        };
        assert_eq!(
            event("2024-01-02T00:00:00Z").occurred,
            time::read("2024-01-02T00:00:00Z")
        );
        assert_eq!(
            event("0001-01-01T00:00:00Z").occurred,
            time::read("2024-01-01T00:00:00Z")
        );
        assert_eq!(event("").link.as_deref(), Some("pod-uid"));
    }

    #[test]
    fn an_identity_names_the_field_and_the_rule() {
        let told = |object: Value| ObjectIdentity::read("Pod", &object).unwrap_err().to_string();
        assert_eq!(told(json!({"uid": "u"})), "name: required");
        assert_eq!(told(json!({"uid": "", "name": "n"})), "uid: required");
        assert_eq!(told(json!({"uid": 7, "name": "n"})), "uid: must be a text");
        let long = "x".repeat(MAX_UID + 1);
        assert_eq!(
            told(json!({"uid": long, "name": "n"})),
            "uid: must have at most 128 bytes"
        );
        assert_eq!(
            told(json!({"uid": "u", "name": "n", "namespace": "a\u{0}b"})),
            "namespace: must have no control characters"
        );
    }

    #[test]
    fn null_and_empty_namespaces_are_none() {
        for namespace in [json!(null), json!("")] {
            let object = json!({"uid": "u", "name": "n", "namespace": namespace});
            assert_eq!(ObjectIdentity::read("Node", &object).unwrap().namespace, "");
        }
    }

    proptest! {
        #[test]
        fn no_object_makes_the_reader_panic(object in projection(), kind in 0..=InventoryKind::ALL.len()) {
            let kind = InventoryKind::ALL.get(kind).map_or("Widget", |kind| kind.name());
            let record = Record::read(identity(kind), object).unwrap();
            let value: Value = serde_json::from_str(&record.object).unwrap();
            let again = Record::read(identity(kind), value.clone()).unwrap();
            prop_assert_eq!(&record, &again, "to read twice is to read once");
            crate::facts::facts(kind, &value);
            for find in crate::related::finds(kind, "ns", "n", &value) {
                find.keeps(&value);
            }
        }
    }
}
