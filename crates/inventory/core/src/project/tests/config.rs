use serde_json::{Value, json};

use super::expect;
use crate::kind::InventoryKind::{ConfigMap, Secret};

const CREATED: &str = "2026-01-01T00:00:00Z";

fn row(cells: Value, managed_fields: Value) -> Value {
    json!({
        "cells": cells,
        "object": {
            "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
            "metadata": {
                "uid": "u", "name": "db", "namespace": "shop", "resourceVersion": "7", "creationTimestamp": CREATED,
                "labels": {"app": "db"}, "annotations": {"team": "core", "kubernetes.io/x": "y"}, "managedFields": managed_fields,
            },
        },
    })
}

/// What is sent of the row of a Secret or ConfigMap, besides its head.
fn sent(mut fields: Value) -> Value {
    fields["uid"] = "u".into();
    fields["name"] = "db".into();
    fields["namespace"] = "shop".into();
    fields["k8s_created_at"] = CREATED.into();
    fields["labels"] = json!({"app": "db"});
    fields["annotations"] = json!({"team": "core"});
    fields
}

#[test]
fn secret_sends_type_and_key_names_of_all_managers() {
    expect(
        Secret,
        &row(
            json!(["db", "kubernetes.io/tls", 3, "5d"]),
            json!([
                {"manager": "kubectl", "operation": "Apply", "apiVersion": "v1", "time": CREATED, "fieldsType": "FieldsV1",
                 "fieldsV1": {"f:data": {".": {}, "f:tls.key": {}, "f:tls.crt": {}}, "f:type": {}}},
                {"manager": "rotator", "operation": "Update", "fieldsV1": {"f:data": {"f:ca.crt": {}, "f:tls.crt": {}}, "f:immutable": {}}},
            ]),
        ),
        &sent(
            json!({"type": "kubernetes.io/tls", "data_keys": ["ca.crt", "tls.crt", "tls.key"], "immutable": true}),
        ),
    );
}

#[test]
fn secret_without_keys_is_complete() {
    for managed in [
        json!(null),
        json!([]),
        json!([{}]),
        json!([{"fieldsV1": {"f:type": {}}}]),
    ] {
        expect(
            Secret,
            &row(json!(["db", "Opaque", 0, "5d"]), managed),
            &sent(json!({"type": "Opaque", "immutable": false})),
        );
    }
}

#[test]
fn secret_with_unknown_keys_says_so() {
    expect(
        Secret,
        &row(json!(["db", "Opaque", 2, "5d"]), json!(null)),
        &sent(json!({"type": "Opaque", "immutable": false, "keys_complete": false})),
    );
    expect(
        Secret,
        &row(
            json!(["db", "Opaque", 2, "5d"]),
            json!([{"fieldsV1": {"f:data": {"f:a": {}}}}]),
        ),
        &sent(json!({"type": "Opaque", "data_keys": ["a"], "immutable": false, "keys_complete": false})),
    );
}

#[test]
fn secret_takes_string_data_only_where_the_count_needs_it() {
    for (count, data, string, keys, is_complete) in [
        (1, json!({"f:a": {}}), json!({"f:stale": {}}), json!(["a"]), true),
        (2, json!({"f:a": {}}), json!({"f:b": {}}), json!(["a", "b"]), true),
        (
            2,
            json!({}),
            json!({".": {}, "f:a": {}, "f:b": {}}),
            json!(["a", "b"]),
            true,
        ),
        (
            2,
            json!({"f:a": {}}),
            json!({"f:b": {}, "f:stale": {}}),
            json!(["a"]),
            false,
        ),
        (
            3,
            json!({"f:a": {}}),
            json!({"f:b": {}}),
            json!(["a", "b"]),
            false,
        ),
        (
            1,
            json!({"f:a": {}, "f:b": {}}),
            json!({"f:c": {}}),
            json!(["a", "b"]),
            false,
        ),
    ] {
        let mut fields = json!({"type": "Opaque", "data_keys": keys, "immutable": false});
        if !is_complete {
            fields["keys_complete"] = false.into();
        }
        expect(
            Secret,
            &row(
                json!(["db", "Opaque", count, "5d"]),
                json!([{"fieldsV1": {"f:data": data, "f:stringData": string}}]),
            ),
            &sent(fields),
        );
    }
}

#[test]
fn config_map_sends_data_and_binary_keys_apart() {
    expect(
        ConfigMap,
        &row(
            json!(["db", 3, "5d"]),
            json!([{"fieldsV1": {
                "f:data": {"f:z": {}, "f:a": {}}, "f:binaryData": {".": {}, "f:logo.png": {}}, "f:immutable": {},
                "f:metadata": {"f:labels": {"f:app": {}}},
            }}]),
        ),
        &sent(json!({"data_keys": ["a", "z"], "binary_keys": ["logo.png"], "immutable": true})),
    );
}

#[test]
fn config_map_with_unknown_keys_says_so() {
    expect(
        ConfigMap,
        &row(json!(["db", 0, "5d"]), json!(null)),
        &sent(json!({"immutable": false})),
    );
    expect(
        ConfigMap,
        &row(
            json!(["db", 3, "5d"]),
            json!([{"fieldsV1": {"f:binaryData": {"f:b": {}}, "f:stringData": {"f:x": {}}}}]),
        ),
        &sent(json!({"binary_keys": ["b"], "immutable": false, "keys_complete": false})),
    );
}

#[test]
fn secret_of_a_server_that_prints_no_type_omits_it() {
    expect(
        Secret,
        &row(json!(["db", "", 0, "<unknown>"]), json!(null)),
        &sent(json!({"immutable": false})),
    );
}
