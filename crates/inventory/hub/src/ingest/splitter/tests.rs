use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::arbitrary::json_value;

const LIMIT: usize = 1_000;

fn want(key: &str) -> Want {
    match key {
        "cluster_uid" | "cluster_name" => Want::Value,
        "pods" | "nodes" => Want::Elements,
        _ => Want::Nothing,
    }
}

fn split(body: &[u8], piece: usize) -> Result<Vec<Piece>, SplitError> {
    let mut splitter = Splitter::new(want, LIMIT);
    let mut found = VecDeque::new();
    for some in body.chunks(piece.max(1)) {
        splitter.push(some, &mut found)?;
    }
    splitter.finish()?;
    Ok(found.into())
}

fn told(body: &str) -> String {
    split(body.as_bytes(), 7).unwrap_err().to_string()
}

fn value(key: &str, value: Value) -> Piece {
    let key = key.to_owned();
    Piece::Value { key, value }
}

fn begin(key: &str) -> Piece {
    Piece::Begin { key: key.to_owned() }
}

#[test]
fn texts_and_elements_are_handed_on_in_order() {
    let body = json!({"cluster_uid": "c", "pods": [{"a": "]}\\\""}, null, [1, [2]], "x", 3], "nodes": [],
        "other": {"deep": [[["]"]]]}, "region": null});
    for piece in 1..40 {
        let found = split(body.to_string().as_bytes(), piece).unwrap();
        let elements = [
            json!({"a": "]}\\\""}),
            json!(null),
            json!([1, [2]]),
            json!("x"),
            json!(3),
        ];
        let mut wanted = vec![
            value("cluster_uid", json!("c")),
            begin("nodes"),
            Piece::End,
            begin("pods"),
        ];
        wanted.extend(
            elements
                .into_iter()
                .enumerate()
                .map(|(index, value)| Piece::Element { index, value }),
        );
        wanted.push(Piece::End);
        assert_eq!(found, wanted, "in pieces of {piece}");
    }
}

#[test]
fn a_null_array_is_no_array() {
    assert_eq!(split(br#"{"pods": null}"#, 3), Ok(vec![]));
    assert_eq!(told(r#"{"pods": {"a": 1}}"#), "pods: must be an array");
}

#[test]
fn faults_are_told_with_field_and_rule() {
    for (body, rule) in [
        ("[]", "body: must be a JSON object"),
        ("", "body: ends before its JSON is complete"),
        (r#"{"pods": ["#, "body: ends before its JSON is complete"),
        (r#"{"pods": []"#, "body: ends before its JSON is complete"),
        (r#"{"pods": []} x"#, "body: goes on after its JSON is complete"),
        (r#"{"pods": [{"a": 1}, {"a"}]}"#, "pods[1]: is not valid JSON"),
        (r#"{"pods": [{]}"#, "pods[0]: is not valid JSON"),
        (r#"{"pods": [1 2]}"#, "body: is not valid JSON"),
        (r#"{"pods": [1,]}"#, "body: is not valid JSON"),
        (r#"{"pods": [,1]}"#, "body: is not valid JSON"),
        (r#"{"pods" []}"#, "body: is not valid JSON"),
        (r#"{"pods": [],}"#, "body: is not valid JSON"),
        (r#"{pods: []}"#, "body: is not valid JSON"),
        (r#"{"cluster_uid": tru}"#, "cluster_uid: is not valid JSON"),
    ] {
        assert_eq!(told(body), rule, "{body}");
    }
}

#[test]
fn limits_hold_for_size_depth_and_keys() {
    let long = "x".repeat(LIMIT);
    assert_eq!(
        told(&format!(r#"{{"pods": ["{long}"]}}"#)),
        "pods[0]: must have at most 1000 bytes"
    );
    let deep = |depth: usize| format!(r#"{{"pods": [{}{}]}}"#, "[".repeat(depth), "]".repeat(depth));
    assert_eq!(
        told(&deep(MAX_DEPTH - 1)),
        "pods[0]: must be nested at most 64 deep"
    );
    assert!(split(deep(MAX_DEPTH - 2).as_bytes(), 64).is_ok());
    let ignored = format!(r#"{{"other": {}1"#, "[".repeat(MAX_DEPTH));
    assert_eq!(told(&ignored), "other: must be nested at most 64 deep");
    let key = "k".repeat(MAX_KEY + 1);
    assert_eq!(
        told(&format!(r#"{{"{key}": 1}}"#)),
        "body: keys must have at most 256 bytes"
    );
    let head = "h".repeat(MAX_HEAD_VALUE);
    assert_eq!(
        told(&format!(r#"{{"cluster_uid": "{head}"}}"#)),
        "cluster_uid: must have at most 4096 bytes"
    );
}

#[test]
fn what_is_not_wanted_may_be_large_and_is_not_kept() {
    let mut splitter = Splitter::new(want, LIMIT);
    let mut found = VecDeque::new();
    splitter.push(br#"{"other": ""#, &mut found).unwrap();
    for _ in 0..1_000 {
        splitter.push(&[b'x'; 1_000], &mut found).unwrap();
    }
    assert!(splitter.held.capacity() < 10_000);
    splitter.push(br#"", "pods": [1]}"#, &mut found).unwrap();
    splitter.finish().unwrap();
    assert_eq!(found.len(), 3);
}

proptest! {
    #[test]
    fn elements_are_those_that_serde_json_reads(
        pods in prop::collection::vec(json_value(), 0..8),
        other in json_value(),
        pretty in any::<bool>(),
        piece in 1_usize..64,
    ) {
        let body = json!({"aaa": other, "cluster_uid": "c", "pods": pods});
        let text = if pretty { serde_json::to_string_pretty(&body).unwrap() } else { body.to_string() };
        let mut splitter = Splitter::new(want, usize::MAX);
        let mut found = VecDeque::new();
        for some in text.as_bytes().chunks(piece) {
            splitter.push(some, &mut found).unwrap();
        }
        splitter.finish().unwrap();
        let elements: Vec<Value> = found
            .into_iter()
            .filter_map(|piece| match piece {
                Piece::Element { value, .. } => Some(value),
                _ => None,
            })
            .collect();
        prop_assert_eq!(Value::from(elements), body["pods"].clone());
    }

    #[test]
    fn no_bytes_make_the_splitter_panic(body in prop::collection::vec(any::<u8>(), 0..300), piece in 1_usize..20) {
        let _ = split(&body, piece);
    }

    #[test]
    fn no_json_like_text_makes_the_splitter_panic(body in r#"[{}\[\]":,\\a1 npods]{0,200}"#, piece in 1_usize..20) {
        let _ = split(format!(r#"{{"pods": [{body}"#).as_bytes(), piece);
    }
}
