//! Expected results are written by hand from section 2.5 of the contract, never from what the code printed.

mod canaries;
mod cluster;
mod config;
mod events;
mod head;
mod jobs;
mod network;
mod pods;
mod rbac;
mod storage;
mod workloads;

use serde_json::Value;

use super::project;
use crate::canonical;
use crate::kind::InventoryKind;

/// Asserts that exactly this is sent of an object or of a table row.
#[track_caller]
fn expect(kind: InventoryKind, input: &Value, expected: &Value) {
    let sent = project(kind, &input.to_string()).unwrap();
    let object: Value = serde_json::from_str(&sent.object).unwrap();
    assert_eq!(&object, expected);
    assert_eq!(sent.object, canonical(expected), "not in canonical form");
    assert_eq!(expected["uid"], *sent.uid);
    assert_eq!(expected["name"], *sent.name);
    assert_eq!(
        expected.get("namespace").and_then(Value::as_str),
        sent.namespace.as_deref()
    );
}
