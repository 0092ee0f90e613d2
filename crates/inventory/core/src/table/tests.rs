use serde_json::{Value, json};

use crate::kind::InventoryKind::{ConfigMap, Secret};
use crate::project::{ProjectionError, project};

fn row(cells: Value) -> String {
    json!({"cells": cells, "object": {"metadata": {"uid": "u", "name": "db", "namespace": "shop"}}})
        .to_string()
}

#[test]
fn a_row_with_other_columns_is_refused() {
    for cells in [
        json!([]),
        json!(["db"]),
        json!(["db", "Opaque"]),
        json!(["other", "Opaque", 1, "5d"]),
        json!(["Opaque", "db", 1, "5d"]),
        json!(["db", "Opaque", "many", "5d"]),
        json!(["db", "Opaque", -1, "5d"]),
        json!(["db", 1, "5d"]),
    ] {
        assert_eq!(
            project(Secret, &row(cells)),
            Err(ProjectionError::Cells("Secret"))
        );
    }
    for cells in [json!(["db"]), json!(["db", "Opaque", 1, "5d"])] {
        assert_eq!(
            project(ConfigMap, &row(cells)),
            Err(ProjectionError::Cells("ConfigMap"))
        );
    }
}

#[test]
fn a_count_may_be_a_number_or_its_digits() {
    for count in [json!(0), json!("0")] {
        assert!(project(Secret, &row(json!(["db", "Opaque", count, "5d"]))).is_ok());
    }
}

#[test]
fn a_row_without_metadata_is_refused() {
    for text in [
        r#"{"cells":["db","Opaque",1,"5d"]}"#,
        r#"{"cells":["db","Opaque",1,"5d"],"object":null}"#,
        r#"{"cells":["db","Opaque",1,"5d"],"object":{"metadata":null}}"#,
        r#"{"object":{"metadata":{"uid":"u","name":"db"}}}"#,
        r#"{"cells":[null],"object":{"metadata":{"uid":"u","name":"db"}}}"#,
    ] {
        assert!(
            matches!(project(Secret, text), Err(ProjectionError::Field(_))),
            "{text}"
        );
    }
}

#[test]
fn managed_fields_of_another_type_are_refused() {
    for managed in [
        json!("x"),
        json!({}),
        json!([1]),
        json!([{"fieldsV1": "x"}]),
        json!([{"fieldsV1": {"f:data": ["f:a"]}}]),
    ] {
        let text = json!({
            "cells": ["db", "Opaque", 1, "5d"],
            "object": {"metadata": {"uid": "u", "name": "db", "namespace": "shop", "managedFields": managed}},
        });
        assert!(
            matches!(project(Secret, &text.to_string()), Err(ProjectionError::Field(_))),
            "{text}"
        );
    }
}
