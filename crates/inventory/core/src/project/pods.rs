//! Pods.

mod containers;
mod volumes;

use serde::Deserialize;

use self::containers::{Container, ContainerStatus};
use self::volumes::Volume;
use super::input::Text;
use super::output::{Object, each};
use super::{Metadata, Projection, ProjectionError};
use crate::kind::InventoryKind;

#[derive(Deserialize)]
struct Pod<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
    spec: Option<PodSpec<'a>>,
    status: Option<PodStatus<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodSpec<'a> {
    #[serde(borrow)]
    node_name: Option<Text<'a>>,
    service_account_name: Option<Text<'a>>,
    priority_class_name: Option<Text<'a>>,
    containers: Option<Vec<Container<'a>>>,
    init_containers: Option<Vec<Container<'a>>>,
    volumes: Option<Vec<Volume<'a>>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodStatus<'a> {
    #[serde(borrow)]
    phase: Option<Text<'a>>,
    qos_class: Option<Text<'a>>,
    #[serde(rename = "hostIP")]
    host_ip: Option<Text<'a>>,
    #[serde(rename = "podIP")]
    pod_ip: Option<Text<'a>>,
    conditions: Option<Vec<Condition<'a>>>,
    container_statuses: Option<Vec<ContainerStatus<'a>>>,
    init_container_statuses: Option<Vec<ContainerStatus<'a>>>,
}

#[derive(Deserialize)]
struct Condition<'a> {
    #[serde(borrow, rename = "type")]
    type_: Option<Text<'a>>,
    status: Option<Text<'a>>,
}

/// What is sent of a Pod.
pub(super) fn pod(json: &str) -> Result<Projection, ProjectionError> {
    let Pod {
        metadata,
        spec,
        status,
    } = serde_json::from_str(json)?;
    let (spec, status) = (spec.unwrap_or_default(), status.unwrap_or_default());
    let fields = Object::default()
        .optional("node_name", spec.node_name)
        .optional("service_account", spec.service_account_name)
        .optional("priority_class_name", spec.priority_class_name)
        .optional("phase", status.phase)
        .optional("qos_class", status.qos_class)
        .optional("host_ip", status.host_ip)
        .optional("pod_ip", status.pod_ip)
        .optional("conditions", each(status.conditions, condition))
        .optional(
            "containers",
            containers::project(spec.containers, status.container_statuses),
        )
        .optional(
            "init_containers",
            containers::project(spec.init_containers, status.init_container_statuses),
        )
        .optional("volumes", each(spec.volumes, volumes::project));
    metadata.finish(InventoryKind::Pod, fields)
}

fn condition(condition: Condition<'_>) -> Object<'_> {
    Object::default()
        .always("type", condition.type_.unwrap_or_default())
        .always("status", condition.status.unwrap_or_default())
}
