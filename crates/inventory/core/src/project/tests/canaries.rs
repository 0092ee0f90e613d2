//! Values are planted in every place where no value may pass, and looked for in what is sent: plain, in base64 and in hex.

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE};
use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use serde_json::{Value, json};

use crate::kind::InventoryKind;
use crate::project::project;
use crate::redact;

/// A value that stands for a secret.
const CANARY: &str = "correct-horse-battery-staple";

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

fn zlib(text: &str) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

/// Annotations in which tools keep a Secret, by keys that are known and by keys that are not.
fn annotations() -> Value {
    let data = STANDARD.encode(CANARY);
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "db"}, "data": {"password": data}})
            .to_string();
    let without_kind = json!({"stringData": {"password": CANARY}}).to_string();
    let yaml =
        format!("apiVersion: v1\nkind: Secret\nmetadata:\n  name: db\nstringData:\n  password: {CANARY}\n");
    let list = json!([{"kind": "ConfigMap", "data": {"a": CANARY}}]).to_string();
    json!({
        "kubectl.kubernetes.io/last-applied-configuration": &secret,
        "kapp.k14s.io/original": &secret,
        "kapp.k14s.io/original-diff": format!("- op: replace\n  path: /data/password\n  value: {CANARY}\n"),
        "kapp.k14s.io/original-diff-full": CANARY,
        "objectset.rio.cattle.io/applied": STANDARD.encode(gzip(&secret)),
        "banzaicloud.com/last-applied": CANARY,
        "example.com/last-applied-configuration": CANARY,
        "kopf.zalando.org/last-handled-configuration": json!({"data": {"password": CANARY}}).to_string(),
        "configmanagement.gke.io/declared-config": CANARY,
        "openshift.io/token-secret.value": CANARY,
        "workflows.argoproj.io/template": json!({"container": {"env": [{"name": "A", "value": CANARY}]}}).to_string(),
        "unknown.example/json": &secret,
        "unknown.example/json-without-kind": &without_kind,
        "unknown.example/json-list": &list,
        "unknown.example/json-string": json!(&secret).to_string(),
        "unknown.example/json-cut": &secret[..secret.len() - 2],
        "unknown.example/json-lines": format!("{secret}\n{secret}"),
        "unknown.example/yaml": &yaml,
        "unknown.example/yaml-crlf": yaml.replace('\n', "\r\n"),
        "unknown.example/yaml-indented": yaml.replace("\n", "\n  ").replacen("apiVersion", "  apiVersion", 1),
        "unknown.example/yaml-documents": format!("---\na: b\n---\n{yaml}"),
        "unknown.example/yaml-list": format!("- kind: Secret\n  stringData:\n    password: {CANARY}\n"),
        "unknown.example/yaml-flow": format!("{{kind: Secret, stringData: {{password: {CANARY}}}}}"),
        "unknown.example/yaml-quoted": format!("\"stringData\":\n  password: {CANARY}\n"),
        "unknown.example/base64": STANDARD.encode(&secret),
        "unknown.example/base64-url": URL_SAFE.encode(&secret),
        "unknown.example/base64-unpadded": STANDARD_NO_PAD.encode(&yaml),
        "unknown.example/base64-twice": STANDARD.encode(STANDARD.encode(&secret)),
        "unknown.example/gzip": STANDARD.encode(gzip(&secret)),
        "unknown.example/gzip-twice": STANDARD.encode(STANDARD.encode(gzip(&yaml))),
        "unknown.example/zlib": STANDARD.encode(zlib(&secret)),
        "unknown.example/long": format!("{}{CANARY}", "x".repeat(redact::LONGEST_VALUE)),
    })
}

/// All forms in which the canary may show in a text.
fn traces() -> Vec<String> {
    let hex: String = CANARY.bytes().map(|byte| format!("{byte:02x}")).collect();
    let mut traces = vec![CANARY.to_owned(), hex];
    // In base64 a text looks different at each of three offsets; the middle of it is the same for all neighbours.
    for offset in 0..3 {
        let encoded = STANDARD.encode(format!("{}{CANARY}", "-".repeat(offset)));
        traces.push(encoded[4..encoded.len() - 4].to_owned());
    }
    traces
}

#[track_caller]
fn assert_clean(text: &str) {
    for trace in traces() {
        assert!(!text.contains(&trace), "{trace} shows in {text}");
    }
}

/// An object of any kind that holds the canary wherever an object of that kind may hold a value that is not sent.
fn planted(kind: InventoryKind) -> Value {
    let container = json!({
        "name": "app", "image": "i", "command": ["sh", "-c", CANARY], "args": [CANARY],
        "env": [{"name": "PASSWORD", "value": CANARY}], "lifecycle": {"postStart": {"exec": {"command": [CANARY]}}},
    });
    let metadata = json!({
        "uid": "u", "name": "db", "namespace": "shop", "annotations": annotations(),
        "managedFields": [{"manager": CANARY, "fieldsV1": {"f:data": {"f:password": {"v": CANARY}}}}],
    });
    let spec = json!({
        "containers": [&container], "initContainers": [&container], "ephemeralContainers": [&container],
        "volumes": [{"name": "v", "csi": {"driver": "d", "volumeAttributes": {"password": CANARY}}}],
        "template": {"metadata": {"annotations": {"a": CANARY}}, "spec": {"containers": [&container]}},
        "jobTemplate": {"spec": {"template": {"spec": {"containers": [&container]}}}},
        "externalName": CANARY,
    });
    if kind.is_table() {
        // The API server prints no values; a row that has them all the same must not pass them on.
        return json!({
            "cells": if kind == InventoryKind::Secret { json!(["db", "Opaque", 1, CANARY]) } else { json!(["db", 1, CANARY]) },
            "object": {"metadata": metadata, "data": {"password": CANARY}, "stringData": {"password": CANARY}},
            "data": {"password": CANARY},
        });
    }
    json!({
        "metadata": metadata, "spec": spec, "data": {"password": CANARY}, "stringData": {"password": CANARY},
        "binaryData": {"password": STANDARD.encode(CANARY)}, "status": {"message": CANARY},
    })
}

#[test]
fn canaries_are_in_no_projection() {
    for kind in InventoryKind::ALL {
        let sent = project(kind, &planted(kind).to_string()).unwrap();
        assert_clean(&sent.object);
        assert!(!sent.object.contains("annotations"), "{}", sent.object);
    }
}

#[test]
fn canaries_are_seen_where_they_may_pass() {
    let text =
        json!({"metadata": {"uid": "u", "name": "db", "namespace": "shop", "annotations": {"note": CANARY}}})
            .to_string();
    let sent = project(InventoryKind::Service, &text).unwrap();
    assert!(sent.object.contains(CANARY));
    for offset in 0..3 {
        let encoded = STANDARD.encode(format!("{}{CANARY}x", "-".repeat(offset)));
        assert!(traces().iter().any(|trace| encoded.contains(trace)), "{offset}");
    }
}

#[test]
fn canaries_of_somebody_elses_agent_are_redacted() {
    for kind in ["Secret", "ConfigMap"] {
        let mut object = json!({
            "uid": "u", "name": "db", "namespace": "shop", "annotations": annotations(), "immutable": CANARY,
            "data": {"password": CANARY}, "stringData": {"password": CANARY}, "binaryData": {"a": STANDARD.encode(CANARY)},
            "values": [CANARY], "data_keys": {"password": CANARY}, "binary_keys": [{"password": CANARY}], "labels": {"a": {"b": CANARY}},
        });
        redact::object(kind, &mut object);
        assert_eq!(object, json!({"uid": "u", "name": "db", "namespace": "shop"}));
    }
    let mut object = json!({
        "uid": "u", "annotations": annotations(), "data": CANARY, "stringData": CANARY, "binaryData": CANARY,
        "metadata": {"annotations": annotations(), "name": "w"},
    });
    redact::object("Widget", &mut object);
    assert_eq!(object, json!({"uid": "u", "metadata": {"name": "w"}}));
}
