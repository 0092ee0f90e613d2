//! The fields of a ConfigMap and of a Secret on the wire. No other field of them is stored.

use serde_json::{Map, Value};

use crate::kind::InventoryKind;

/// The type that a field must have.
#[derive(Clone, Copy)]
pub(super) enum Shape {
    Text,
    Bool,
    Names,
    Texts,
}

type Field = (&'static str, Shape);

const SECRET: &[Field] = &[
    ("annotations", Shape::Texts),
    ("data_keys", Shape::Names),
    ("immutable", Shape::Bool),
    ("k8s_created_at", Shape::Text),
    ("keys_complete", Shape::Bool),
    ("labels", Shape::Texts),
    ("name", Shape::Text),
    ("namespace", Shape::Text),
    ("type", Shape::Text),
    ("uid", Shape::Text),
];

const CONFIG_MAP: &[Field] = &[
    ("annotations", Shape::Texts),
    ("binary_keys", Shape::Names),
    ("data_keys", Shape::Names),
    ("immutable", Shape::Bool),
    ("k8s_created_at", Shape::Text),
    ("keys_complete", Shape::Bool),
    ("labels", Shape::Texts),
    ("name", Shape::Text),
    ("namespace", Shape::Text),
    ("uid", Shape::Text),
];

/// The only fields that an object of this kind may have; `None` where other fields are permitted.
pub(super) fn fields(kind: InventoryKind) -> Option<&'static [Field]> {
    match kind {
        InventoryKind::Secret => Some(SECRET),
        InventoryKind::ConfigMap => Some(CONFIG_MAP),
        _ => None,
    }
}

/// Keeps only the fields of the contract that have the right type.
pub(super) fn keep(contract: &[Field], fields: &mut Map<String, Value>) {
    fields.retain(|key, value| {
        contract
            .iter()
            .any(|(name, shape)| name == key && shape.fits(value))
    });
}

impl Shape {
    fn fits(self, value: &Value) -> bool {
        match self {
            Self::Text => value.is_string(),
            Self::Bool => value.is_boolean(),
            Self::Names => value
                .as_array()
                .is_some_and(|names| names.iter().all(Value::is_string)),
            Self::Texts => value
                .as_object()
                .is_some_and(|texts| texts.values().all(Value::is_string)),
        }
    }
}
