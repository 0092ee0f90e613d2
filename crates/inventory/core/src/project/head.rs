//! The head that all kinds share, from `metadata`.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::input::{Map, Text, Time};
use super::output::Object;
use super::{Projection, ProjectionError};
use crate::kind::InventoryKind;
use crate::redact;

/// What stands for the creation of an object that has no such time: the zero time of Go.
const NO_TIME: &str = "0001-01-01T00:00:00Z";
/// The longest text of a JSON string that may still be a short annotation: an escape has six bytes for one.
const LONGEST_RAW: usize = 6 * redact::LONGEST_VALUE + 2;

/// The metadata of an object, without managed fields and without annotations that must not pass.
#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Metadata<'a> {
    #[serde(borrow)]
    uid: Option<Text<'a>>,
    pub(crate) name: Option<Text<'a>>,
    namespace: Option<Text<'a>>,
    pub(crate) labels: Option<Map<'a>>,
    annotations: Option<Annotations<'a>>,
    creation_timestamp: Option<Time>,
    pub(crate) owner_references: Option<Vec<Owner<'a>>>,
}

/// An owner of an object.
#[derive(serde::Deserialize)]
pub(crate) struct Owner<'a> {
    #[serde(borrow)]
    pub(crate) kind: Option<Text<'a>>,
    pub(crate) name: Option<Text<'a>>,
}

impl<'a> Metadata<'a> {
    /// Joins the head with the fields of the kind.
    pub(crate) fn finish(
        self,
        kind: InventoryKind,
        fields: Object<'a>,
    ) -> Result<Projection, ProjectionError> {
        let uid = required(self.uid, "metadata.uid")?;
        let name = required(self.name, "metadata.name")?;
        let namespace = kind.is_namespaced().then(|| self.namespace.unwrap_or_default());
        let mut projection = Projection {
            uid: uid.as_str().into(),
            namespace: namespace
                .as_ref()
                .map(Text::as_str)
                .filter(|name| !name.is_empty())
                .map(Into::into),
            name: name.as_str().into(),
            object: String::new(),
        };
        let mut object = fields
            .always("uid", uid)
            .always("name", name)
            .given("namespace", namespace);
        object = match self.creation_timestamp {
            Some(time) => object.always("k8s_created_at", time),
            None => object.always("k8s_created_at", NO_TIME),
        };
        if kind != InventoryKind::Event {
            object = object
                .optional("labels", self.labels)
                .optional("annotations", self.annotations.map(|annotations| annotations.0));
        }
        projection.object = serde_json::to_string(&object)?;
        Ok(projection)
    }
}

fn required<'a>(text: Option<Text<'a>>, field: &'static str) -> Result<Text<'a>, ProjectionError> {
    text.filter(|text| !text.as_str().is_empty())
        .ok_or(ProjectionError::Unnamed(field))
}

/// The annotations that pass the redaction. The others are skipped in the text: those that a key or their length rules out are
/// not even copied.
#[derive(Default)]
struct Annotations<'a>(Map<'a>);

impl<'de: 'a, 'a> Deserialize<'de> for Annotations<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(AnnotationsVisitor).map(Self)
    }
}

struct AnnotationsVisitor;

impl<'de> Visitor<'de> for AnnotationsVisitor {
    type Value = Map<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("annotations")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
        let mut kept = Map::new();
        while let Some(key) = access.next_key::<Text<'de>>()? {
            // Of two equal keys the last one counts, also if it is not kept.
            kept.remove(&key);
            if !redact::keeps_key(key.as_str()) {
                access.next_value::<IgnoredAny>()?;
                continue;
            }
            let raw = access.next_value::<&'de RawValue>()?.get();
            if raw.len() > LONGEST_RAW {
                continue;
            }
            let value: Text<'de> = serde_json::from_str(raw).map_err(serde::de::Error::custom)?;
            if redact::keeps_value(value.as_str()) {
                kept.insert(key, value);
            }
        }
        Ok(kept)
    }
}
