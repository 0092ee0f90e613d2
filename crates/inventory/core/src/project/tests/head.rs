use serde_json::json;

use super::expect;
use crate::kind::InventoryKind::{self, ClusterRole, Event, Namespace, Service};
use crate::project::{ProjectionError, project};

#[test]
fn head_has_labels_annotations_and_time() {
    expect(
        Service,
        &json!({
            "kind": "Service", "apiVersion": "v1",
            "metadata": {
                "uid": "u", "name": "web", "namespace": "shop", "resourceVersion": "12",
                "labels": {"b": "2", "a": "1", "empty": ""},
                "annotations": {"deployment.kubernetes.io/revision": "3", "meta.helm.sh/release-name": "web"},
                "creationTimestamp": "2026-02-03T04:05:06Z",
                "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}],
            },
        }),
        &json!({
            "uid": "u", "name": "web", "namespace": "shop",
            "labels": {"a": "1", "b": "2", "empty": ""},
            "annotations": {"deployment.kubernetes.io/revision": "3", "meta.helm.sh/release-name": "web"},
            "k8s_created_at": "2026-02-03T04:05:06Z",
        }),
    );
}

#[test]
fn head_omits_empty_maps_and_sends_the_zero_time() {
    expect(
        Service,
        &json!({"metadata": {
            "uid": "u", "name": "web", "namespace": "shop", "labels": {}, "annotations": null, "creationTimestamp": null,
        }}),
        &json!({"uid": "u", "name": "web", "namespace": "shop", "k8s_created_at": "0001-01-01T00:00:00Z"}),
    );
}

#[test]
fn head_omits_annotations_if_none_passes() {
    expect(
        Service,
        &json!({"metadata": {
            "uid": "u", "name": "web", "namespace": "shop",
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "kubernetes.io/change-cause": "x"},
        }}),
        &json!({"uid": "u", "name": "web", "namespace": "shop", "k8s_created_at": "0001-01-01T00:00:00Z"}),
    );
}

#[test]
fn times_are_sent_in_utc_with_whole_seconds() {
    expect(
        Namespace,
        &json!({"metadata": {"uid": "u", "name": "a", "creationTimestamp": "2026-02-03T04:05:06.987654+02:00"}}),
        &json!({"uid": "u", "name": "a", "k8s_created_at": "2026-02-03T02:05:06Z"}),
    );
}

#[test]
fn cluster_kinds_have_no_namespace_even_if_given() {
    for kind in [Namespace, ClusterRole] {
        let sent = project(kind, r#"{"metadata":{"uid":"u","name":"a","namespace":"shop"}}"#).unwrap();
        assert_eq!(sent.namespace, None);
        assert!(!sent.object.contains("namespace"));
    }
}

#[test]
fn namespaced_kinds_send_an_empty_namespace() {
    let sent = project(Service, r#"{"metadata":{"uid":"u","name":"a"}}"#).unwrap();
    assert_eq!(sent.namespace, None);
    assert_eq!(
        sent.object,
        r#"{"k8s_created_at":"0001-01-01T00:00:00Z","name":"a","namespace":"","uid":"u"}"#
    );
}

#[test]
fn texts_with_escapes_are_sent_as_they_were_meant() {
    let sent = project(
        Namespace,
        r#"{"metadata":{"uid":"u","name":"a","labels":{"k\u0065y":"\u00e9\n\""}}}"#,
    )
    .unwrap();
    assert!(
        sent.object.contains(r#""labels":{"key":"é\n\""}"#),
        "{}",
        sent.object
    );
}

#[test]
fn an_annotation_that_comes_twice_counts_as_the_last() {
    let object = |annotations: &str| {
        let text = format!(r#"{{"metadata":{{"uid":"u","name":"a","annotations":{{{annotations}}}}}}}"#);
        project(Namespace, &text).unwrap().object
    };
    assert!(object(r#""a":"1","a":"2""#).contains(r#""annotations":{"a":"2"}"#));
    assert!(!object(r#""a":"1","a":"{\"kind\":\"Secret\"}""#).contains("annotations"));
}

#[test]
fn an_object_without_a_uid_or_a_name_is_refused() {
    for (text, error) in [
        (
            r#"{"metadata":{"name":"a"}}"#,
            ProjectionError::Unnamed("metadata.uid"),
        ),
        (
            r#"{"metadata":{"uid":"","name":"a"}}"#,
            ProjectionError::Unnamed("metadata.uid"),
        ),
        (
            r#"{"metadata":{"uid":"u"}}"#,
            ProjectionError::Unnamed("metadata.name"),
        ),
    ] {
        assert_eq!(project(Event, text), Err(error));
    }
    assert!(matches!(project(Event, "{}"), Err(ProjectionError::Field(_))));
}

#[test]
fn errors_say_where_and_never_what() {
    for kind in InventoryKind::ALL {
        for text in [
            r#"{"metadata":"hunter2"}"#,
            r#"{"metadata":{"uid":["hunter2"]}}"#,
            r#"{"metadata":{"annotations":{"a":["hunter2"]}}}"#,
            r#"{"cells":"hunter2","object":{"metadata":{}}}"#,
            "hunter2",
            r#"{"metadata":{"uid":"hunter2"#,
        ] {
            let told = project(kind, text).unwrap_err().to_string();
            assert!(
                !told.contains("hunter2") && told.starts_with("failed to read "),
                "{told}"
            );
        }
    }
}
