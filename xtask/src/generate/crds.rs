//! Custom resource definitions from the Rust types, with what the derive leaves open closed.
//!
//! - A list of conditions merges by its type, or two writers would erase each other's.
//! - Unsigned formats, which Kubernetes does not know, become signed ones that hold the value.
//! - An optional enumeration does not list `null`, on which Go clients stumble.
//! - No field of a status is required, or the first partial write of it would be refused.

use anyhow::{Context, Result};
use serde_json::{Value, json};

/// The definition as the chart ships it: mended, labelled, and kept on uninstall.
pub fn finish(mut crd: Value, capability: &str) -> Result<Definition> {
    let name = crd["metadata"]["name"]
        .as_str()
        .context("a CRD without a name")?
        .to_owned();
    crd["metadata"] = json!({
        "name": name,
        "annotations": { "helm.sh/resource-policy": "keep" },
        "labels": { "app.kubernetes.io/part-of": "trustplane", "trustplane.io/capability": capability },
    });
    if let Some(fields) = crd.as_object_mut() {
        fields.remove("status");
    }
    for version in crd["spec"]["versions"].as_array_mut().into_iter().flatten() {
        let schema = &mut version["schema"]["openAPIV3Schema"];
        if let Some(status) = schema
            .pointer_mut("/properties/status")
            .and_then(Value::as_object_mut)
        {
            status.remove("required");
        }
        mend(schema);
    }
    Ok(Definition { name, crd })
}

/// A finished definition.
#[derive(Debug)]
pub struct Definition {
    /// `plural.group`.
    pub name: String,
    /// The object.
    pub crd: Value,
}

fn mend(schema: &mut Value) {
    mend_format(schema);
    mend_enumeration(schema);
    mend_bounds(schema);
    if let Some(conditions) = schema.pointer_mut("/properties/conditions") {
        mend_conditions(conditions);
    }
    match schema {
        Value::Object(fields) => fields.values_mut().for_each(mend),
        Value::Array(items) => items.iter_mut().for_each(mend),
        _ => {}
    }
}

fn mend_conditions(conditions: &mut Value) {
    let is_condition = ["type", "status"]
        .iter()
        .all(|field| conditions["items"]["properties"].get(field).is_some());
    if is_condition && conditions.get("x-kubernetes-list-type").is_none() {
        conditions["x-kubernetes-list-type"] = json!("map");
        conditions["x-kubernetes-list-map-keys"] = json!(["type"]);
    }
}

fn mend_format(schema: &mut Value) {
    let signed = match (schema["type"].as_str(), schema["format"].as_str()) {
        (Some("integer"), Some("uint8" | "uint16" | "int8" | "int16")) => "int32",
        (Some("integer"), Some("uint32" | "uint64" | "uint")) => "int64",
        _ => return,
    };
    schema["format"] = json!(signed);
}

fn mend_enumeration(schema: &mut Value) {
    let Some(values) = schema.get_mut("enum").and_then(Value::as_array_mut) else {
        return;
    };
    let before = values.len();
    values.retain(|value| !value.is_null());
    // Without `nullable` the server drops an explicit null instead of refusing it.
    if values.len() < before
        && let Some(fields) = schema.as_object_mut()
    {
        fields.remove("nullable");
    }
}

/// `minimum: 0.0` of an integer, written as one.
fn mend_bounds(schema: &mut Value) {
    if schema["type"] != "integer" {
        return;
    }
    for bound in ["minimum", "maximum"] {
        // Only what a double holds exactly; the cast then loses nothing.
        if let Some(float) = schema[bound]
            .as_f64()
            .filter(|f| f.fract() == 0.0 && f.abs() < 2f64.powi(53))
        {
            schema[bound] = json!(float as i64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(properties: Value) -> Value {
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "mirrors.sample.trustplane.io"},
            "spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": {"properties": properties}}}]},
            "status": null,
        });
        finish(crd, "sample").unwrap().crd
    }

    fn properties(crd: &Value) -> &Value {
        &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    }

    #[test]
    fn conditions_merge_by_type_and_a_status_may_be_partial() {
        let condition = json!({"type": "object", "required": ["type", "status"],
            "properties": {"type": {"type": "string"}, "status": {"type": "string"}}});
        let crd = finished(json!({
            "spec": {"required": ["source"], "properties": {"conditions": {"type": "array", "items": {"type": "string"}}}},
            "status": {"required": ["conditions"], "properties": {"conditions": {"type": "array", "items": condition}}},
        }));
        let status = &properties(&crd)["status"];
        assert_eq!(
            status["properties"]["conditions"]["x-kubernetes-list-type"],
            "map"
        );
        assert_eq!(
            status["properties"]["conditions"]["x-kubernetes-list-map-keys"],
            json!(["type"])
        );
        assert_eq!(status.get("required"), None);
        assert_eq!(
            status["properties"]["conditions"]["items"]["required"],
            json!(["type", "status"])
        );
        let spec = &properties(&crd)["spec"];
        assert_eq!(
            spec["required"],
            json!(["source"]),
            "only a status may be partial"
        );
        assert_eq!(
            spec["properties"]["conditions"].get("x-kubernetes-list-type"),
            None,
            "not a list of conditions"
        );
    }

    #[test]
    fn numbers_are_signed_and_enumerations_without_null() {
        let crd = finished(json!({
            "spec": {"properties": {
                "port": {"type": "integer", "format": "uint16", "minimum": 0.0, "maximum": 65535.0},
                "size": {"type": "integer", "format": "uint64", "minimum": 0.0},
                "ratio": {"type": "number", "format": "double", "minimum": 0.5},
                "mode": {"type": "string", "enum": ["A", "B", null], "nullable": true},
                "text": {"type": "string", "nullable": true},
            }},
        }));
        let fields = &properties(&crd)["spec"]["properties"];
        assert_eq!(
            fields["port"],
            json!({"type": "integer", "format": "int32", "minimum": 0, "maximum": 65535})
        );
        assert_eq!(
            fields["size"],
            json!({"type": "integer", "format": "int64", "minimum": 0})
        );
        assert_eq!(
            fields["ratio"],
            json!({"type": "number", "format": "double", "minimum": 0.5})
        );
        assert_eq!(fields["mode"], json!({"type": "string", "enum": ["A", "B"]}));
        assert_eq!(fields["text"], json!({"type": "string", "nullable": true}));
    }

    #[test]
    fn uninstalling_keeps_the_definition() {
        let crd = finished(json!({}));
        assert_eq!(crd["metadata"]["annotations"]["helm.sh/resource-policy"], "keep");
        assert_eq!(crd["metadata"]["labels"]["trustplane.io/capability"], "sample");
        assert_eq!(crd.get("status"), None);
    }
}
