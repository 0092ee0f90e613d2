//! The metadata of a live object, as small as the reader needs it.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use crate::{FieldSet, Kind, ObjectRef, Scope, Target};

/// An owner of an object.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Owner {
    /// `apiVersion` of the owner.
    pub api_version: String,
    /// `kind` of the owner.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Whether it is the one controller of the object.
    #[serde(default)]
    pub controller: bool,
    /// Whether a foreground deletion of the owner waits for the object.
    #[serde(default)]
    pub block_owner_deletion: bool,
}

impl Owner {
    /// Makes the live object the one controller of a child.
    ///
    /// `None` where the garbage collector would delete the child at once: a namespaced owner does not count for a child in
    /// another namespace or in none.
    pub fn controller(kind: &Kind, owner: &Meta, child_namespace: Option<&str>) -> Option<Self> {
        if kind.scope == Scope::Namespaced && owner.object.namespace() != child_namespace {
            return None;
        }
        Some(Self {
            api_version: kind.api_version(),
            kind: kind.kind.to_string(),
            name: owner.object.name().to_owned(),
            uid: owner.uid.to_string(),
            controller: true,
            block_owner_deletion: false,
        })
    }

    /// Makes a foreground deletion of the owner wait for the child.
    ///
    /// **Caveats.** Where the API server enforces permissions on owner references, the writer needs the right to `update` the
    /// finalizers of the owner.
    #[must_use]
    pub fn blocking(mut self) -> Self {
        self.block_owner_deletion = true;
        self
    }

    /// The reference as it stands in `metadata.ownerReferences`.
    pub fn to_json(&self) -> Value {
        let mut reference = json!({
            "apiVersion": self.api_version, "kind": self.kind, "name": self.name, "uid": self.uid,
            "controller": self.controller,
        });
        if self.block_owner_deletion {
            reference["blockOwnerDeletion"] = true.into();
        }
        reference
    }
}

/// Metadata of a live object: what rules look at, without `managedFields` and, if so chosen, without annotations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meta {
    /// Namespace and name.
    pub object: ObjectRef,
    /// The uid: the same name with another uid is another object.
    pub uid: Arc<str>,
    /// The version last seen.
    pub resource_version: Arc<str>,
    /// The generation of the spec; 0 for kinds that have none.
    pub generation: i64,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations, where they were kept.
    pub annotations: BTreeMap<String, String>,
    /// Owners.
    pub owners: Vec<Owner>,
    /// Finalizers.
    pub finalizers: Vec<String>,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// When somebody asked for its deletion.
    pub deleted: Option<Timestamp>,
    /// The fields of the manager that was asked for; empty otherwise.
    pub fields: FieldSet,
}

/// What to keep of the parts of metadata that are large.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Keep {
    /// Keep annotations.
    pub annotations: bool,
    /// Keep the field set of this manager (its applies to the object itself, not to a subresource).
    pub manager: Option<String>,
}

impl Keep {
    /// Everything that [`crate::converge`] looks at, for objects written under this field manager.
    pub fn owned_by(manager: &str) -> Self {
        Self {
            annotations: true,
            manager: Some(manager.to_owned()),
        }
    }
}

/// An object without usable metadata.
#[derive(Debug, thiserror::Error)]
#[error("failed to read the metadata of an object: {0}")]
pub struct MetaError(#[from] serde_json::Error);

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    metadata: Raw<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Raw<'a> {
    name: String,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    generation: Option<i64>,
    labels: Option<BTreeMap<String, String>>,
    /// Text until it is known that they are kept: they may hold a whole manifest.
    #[serde(borrow)]
    annotations: Option<&'a RawValue>,
    owner_references: Option<Vec<Owner>>,
    finalizers: Option<Vec<String>>,
    creation_timestamp: Option<Timestamp>,
    deletion_timestamp: Option<Timestamp>,
    #[serde(borrow)]
    managed_fields: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Managed<'a> {
    manager: Option<String>,
    operation: Option<String>,
    subresource: Option<String>,
    #[serde(borrow)]
    fields_v1: Option<&'a RawValue>,
}

impl Meta {
    /// Reads the metadata of an object from its JSON. The rest of the object is skipped, not built, and so are annotations
    /// and `managedFields` that are not kept.
    pub fn decode(json: &str, keep: &Keep) -> Result<Self, MetaError> {
        let Envelope { metadata: raw } = serde_json::from_str(json)?;
        let fields = match (&keep.manager, raw.managed_fields) {
            (Some(manager), Some(managed)) => applied_fields(managed.get(), manager)?,
            _ => FieldSet::default(),
        };
        let annotations = match raw.annotations {
            Some(annotations) if keep.annotations => serde_json::from_str(annotations.get())?,
            _ => BTreeMap::new(),
        };
        Ok(Self {
            object: ObjectRef::new(raw.namespace.as_deref(), &raw.name),
            uid: raw.uid.unwrap_or_default().into(),
            resource_version: raw.resource_version.unwrap_or_default().into(),
            generation: raw.generation.unwrap_or_default(),
            labels: raw.labels.unwrap_or_default(),
            annotations,
            owners: raw.owner_references.unwrap_or_default(),
            finalizers: raw.finalizers.unwrap_or_default(),
            created: raw.creation_timestamp,
            deleted: raw.deletion_timestamp,
            fields,
        })
    }

    /// The object as the target of a step or a note.
    pub fn target(&self, kind: &Kind) -> Target {
        Target {
            kind: kind.clone(),
            object: self.object.clone(),
        }
    }

    /// Whether somebody asked for its deletion.
    pub fn is_terminating(&self) -> bool {
        self.deleted.is_some()
    }
}

/// The fields that a manager applied to the object itself, from the text of `managedFields`.
fn applied_fields(managed: &str, manager: &str) -> Result<FieldSet, MetaError> {
    let entries: Vec<Managed<'_>> = serde_json::from_str(managed)?;
    let mut fields = FieldSet::default();
    for entry in entries {
        let ours = entry.manager.as_deref() == Some(manager)
            && entry.operation.as_deref() == Some("Apply")
            && entry.subresource.as_deref().unwrap_or_default().is_empty();
        if let (true, Some(tree)) = (ours, entry.fields_v1) {
            fields.extend(FieldSet::from_fields_v1(&serde_json::from_str(tree.get())?));
        }
    }
    Ok(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `fieldsV1` of another manager, and an annotation that is not a text: neither may be looked at unless it is kept.
    const ODD: &str =
        r#"{"metadata":{"name":"n","annotations":{"a":1},"managedFields":[{"manager":2}]},"data":{}}"#;

    #[test]
    fn decode_skips_annotations_and_managed_fields_that_are_not_kept() {
        let meta = Meta::decode(ODD, &Keep::default()).unwrap();
        assert!(meta.annotations.is_empty() && meta.fields == FieldSet::default());
        let kept = |annotations, manager: Option<&str>| Keep {
            annotations,
            manager: manager.map(str::to_owned),
        };
        assert!(Meta::decode(ODD, &kept(true, None)).is_err());
        assert!(Meta::decode(ODD, &kept(false, Some("m"))).is_err());
    }

    #[test]
    fn decode_reads_what_is_kept() {
        let json = r#"{"metadata":{"name":"n","annotations":{"a":"\u0062"},"managedFields":[
            {"manager":"m","operation":"Apply","fieldsV1":{"f:data":{"f:k":{}}}},
            {"manager":"m","operation":"Update","fieldsV1":{"f:data":{"f:other":{}}}}]}}"#;
        let meta = Meta::decode(json, &Keep::owned_by("m")).unwrap();
        assert_eq!(meta.annotations["a"], "b");
        let tree = serde_json::json!({"f:data": {"f:k": {}}});
        assert_eq!(meta.fields, FieldSet::from_fields_v1(&tree));
        let none = r#"{"metadata":{"name":"n","annotations":null,"managedFields":null}}"#;
        assert!(
            Meta::decode(none, &Keep::owned_by("m"))
                .unwrap()
                .annotations
                .is_empty()
        );
    }
}
