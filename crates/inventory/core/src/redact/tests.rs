use serde_json::{Value, json};

use super::*;

#[test]
fn keys_of_two_prefixes_are_dropped() {
    for key in [
        "kubectl.kubernetes.io/last-applied-configuration",
        "kubectl.kubernetes.io/restartedAt",
        "kubernetes.io/change-cause",
    ] {
        assert!(!keeps_key(key), "{key}");
    }
    for key in [
        "deployment.kubernetes.io/revision",
        "pv.kubernetes.io/bind-completed",
        "app.kubernetes.io/name",
        "meta.helm.sh/release-name",
        "kubernetes.io",
        "",
    ] {
        assert!(keeps_key(key), "{key}");
    }
}

#[test]
fn keys_that_carry_manifests_are_dropped() {
    for key in [
        "kapp.k14s.io/original",
        "kapp.k14s.io/original-diff",
        "kapp.k14s.io/original-diff-md5",
        "kapp.k14s.io/original-diff-full",
        "objectset.rio.cattle.io/applied",
        "banzaicloud.com/last-applied",
        "kubernetes.crossplane.io/last-applied-configuration",
        "policies.kyverno.io/last-applied-patches",
        "kopf.zalando.org/last-handled-configuration",
        "configmanagement.gke.io/declared-config",
        "workflows.argoproj.io/template",
        "openshift.io/token-secret.value",
    ] {
        assert!(!keeps_key(key), "{key}");
    }
    for key in [
        "kapp.k14s.io/identity",
        "objectset.rio.cattle.io/id",
        "argocd.argoproj.io/tracking-id",
        "kustomize.toolkit.fluxcd.io/checksum",
        "openshift.io/token-secret.name",
    ] {
        assert!(keeps_key(key), "{key}");
    }
}

#[test]
fn plain_values_pass() {
    for value in [
        "",
        "1",
        "true",
        "web",
        "2026-01-01T00:00:00Z",
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "https://example.com/a?kind=Secret&data=1",
        "data:image/png;base64,iVBORw0KGgo=",
        r#"{"name":"istio","revision":"default"}"#,
        r#"{"spec":{"kind":"nested","data":"nested"}}"#,
        r#"["a","b"]"#,
        r#"[{"name":"x"},1,null,true,1.5]"#,
        r#""a text""#,
        "rules:\n- kind: Pod\n  data: x\n",
        "metadata:\n  kind: nested\n  data: nested\n",
        "the kind of pods, and the data they need",
        "aGVsbG8gd29ybGQ=",
        "H4sNotReallyGzip",
        "kindness: true",
        "{unfinished",
        "{{ template }}",
    ] {
        assert!(keeps_value(value), "{value}");
    }
}

#[test]
fn manifests_in_any_layout_are_dropped() {
    for value in [
        r#"{"kind":"Secret"}"#,
        r#" { "data" : {} } "#,
        r#"{"a":1,"stringData":{"x":"y"}}"#,
        r#"{"binaryData":{}}"#,
        r#"{"Kind":"Secret","Data":{}}"#,
        r#"[1,{"kind":"List"}]"#,
        r#"[[{"kind":"Secret"}]]"#,
        r#"["{\"kind\":\"Secret\"}"]"#,
        r#""kind: Secret\ndata: {}""#,
        "\u{feff}kind: Secret",
        "kind: Secret",
        "kind : Secret",
        "'data':\n  a: b",
        "data:",
        "# a comment\n\napiVersion: v1\nkind: Secret",
        "%YAML 1.2\n---\nkind: Secret",
        "a:\n  b: c\nstringData:\n  d: e",
        "  a: b\n  data:\n    c: d",
        "a:\n  kind: nested\n---\n  data: 1",
        "- - kind: Secret",
        "{kind: Secret}",
        "{ 'data' : {} }",
        r#"{"kind":"Secret","data":{"a":"b"#,
        "{\"kind\":\"Secret\"}\n{\"kind\":\"Secret\"}",
        r#"{\"kind\":\"Secret\"}"#,
    ] {
        assert!(!keeps_value(value), "{value}");
    }
}

#[test]
fn values_over_four_kibibytes_are_dropped() {
    assert!(keeps_value(&"x ".repeat(2048)));
    assert!(!keeps_value(&"x".repeat(4097)));
    // The length counts in bytes.
    assert!(!keeps_value(&"é".repeat(2049)));
}

fn gzip(text: &[u8]) -> String {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    std::io::Write::write_all(&mut encoder, text).unwrap();
    base64::Engine::encode(
        &base64::engine::general_purpose::STANDARD,
        encoder.finish().unwrap(),
    )
}

#[test]
fn a_value_that_unpacks_to_too_much_is_dropped() {
    let bomb = gzip(&vec![b' '; 1024 * 1024]);
    assert!(bomb.len() <= LONGEST_VALUE, "{} bytes", bomb.len());
    assert!(!keeps_value(&bomb));
    assert!(keeps_value(&gzip(b"nothing of interest")));
}

#[test]
fn parts_of_a_value_together_may_not_unpack_to_too_much() {
    let part = gzip(&[b' '; 4096]);
    for (parts, passes) in [(1, true), (20, false)] {
        let value = json!(vec![&part; parts]).to_string();
        assert!(value.len() <= LONGEST_VALUE, "{} bytes", value.len());
        assert_eq!(keeps_value(&value), passes, "{parts}");
    }
    // Each layer would multiply the work.
    let mut nested = part;
    for _ in 0..2 {
        nested = gzip(json!(vec![&nested; 20]).to_string().as_bytes());
    }
    assert!(nested.len() <= LONGEST_VALUE, "{} bytes", nested.len());
    assert!(!keeps_value(&nested));
}

#[test]
fn archives_that_are_not_opened_are_dropped() {
    for begin in [b"PK\x03\x04".as_slice(), b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\x00"] {
        let archive = [begin, b"whatever comes next"].concat();
        assert!(!keeps_value(&base64::Engine::encode(
            &base64::engine::general_purpose::STANDARD,
            archive
        )));
    }
}

#[test]
fn object_keeps_a_projection_of_the_contract() {
    for (kind, object) in [
        (
            "Secret",
            json!({
                "uid": "u", "name": "n", "namespace": "s", "labels": {"a": "b"}, "annotations": {"a": "b"},
                "k8s_created_at": "2026-01-01T00:00:00Z", "type": "Opaque", "data_keys": ["a"], "immutable": true, "keys_complete": false,
            }),
        ),
        (
            "ConfigMap",
            json!({"uid": "u", "name": "n", "namespace": "s", "data_keys": ["a"], "binary_keys": [], "immutable": false}),
        ),
        (
            "Pod",
            json!({"uid": "u", "name": "n", "containers": [{"name": "a"}], "future": {"field": 1}}),
        ),
        ("Widget", json!({"uid": "u", "anything": [1, 2]})),
    ] {
        let mut redacted = object.clone();
        super::object(kind, &mut redacted);
        assert_eq!(redacted, object, "{kind}");
    }
}

#[test]
fn object_removes_fields_of_other_types_from_a_secret() {
    for (field, value) in [
        ("type", json!({"a": "b"})),
        ("data_keys", json!(["a", 1])),
        ("data_keys", json!("a")),
        ("immutable", json!("true")),
        ("labels", json!({"a": ["b"]})),
        ("binary_keys", json!(["a"])),
        ("uid", json!(1)),
        ("resourceVersion", json!("1")),
    ] {
        let mut object = json!({ field: value });
        super::object("Secret", &mut object);
        assert_eq!(object, json!({}), "{field}");
    }
}

#[test]
fn object_removes_values_from_other_kinds() {
    for kind in ["Pod", "Event", "Widget", "secret"] {
        let mut object =
            json!({"uid": "u", "data": {"a": "b"}, "stringData": 1, "binaryData": null, "annotations": []});
        super::object(kind, &mut object);
        assert_eq!(object, json!({"uid": "u"}), "{kind}");
    }
}

#[test]
fn object_that_is_none_becomes_null() {
    for value in [json!("text"), json!([{"data": 1}]), json!(1), Value::Null] {
        let mut object = value;
        super::object("Pod", &mut object);
        assert_eq!(object, Value::Null);
    }
}

#[test]
fn annotations_that_are_not_texts_are_removed() {
    let mut map = json!({"a": 1, "b": {"kind": "x"}, "c": null, "d": "kept"});
    annotations(map.as_object_mut().unwrap());
    assert_eq!(map, json!({"d": "kept"}));
}
