//! JSON values of any shape, for property tests.

use proptest::prelude::*;
use serde_json::Value;

/// Any JSON value, nested a few levels deep.
pub fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        // A fraction that text gives back as it was.
        any::<i32>().prop_map(|number| Value::from(f64::from(number) / 4.0)),
        ".{0,12}".prop_map(Value::from),
        r#"[\\"\[\]{}:,]{0,8}"#.prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((".{0,6}", inner), 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// An object that has some of the fields that projections have, each with any value.
pub fn projection() -> impl Strategy<Value = Value> {
    let field = prop::sample::select(vec![
        "phase",
        "containers",
        "init_containers",
        "conditions",
        "replicas",
        "ready_replicas",
        "updated_replicas",
        "status",
        "completions",
        "succeeded",
        "failed",
        "active",
        "suspend",
        "type",
        "involved_object",
        "source",
        "last_timestamp",
        "k8s_created_at",
        "node_name",
        "owner_ref",
        "selector",
        "pod_selector",
        "labels",
        "annotations",
        "volumes",
        "rules",
        "tls",
        "role_ref",
        "subjects",
        "ports",
        "data",
        "data_keys",
        "policy_types",
        "resources",
        "roles",
    ]);
    prop::collection::vec((field, json_value()), 0..12).prop_map(|fields| {
        Value::Object(
            fields
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value))
                .collect(),
        )
    })
}
