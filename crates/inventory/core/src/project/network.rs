//! Services, Ingresses and NetworkPolicies.

mod ingress;

use serde::Deserialize;
use serde::de::IgnoredAny;

pub(super) use self::ingress::ingress;
use super::input::{Map, Selector, Text};
use super::output::{Object, each};
use super::{Metadata, Projection, ProjectionError};
use crate::kind::InventoryKind;

#[derive(Deserialize)]
struct Service<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
    spec: Option<ServiceSpec<'a>>,
}

#[derive(Default, Deserialize)]
struct ServiceSpec<'a> {
    #[serde(borrow, rename = "type")]
    type_: Option<Text<'a>>,
    #[serde(rename = "clusterIP")]
    cluster_ip: Option<Text<'a>>,
    ports: Option<Vec<Port<'a>>>,
    selector: Option<Map<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Port<'a> {
    #[serde(borrow)]
    name: Option<Text<'a>>,
    protocol: Option<Text<'a>>,
    port: Option<i64>,
    target_port: Option<Text<'a>>,
}

/// What is sent of a Service.
pub(super) fn service(json: &str) -> Result<Projection, ProjectionError> {
    let Service { metadata, spec } = serde_json::from_str(json)?;
    let spec = spec.unwrap_or_default();
    let fields = Object::default()
        .optional("service_type", spec.type_)
        .optional("cluster_ip", spec.cluster_ip)
        .optional("ports", each(spec.ports, port))
        .optional("selector", spec.selector);
    metadata.finish(InventoryKind::Service, fields)
}

fn port(port: Port<'_>) -> Object<'_> {
    Object::default()
        .optional("name", port.name)
        .always("protocol", port.protocol.unwrap_or_default())
        .always("port", port.port.unwrap_or_default())
        // The one key of the contract in this style.
        .optional("targetPort", port.target_port)
}

#[derive(Deserialize)]
struct NetworkPolicy<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
    spec: Option<NetworkPolicySpec<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct NetworkPolicySpec<'a> {
    #[serde(borrow)]
    pod_selector: Option<Selector<'a>>,
    policy_types: Option<Vec<Text<'a>>>,
    ingress: Option<Vec<IgnoredAny>>,
    egress: Option<Vec<IgnoredAny>>,
}

/// What is sent of a NetworkPolicy.
pub(super) fn network_policy(json: &str) -> Result<Projection, ProjectionError> {
    let NetworkPolicy { metadata, spec } = serde_json::from_str(json)?;
    let spec = spec.unwrap_or_default();
    let fields = Object::default()
        .optional("pod_selector", Selector::labels(spec.pod_selector))
        .optional("policy_types", spec.policy_types)
        .always("ingress_rules", spec.ingress.map_or(0, |rules| rules.len()))
        .always("egress_rules", spec.egress.map_or(0, |rules| rules.len()));
    metadata.finish(InventoryKind::NetworkPolicy, fields)
}
