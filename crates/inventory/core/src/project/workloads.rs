//! Deployments, StatefulSets and DaemonSets. They are read alike; each sends its own fields.

use serde::Deserialize;

use super::input::{Map, Selector, Text};
use super::output::Object;
use super::{Metadata, Projection, ProjectionError};
use crate::kind::InventoryKind;

#[derive(Deserialize)]
struct Workload<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
    spec: Option<Spec<'a>>,
    status: Option<Status>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec<'a> {
    replicas: Option<i64>,
    #[serde(borrow)]
    strategy: Option<Strategy<'a>>,
    update_strategy: Option<Strategy<'a>>,
    service_name: Option<Text<'a>>,
    selector: Option<Selector<'a>>,
    template: Option<Template<'a>>,
}

#[derive(Deserialize)]
struct Strategy<'a> {
    #[serde(borrow, rename = "type")]
    type_: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct Template<'a> {
    #[serde(borrow)]
    spec: Option<TemplateSpec<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TemplateSpec<'a> {
    #[serde(borrow)]
    containers: Option<Vec<Container<'a>>>,
    node_selector: Option<Map<'a>>,
}

#[derive(Deserialize)]
struct Container<'a> {
    #[serde(borrow)]
    image: Option<Text<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    ready_replicas: Option<i64>,
    available_replicas: Option<i64>,
    updated_replicas: Option<i64>,
    current_replicas: Option<i64>,
    desired_number_scheduled: Option<i64>,
    current_number_scheduled: Option<i64>,
    number_ready: Option<i64>,
    number_available: Option<i64>,
}

/// What is sent of a Deployment.
pub(super) fn deployment(json: &str) -> Result<Projection, ProjectionError> {
    let (metadata, spec, status) = read(json)?;
    let fields = Object::default()
        .always("replicas", spec.replicas.unwrap_or(1))
        .always("ready_replicas", status.ready_replicas.unwrap_or_default())
        .always(
            "available_replicas",
            status.available_replicas.unwrap_or_default(),
        )
        .always("updated_replicas", status.updated_replicas.unwrap_or_default())
        .optional("strategy", spec.strategy.and_then(|strategy| strategy.type_))
        .optional("selector", Selector::labels(spec.selector))
        .optional("image", first_image(template(spec.template)));
    metadata.finish(InventoryKind::Deployment, fields)
}

/// What is sent of a StatefulSet.
pub(super) fn stateful_set(json: &str) -> Result<Projection, ProjectionError> {
    let (metadata, spec, status) = read(json)?;
    let fields = Object::default()
        .always("replicas", spec.replicas.unwrap_or(1))
        .always("ready_replicas", status.ready_replicas.unwrap_or_default())
        .always("current_replicas", status.current_replicas.unwrap_or_default())
        .optional(
            "update_strategy",
            spec.update_strategy.and_then(|strategy| strategy.type_),
        )
        .optional("service_name", spec.service_name)
        .optional("selector", Selector::labels(spec.selector))
        .optional("image", first_image(template(spec.template)));
    metadata.finish(InventoryKind::StatefulSet, fields)
}

/// What is sent of a DaemonSet.
pub(super) fn daemon_set(json: &str) -> Result<Projection, ProjectionError> {
    let (metadata, spec, status) = read(json)?;
    let mut template = template(spec.template);
    let fields = Object::default()
        .always(
            "desired_number_scheduled",
            status.desired_number_scheduled.unwrap_or_default(),
        )
        .always(
            "current_number_scheduled",
            status.current_number_scheduled.unwrap_or_default(),
        )
        .always("number_ready", status.number_ready.unwrap_or_default())
        .always("number_available", status.number_available.unwrap_or_default())
        .optional(
            "update_strategy",
            spec.update_strategy.and_then(|strategy| strategy.type_),
        )
        .optional("selector", Selector::labels(spec.selector))
        .optional("node_selector", template.node_selector.take())
        .optional("image", first_image(template));
    metadata.finish(InventoryKind::DaemonSet, fields)
}

fn read(json: &str) -> Result<(Metadata<'_>, Spec<'_>, Status), ProjectionError> {
    let Workload {
        metadata,
        spec,
        status,
    } = serde_json::from_str(json)?;
    Ok((metadata, spec.unwrap_or_default(), status.unwrap_or_default()))
}

fn template(template: Option<Template<'_>>) -> TemplateSpec<'_> {
    template.and_then(|template| template.spec).unwrap_or_default()
}

fn first_image(template: TemplateSpec<'_>) -> Option<Text<'_>> {
    template.containers?.into_iter().next()?.image
}
