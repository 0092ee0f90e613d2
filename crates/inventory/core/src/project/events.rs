//! Events of Kubernetes.

use serde::Deserialize;

use super::input::{Text, Time};
use super::output::Object;
use super::{Metadata, Projection, ProjectionError};
use crate::kind::InventoryKind;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
    #[serde(rename = "type")]
    type_: Option<Text<'a>>,
    reason: Option<Text<'a>>,
    message: Option<Text<'a>>,
    involved_object: Option<Involved<'a>>,
    source: Option<Source<'a>>,
    first_timestamp: Option<Time>,
    last_timestamp: Option<Time>,
    count: Option<i64>,
}

#[derive(Default, Deserialize)]
struct Involved<'a> {
    #[serde(borrow)]
    kind: Option<Text<'a>>,
    name: Option<Text<'a>>,
    namespace: Option<Text<'a>>,
    uid: Option<Text<'a>>,
}

#[derive(Default, Deserialize)]
struct Source<'a> {
    #[serde(borrow)]
    component: Option<Text<'a>>,
    host: Option<Text<'a>>,
}

/// What is sent of an Event. Its message is sent as it is.
pub(super) fn event(json: &str) -> Result<Projection, ProjectionError> {
    let event: Event<'_> = serde_json::from_str(json)?;
    let involved = event.involved_object.unwrap_or_default();
    let involved = Object::default()
        .always("kind", involved.kind.unwrap_or_default())
        .always("name", involved.name.unwrap_or_default())
        .optional("namespace", involved.namespace)
        .optional("uid", involved.uid);
    let source = event.source.unwrap_or_default();
    let source = Object::default()
        .optional("component", source.component)
        .optional("host", source.host);
    let fields = Object::default()
        .always("type", event.type_.unwrap_or_default())
        .always("reason", event.reason.unwrap_or_default())
        .always("message", event.message.unwrap_or_default())
        .always("involved_object", involved)
        .always("source", source)
        .given("first_timestamp", event.first_timestamp)
        .given("last_timestamp", event.last_timestamp)
        .always("count", event.count.unwrap_or_default());
    event.metadata.finish(InventoryKind::Event, fields)
}
