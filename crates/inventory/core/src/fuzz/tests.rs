use proptest::prelude::*;
use serde_json::{Map, json};

use super::*;

/// Any JSON, with the keys of Kubernetes more often than others.
fn any_json(keys: &'static [&'static str]) -> impl Strategy<Value = Value> {
    let key = prop_oneof![4 => prop::sample::select(keys).prop_map(str::to_owned), 1 => "[a-z./:-]{0,8}"];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
        prop::sample::select(vec![
            "2026-01-01T00:00:00Z",
            "Ready",
            "True",
            "CronJob",
            "kind: x",
            "{\"data\":1}"
        ])
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 48, 6, move |inner| {
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            3 => prop::collection::btree_map(key.clone(), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

const KEYS: &[&str] = &[
    "spec",
    "status",
    "name",
    "namespace",
    "type",
    "containers",
    "containerStatuses",
    "env",
    "volumes",
    "secret",
    "emptyDir",
    "ports",
    "rules",
    "resources",
    "requests",
    "subjects",
    "roleRef",
    "template",
    "conditions",
    "capacity",
    "selector",
    "matchLabels",
    "labels",
    "loadBalancer",
    "ingress",
    "involvedObject",
    "source",
    "count",
    "kind",
    "data",
];

const REDACTED_KEYS: &[&str] = &[
    "annotations",
    "metadata",
    "data",
    "stringData",
    "binaryData",
    "data_keys",
    "binary_keys",
    "labels",
    "immutable",
    "type",
    "kubernetes.io/a",
    "kapp.k14s.io/original",
];

const FIELD_KEYS: &[&str] = &[
    "f:data",
    "f:binaryData",
    "f:stringData",
    "f:immutable",
    "fieldsV1",
    "f:a",
    "f:b",
    ".",
    "f:",
];

fn texts() -> impl Strategy<Value = Map<String, Value>> {
    let key = prop_oneof!["[a-z./-]{1,12}", Just("kubernetes.io/a".to_owned())];
    let value = prop_oneof![
        "\\PC{0,20}",
        "[a-zA-Z0-9+/=]{0,24}",
        "(kind|data|a): [a-z\n]{0,8}"
    ];
    prop::collection::btree_map(key, value.prop_map(Value::from), 0..5)
        .prop_map(|map| map.into_iter().collect())
}

proptest! {
    #[test]
    fn any_text_holds(bytes in prop::collection::vec(any::<u8>(), 0..200), text in "[{}\\[\\]:,\"a-z0-9]{0,40}") {
        for bytes in [bytes.as_slice(), text.as_bytes()] {
            projection(bytes);
            table_row(bytes);
            redaction(bytes);
        }
    }

    #[test]
    fn any_json_holds(value in any_json(KEYS)) {
        projection(value.to_string().as_bytes());
    }

    #[test]
    fn any_json_with_a_head_holds(value in any_json(KEYS), labels in texts(), annotations in texts()) {
        let mut object = match value {
            Value::Object(map) => map,
            other => Map::from_iter([("spec".to_owned(), other)]),
        };
        object.insert("metadata".to_owned(), json!({
            "uid": "u", "name": "n", "namespace": "s", "labels": labels, "annotations": annotations,
        }));
        projection(Value::from(object).to_string().as_bytes());
    }

    #[test]
    fn any_cells_hold(cells in any_json(KEYS), fields in any_json(FIELD_KEYS)) {
        let metadata = json!({"uid": "u", "name": "n", "namespace": "s", "managedFields": fields});
        table_row(json!({"cells": cells, "object": {"metadata": metadata}}).to_string().as_bytes());
    }

    #[test]
    fn any_managed_fields_hold(count in 0..4, type_ in "[a-z./]{0,8}", fields in prop::collection::vec(any_json(FIELD_KEYS), 0..3)) {
        let entries: Vec<Value> = fields.into_iter().map(|fields| json!({"fieldsV1": fields})).collect();
        for cells in [json!(["n", type_, count, "5d"]), json!(["n", count, "5d"])] {
            let metadata = json!({"uid": "u", "name": "n", "namespace": "s", "managedFields": entries});
            table_row(json!({"cells": cells, "object": {"metadata": metadata}}).to_string().as_bytes());
        }
    }

    #[test]
    fn any_redaction_holds(value in any_json(REDACTED_KEYS), annotations in texts()) {
        let mut object = value;
        if let Value::Object(map) = &mut object {
            map.insert("annotations".to_owned(), annotations.into());
        }
        redaction(object.to_string().as_bytes());
    }

    /// The order of keys in an object changes nothing in what is sent of it.
    #[test]
    fn order_of_keys_does_not_matter(labels in texts()) {
        let forward: Vec<String> = labels.iter().map(|(key, value)| format!("{}:{value}", Value::from(key.as_str()))).collect();
        let backward: Vec<String> = forward.iter().rev().cloned().collect();
        let object = |labels: &[String]| {
            let text = format!(r#"{{"metadata":{{"labels":{{{}}},"name":"n","uid":"u"}}}}"#, labels.join(","));
            project(InventoryKind::Namespace, &text)
        };
        prop_assert_eq!(object(&forward), object(&backward));
    }
}
