//! Ingresses.

use serde::Deserialize;

use crate::kind::InventoryKind;
use crate::project::input::Text;
use crate::project::output::{Object, each};
use crate::project::{Metadata, Projection, ProjectionError};

#[derive(Deserialize)]
struct Ingress<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
    spec: Option<Spec<'a>>,
    status: Option<Status<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec<'a> {
    #[serde(borrow)]
    ingress_class_name: Option<Text<'a>>,
    rules: Option<Vec<Rule<'a>>>,
    tls: Option<Vec<Tls<'a>>>,
}

#[derive(Deserialize)]
struct Rule<'a> {
    #[serde(borrow)]
    host: Option<Text<'a>>,
    http: Option<Http<'a>>,
}

#[derive(Deserialize)]
struct Http<'a> {
    #[serde(borrow)]
    paths: Option<Vec<Path<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Path<'a> {
    #[serde(borrow)]
    path: Option<Text<'a>>,
    path_type: Option<Text<'a>>,
    backend: Option<Backend<'a>>,
}

#[derive(Deserialize)]
struct Backend<'a> {
    #[serde(borrow)]
    service: Option<BackendService<'a>>,
}

#[derive(Default, Deserialize)]
struct BackendService<'a> {
    #[serde(borrow)]
    name: Option<Text<'a>>,
    port: Option<BackendPort>,
}

/// The contract has no place for the name of a port.
#[derive(Deserialize)]
struct BackendPort {
    number: Option<i64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tls<'a> {
    #[serde(borrow)]
    hosts: Option<Vec<Text<'a>>>,
    secret_name: Option<Text<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status<'a> {
    #[serde(borrow)]
    load_balancer: Option<LoadBalancer<'a>>,
}

#[derive(Deserialize)]
struct LoadBalancer<'a> {
    #[serde(borrow)]
    ingress: Option<Vec<Address<'a>>>,
}

#[derive(Deserialize)]
struct Address<'a> {
    #[serde(borrow)]
    ip: Option<Text<'a>>,
    hostname: Option<Text<'a>>,
}

/// What is sent of an Ingress.
pub(in crate::project) fn ingress(json: &str) -> Result<Projection, ProjectionError> {
    let Ingress {
        metadata,
        spec,
        status,
    } = serde_json::from_str(json)?;
    let spec = spec.unwrap_or_default();
    let fields = Object::default()
        .optional("ingress_class_name", spec.ingress_class_name)
        .optional("rules", each(spec.rules, rule))
        .optional("tls", each(spec.tls, tls))
        .optional("load_balancer_ips", addresses(status.unwrap_or_default()));
    metadata.finish(InventoryKind::Ingress, fields)
}

fn rule(rule: Rule<'_>) -> Object<'_> {
    Object::default()
        .optional("host", rule.host)
        .optional("paths", each(rule.http.and_then(|http| http.paths), path))
}

fn path(path: Path<'_>) -> Object<'_> {
    let service = path
        .backend
        .and_then(|backend| backend.service)
        .unwrap_or_default();
    Object::default()
        .optional("path", path.path)
        .optional("path_type", path.path_type)
        .optional("service_name", service.name)
        .optional("service_port", service.port.and_then(|port| port.number))
}

fn tls(tls: Tls<'_>) -> Object<'_> {
    Object::default()
        .optional("hosts", tls.hosts)
        .optional("secret_name", tls.secret_name)
}

/// The IP of each address, or its host name if it has no IP.
fn addresses(status: Status<'_>) -> Vec<Text<'_>> {
    status
        .load_balancer
        .and_then(|balancer| balancer.ingress)
        .into_iter()
        .flatten()
        .filter_map(|address| not_empty(address.ip).or(not_empty(address.hostname)))
        .collect()
}

fn not_empty(text: Option<Text<'_>>) -> Option<Text<'_>> {
    text.filter(|text| !text.as_str().is_empty())
}
