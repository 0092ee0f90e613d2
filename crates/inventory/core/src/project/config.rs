//! ConfigMaps and Secrets, from table rows: the values of their keys never reach this program.

use super::output::Object;
use super::{Projection, ProjectionError};
use crate::kind::InventoryKind;
use crate::table::{KeyNames, Row};

/// The cell in which the API server prints the number of keys of a ConfigMap.
const CONFIG_MAP_COUNT: usize = 1;
/// The cell in which the API server prints the type of a Secret.
const SECRET_TYPE: usize = 1;
/// The cell in which the API server prints the number of keys of a Secret.
const SECRET_COUNT: usize = 2;

/// What is sent of a ConfigMap.
pub(super) fn config_map(json: &str) -> Result<Projection, ProjectionError> {
    let row = Row::read(InventoryKind::ConfigMap, json)?;
    let count = row.number(CONFIG_MAP_COUNT)?;
    let KeyNames {
        data,
        binary,
        immutable,
        ..
    } = row.keys;
    let is_complete = data.len() + binary.len() == count;
    let fields = Object::default()
        .optional("data_keys", data)
        .optional("binary_keys", binary)
        .always("immutable", immutable)
        .given("keys_complete", (!is_complete).then_some(false));
    row.metadata.finish(InventoryKind::ConfigMap, fields)
}

/// What is sent of a Secret.
pub(super) fn secret(json: &str) -> Result<Projection, ProjectionError> {
    let mut row = Row::read(InventoryKind::Secret, json)?;
    let count = row.number(SECRET_COUNT)?;
    let type_ = row.take(SECRET_TYPE)?;
    let (data, is_complete) = row.keys.of_secret(count);
    let fields = Object::default()
        .optional("type", type_)
        .optional("data_keys", data)
        .always("immutable", row.keys.immutable)
        .given("keys_complete", (!is_complete).then_some(false));
    row.metadata.finish(InventoryKind::Secret, fields)
}
