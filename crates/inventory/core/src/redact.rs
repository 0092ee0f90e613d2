//! What must never leave a cluster, and never be stored at a hub.
//!
//! The agent applies these rules while it reads an object; the hub applies them again to what any agent sends. Labels, key names,
//! names of environment variables and the messages of Events pass: they are the inventory.

mod contract;
pub mod keys;
mod manifest;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

use crate::kind::InventoryKind;
pub use keys::keeps_key;

/// The longest value of an annotation that passes, in bytes. Longer ones are configuration or packed objects.
pub const LONGEST_VALUE: usize = 4096;

/// Fields that hold the values of a ConfigMap or Secret.
const VALUES: [&str; 3] = ["data", "stringData", "binaryData"];

/// Whether the value of an annotation passes: it is short, and it is not a manifest, neither as text nor packed.
pub fn keeps_value(value: &str) -> bool {
    value.len() <= LONGEST_VALUE && !manifest::is_manifest(value)
}

/// Removes the annotations that must not pass, and those that are not texts.
pub fn annotations(annotations: &mut Map<String, Value>) {
    annotations.retain(|key, value| keeps_key(key) && value.as_str().is_some_and(keeps_value));
}

/// Removes from an object, as an agent sent it, what must not be stored. `kind` is the kind on the wire, which may be unknown.
///
/// - Annotations that must not pass go; if none is left, the field goes.
/// - Of a ConfigMap or Secret only the fields of the contract stay, each only in its type.
/// - From objects of other kinds `data`, `stringData` and `binaryData` go.
/// - A value that is not an object becomes `null`.
///
/// To redact twice is to redact once, and what [`project`](crate::project) makes stays as it is.
pub fn object(kind: &str, object: &mut Value) {
    let Value::Object(fields) = object else {
        *object = Value::Null;
        return;
    };
    remove_annotations(fields);
    match InventoryKind::from_name(kind).and_then(contract::fields) {
        Some(contract) => contract::keep(contract, fields),
        None => {
            fields.retain(|key, _| !VALUES.contains(&key.as_str()));
            // A kind that is unknown here may come as a whole object of Kubernetes.
            if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
                remove_annotations(metadata);
            }
        }
    }
}

fn remove_annotations(fields: &mut Map<String, Value>) {
    let Some(value) = fields.get_mut("annotations") else {
        return;
    };
    let is_left = match value {
        Value::Object(map) => {
            annotations(map);
            !map.is_empty()
        }
        _ => false,
    };
    if !is_left {
        fields.remove("annotations");
    }
}
