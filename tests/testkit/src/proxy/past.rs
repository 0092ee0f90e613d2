//! Reads as an API server answers them that has fallen behind.
//!
//! The past is not recorded but asked for: a list of an exact resourceVersion is answered from the history of etcd, so
//! what a client gets to see is a state that really was.

use anyhow::{Context, Result};
use bytes::Bytes;
use http::header::ACCEPT;
use http::request::Parts;
use serde_json::{Value, json};

use super::request::Request;
use super::upstream::Upstream;

/// A list or one object as of `version`, with the status code.
pub(super) async fn read(
    upstream: &Upstream,
    parts: &Parts,
    request: &Request,
    version: &str,
) -> Result<(u16, Bytes)> {
    if request.name.is_empty() {
        let target = format!("{}?{}", request.path, exact(&request.query, version));
        return upstream.read(parts, &target).await;
    }
    let collection = request.path.trim_end_matches(&request.name).trim_end_matches('/');
    let query = exact(
        &format!("fieldSelector=metadata.name%3D{}", request.name),
        version,
    );
    let (code, body) = upstream
        .read(&as_list(parts)?, &format!("{collection}?{query}"))
        .await?;
    if code != 200 {
        return Ok((code, body));
    }
    let list: Value = serde_json::from_slice(&body).context("understand a list of the past")?;
    match items(&list).into_iter().next() {
        Some(item) => Ok((200, item.to_string().into())),
        None => Ok((404, not_found(request).to_string().into())),
    }
}

/// The events with which a watch begins that asks for the present state first: the state of `version`.
pub(super) async fn initial_events(
    upstream: &Upstream,
    parts: &Parts,
    request: &Request,
    version: &str,
) -> Result<Vec<Bytes>> {
    let kept = keep(&request.query, |key| {
        matches!(key, "labelSelector" | "fieldSelector")
    });
    let target = format!("{}?{}", request.path, exact(&kept, version));
    let (code, body) = upstream.read(&as_list(parts)?, &target).await?;
    anyhow::ensure!(
        code == 200,
        "read the past at {version}: the API server answered {code}"
    );
    let list: Value = serde_json::from_slice(&body).context("understand a list of the past")?;
    let mut events: Vec<Value> = items(&list)
        .into_iter()
        .map(|item| json!({"type": "ADDED", "object": item}))
        .collect();
    if request.query.contains("sendInitialEvents=true") {
        let (kind, api_version) = item_type(&list);
        events.push(json!({"type": "BOOKMARK", "object": {
            "kind": kind, "apiVersion": api_version,
            "metadata": {"resourceVersion": version, "annotations": {"k8s.io/initial-events-end": "true"}},
        }}));
    }
    Ok(events
        .into_iter()
        .map(|event| format!("{event}\n").into())
        .collect())
}

/// Whether a watch asks for the present state before the changes.
pub(super) fn wants_initial_events(request: &Request) -> bool {
    request.query.contains("sendInitialEvents=true")
        || match value(&request.query, "resourceVersion") {
            None => true,
            Some(version) => version.is_empty() || version == "0",
        }
}

/// The target of a watch that goes on from `version`.
pub(super) fn from(request: &Request, version: &str) -> String {
    let kept = keep(&request.query, |key| {
        !matches!(
            key,
            "sendInitialEvents" | "resourceVersionMatch" | "resourceVersion"
        )
    });
    format!("{}?{kept}&resourceVersion={version}", request.path)
}

fn exact(query: &str, version: &str) -> String {
    // A continue token names its version itself.
    if value(query, "continue").is_some() {
        return query.to_owned();
    }
    let kept = keep(query, |key| {
        !matches!(key, "resourceVersion" | "resourceVersionMatch")
    });
    let separator = if kept.is_empty() { "" } else { "&" };
    format!("{kept}{separator}resourceVersion={version}&resourceVersionMatch=Exact")
}

fn keep(query: &str, wanted: impl Fn(&str) -> bool) -> String {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let kept: Vec<&str> = pairs
        .filter(|pair| wanted(pair.split('=').next().unwrap_or_default()))
        .collect();
    kept.join("&")
}

fn value<'a>(query: &'a str, key: &str) -> Option<&'a str> {
    query
        .split('&')
        .find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='))
}

/// A request for metadata alone has to ask for a list of metadata.
fn as_list(parts: &Parts) -> Result<Parts> {
    let mut parts = parts.clone();
    if let Some(accept) = parts.headers.get(ACCEPT) {
        let accept = accept
            .to_str()?
            .replace("as=PartialObjectMetadata;", "as=PartialObjectMetadataList;");
        parts.headers.insert(ACCEPT, accept.parse()?);
    }
    Ok(parts)
}

fn item_type(list: &Value) -> (String, Value) {
    let kind = list["kind"].as_str().unwrap_or_default();
    (
        kind.trim_end_matches("List").to_owned(),
        list["apiVersion"].clone(),
    )
}

fn items(list: &Value) -> Vec<Value> {
    let (kind, api_version) = item_type(list);
    let mut items = list["items"].as_array().cloned().unwrap_or_default();
    for item in &mut items {
        item["kind"] = kind.clone().into();
        item["apiVersion"] = api_version.clone();
    }
    items
}

fn not_found(request: &Request) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "NotFound", "code": 404,
        "message": format!("{} {:?} not found", request.resource, request.name),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_moved_to_the_past() {
        assert_eq!(
            exact("limit=5&resourceVersion=0&labelSelector=a%3Db", "7"),
            "limit=5&labelSelector=a%3Db&resourceVersion=7&resourceVersionMatch=Exact"
        );
        assert_eq!(exact("", "7"), "resourceVersion=7&resourceVersionMatch=Exact");
        assert_eq!(exact("limit=5&continue=abc", "7"), "limit=5&continue=abc");
        assert_eq!(value("a=1&resourceVersionMatch=x", "resourceVersion"), None);
    }
}
