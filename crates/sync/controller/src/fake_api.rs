//! An API server for unit tests, without a connection.

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use trustplane_plan::Kind;

/// An API server that has one object of one kind without namespaces, and nothing else. The version of the object is 5.
pub(crate) fn with_object(kind: &Kind, object: &Value) -> Client {
    let end = json!({"resourceVersion": "5", "annotations": {"k8s.io/initial-events-end": "true"}});
    let events = [
        json!({"type": "ADDED", "object": object}),
        json!({"type": "BOOKMARK", "object": {"metadata": end}}),
    ];
    let (path, events) = (
        kind.collection_path(None),
        events.map(|event| format!("{event}\n")).concat(),
    );
    let answer = move |request: Request<Body>| {
        let (code, text) = match request.uri().path() == path {
            true => (200, events.clone()),
            false => (404, json!({"kind": "Status", "code": 404}).to_string()),
        };
        let response = Response::builder().status(code);
        std::future::ready(response.body(Body::from(text.into_bytes())))
    };
    Client::new(tower::service_fn(answer), "default")
}
