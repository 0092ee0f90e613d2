//! An object as we wish it to be: exactly the fields that we own, and nothing else.

use std::fmt;

use serde_json::{Map, Value, json};

use crate::{Kind, ObjectRef, Owner, Target};

/// The fields that we want on one object. It is the body of a server-side apply, so a field that is left out is given up.
///
/// The `Debug` form never shows the content of a Secret.
#[derive(Clone, PartialEq)]
pub struct Manifest {
    kind: Kind,
    object: ObjectRef,
    labels: Map<String, Value>,
    annotations: Map<String, Value>,
    stamps: Map<String, Value>,
    owners: Vec<Owner>,
    fields: Map<String, Value>,
}

impl Manifest {
    /// An object with no field yet.
    pub fn new(kind: Kind, namespace: Option<&str>, name: &str) -> Self {
        Self {
            kind,
            object: ObjectRef::new(namespace, name),
            labels: Map::new(),
            annotations: Map::new(),
            stamps: Map::new(),
            owners: Vec::new(),
            fields: Map::new(),
        }
    }

    /// Adds a top-level field such as `data` or `spec`.
    #[must_use]
    pub fn with(mut self, field: &str, value: Value) -> Self {
        self.fields.insert(field.to_owned(), value);
        self
    }

    /// Adds a label.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.to_owned(), value.into());
        self
    }

    /// Adds an annotation.
    #[must_use]
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.annotations.insert(key.to_owned(), value.into());
        self
    }

    /// Adds an annotation that tells of the write itself, such as its time. It goes with every write and is never a reason
    /// for one.
    #[must_use]
    pub fn stamp(mut self, key: &str, value: &str) -> Self {
        self.stamps.insert(key.to_owned(), value.into());
        self
    }

    /// Adds an owner: the garbage collector removes the object with its last owner.
    #[must_use]
    pub fn owner(mut self, owner: Owner) -> Self {
        self.owners.push(owner);
        self
    }

    /// The value of an annotation, stamps apart.
    pub fn annotated(&self, key: &str) -> Option<&str> {
        self.annotations.get(key)?.as_str()
    }

    /// Its kind.
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// Its name.
    pub fn object(&self) -> &ObjectRef {
        &self.object
    }

    /// Kind and name together.
    pub fn target(&self) -> Target {
        Target {
            kind: self.kind.clone(),
            object: self.object.clone(),
        }
    }

    /// The wish without stamps and the parts that only name the object: what fingerprints and field sets are made from.
    pub fn wish(&self) -> Value {
        let mut wish = self.fields.clone();
        let mut metadata = Map::new();
        if !self.labels.is_empty() {
            metadata.insert("labels".into(), Value::Object(self.labels.clone()));
        }
        if !self.annotations.is_empty() {
            metadata.insert("annotations".into(), Value::Object(self.annotations.clone()));
        }
        if !self.owners.is_empty() {
            metadata.insert(
                "ownerReferences".into(),
                self.owners.iter().map(Owner::to_json).collect(),
            );
        }
        if !metadata.is_empty() {
            wish.insert("metadata".into(), Value::Object(metadata));
        }
        Value::Object(wish)
    }

    /// The whole body of an apply.
    pub fn body(&self) -> Value {
        let mut body = self.wish();
        let Some(map) = body.as_object_mut() else {
            return body;
        };
        map.insert("apiVersion".into(), self.kind.api_version().into());
        map.insert("kind".into(), self.kind.kind.as_ref().into());
        let metadata = map.entry("metadata").or_insert_with(|| json!({}));
        for (key, value) in &self.stamps {
            metadata["annotations"][key] = value.clone();
        }
        metadata["name"] = self.object.name().into();
        if let Some(namespace) = self.object.namespace() {
            metadata["namespace"] = namespace.into();
        }
        body
    }

    /// The body with the content of a Secret replaced by its size, for people to look at.
    pub fn redacted(&self) -> Value {
        let mut body = self.body();
        if self.kind.kind == "Secret" && self.kind.group.is_empty() {
            for field in ["data", "stringData"] {
                let Some(Value::Object(content)) = body.get_mut(field) else {
                    continue;
                };
                for value in content.values_mut() {
                    let size = value.as_str().map_or(0, str::len);
                    *value = format!("<{size} characters>").into();
                }
            }
        }
        body
    }
}

impl fmt::Debug for Manifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Manifest({})", self.redacted())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::SECRET;

    #[test]
    fn a_secret_never_shows_in_debug() {
        let wish = Manifest::new(SECRET, Some("a"), "b")
            .with("data", json!({"password": "aHVudGVyMg=="}))
            .with("stringData", json!({"other": "hunter2"}));
        let shown = format!("{wish:?}");
        assert!(
            !shown.contains("aHVudGVyMg") && !shown.contains("hunter2"),
            "{shown}"
        );
        assert!(shown.contains("<12 characters>"));
        assert_eq!(wish.body()["data"]["password"], "aHVudGVyMg==");
    }

    #[test]
    fn a_stamp_is_written_and_not_compared() {
        let plain = Manifest::new(SECRET, Some("a"), "b");
        let stamped = plain.clone().stamp("at", "noon");
        assert_eq!(stamped.wish(), plain.wish());
        assert_eq!(stamped.body()["metadata"]["annotations"], json!({"at": "noon"}));
        let both = stamped.annotation("by", "us");
        assert_eq!(
            both.body()["metadata"]["annotations"],
            json!({"at": "noon", "by": "us"})
        );
    }
}
