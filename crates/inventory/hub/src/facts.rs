//! What lists show of an object besides its status: a few texts for each kind.

use std::collections::BTreeMap;

use serde_json::Value;
use trustplane_inventory_core::InventoryKind;

use crate::status::{list, number, word};

/// How many names a fact lists before it says how many more there are.
const NAMES: usize = 3;

/// The facts of an object. Empty ones are left out.
pub fn facts(kind: &str, object: &Value) -> BTreeMap<&'static str, String> {
    let facts = with_empty(kind, object);
    facts.into_iter().filter(|(_, text)| !text.is_empty()).collect()
}

/// Every fact of a kind, with an empty text where the object does not say.
fn with_empty(kind: &str, object: &Value) -> Vec<(&'static str, String)> {
    use InventoryKind as Kind;
    match InventoryKind::from_name(kind) {
        Some(Kind::Pod) => pod(object),
        Some(kind @ (Kind::Deployment | Kind::StatefulSet | Kind::DaemonSet)) => workload(kind, object),
        Some(kind @ (Kind::Job | Kind::CronJob)) => job(kind, object),
        Some(Kind::Service) => service(object),
        Some(Kind::Ingress) => ingress(object),
        Some(Kind::Node) => node(object),
        Some(Kind::Namespace) => vec![("phase", text(object, "phase"))],
        Some(Kind::NetworkPolicy) => vec![("types", listed(object, "policy_types"))],
        Some(Kind::ConfigMap) => {
            let keys = list(object, "data_keys").count() + list(object, "binary_keys").count();
            vec![("keys", keys.to_string())]
        }
        Some(Kind::Secret) => vec![
            ("type", text(object, "type")),
            ("keys", size(object, "data_keys")),
        ],
        Some(Kind::PersistentVolumeClaim) => vec![
            ("size", text(object, "storage_request")),
            ("storage_class", text(object, "storage_class_name")),
            ("volume", text(object, "volume_name")),
        ],
        Some(Kind::ServiceAccount) => vec![("secrets", size(object, "secrets"))],
        Some(Kind::Role | Kind::ClusterRole) => vec![
            ("rules", number(object, "rule_count").to_string()),
            ("resources", listed(object, "resources")),
        ],
        Some(Kind::RoleBinding | Kind::ClusterRoleBinding) => binding(object),
        Some(Kind::Event) => event(object),
        None => Vec::new(),
    }
}

fn text(object: &Value, key: &str) -> String {
    word(object, key).to_owned()
}

fn size(object: &Value, key: &str) -> String {
    list(object, key).count().to_string()
}

/// The texts of a list.
fn listed(object: &Value, key: &str) -> String {
    names(list(object, key).filter_map(Value::as_str))
}

/// Such as `2/3`.
fn of(object: &Value, done: &str, wanted: &str) -> String {
    format!("{}/{}", number(object, done), number(object, wanted))
}

fn workload(kind: InventoryKind, object: &Value) -> Vec<(&'static str, String)> {
    let (ready, wanted) = match kind {
        InventoryKind::DaemonSet => ("number_ready", "desired_number_scheduled"),
        _ => ("ready_replicas", "replicas"),
    };
    vec![
        ("ready", of(object, ready, wanted)),
        ("image", text(object, "image")),
        ("strategy", text(object, "strategy")),
        ("service", text(object, "service_name")),
    ]
}

fn job(kind: InventoryKind, object: &Value) -> Vec<(&'static str, String)> {
    if kind == InventoryKind::Job {
        return vec![
            ("completions", of(object, "succeeded", "completions")),
            ("owner", text(object, "owner_ref")),
        ];
    }
    vec![
        ("schedule", text(object, "schedule")),
        ("active", number(object, "active_jobs").to_string()),
        ("last_schedule", text(object, "last_schedule_time")),
    ]
}

fn pod(pod: &Value) -> Vec<(&'static str, String)> {
    let containers: Vec<&Value> = list(pod, "containers").collect();
    let ready = containers
        .iter()
        .filter(|container| container["ready"] == true)
        .count();
    let restarts: i64 = containers
        .iter()
        .map(|container| number(container, "restart_count"))
        .sum();
    let image = containers
        .first()
        .map(|container| word(container, "image").to_owned());
    vec![
        ("node", word(pod, "node_name").to_owned()),
        ("ready", format!("{ready}/{}", containers.len())),
        ("restarts", restarts.to_string()),
        ("image", image.unwrap_or_default()),
        ("ip", word(pod, "pod_ip").to_owned()),
    ]
}

fn service(service: &Value) -> Vec<(&'static str, String)> {
    let ports: Vec<String> = list(service, "ports")
        .map(|port| format!("{}/{}", number(port, "port"), word(port, "protocol")))
        .collect();
    vec![
        ("type", word(service, "service_type").to_owned()),
        ("cluster_ip", word(service, "cluster_ip").to_owned()),
        ("ports", names(ports.iter().map(String::as_str))),
    ]
}

fn ingress(ingress: &Value) -> Vec<(&'static str, String)> {
    let hosts = list(ingress, "rules")
        .map(|rule| word(rule, "host"))
        .filter(|host| !host.is_empty());
    vec![
        ("class", word(ingress, "ingress_class_name").to_owned()),
        ("hosts", names(hosts)),
        (
            "address",
            names(list(ingress, "load_balancer_ips").filter_map(Value::as_str)),
        ),
    ]
}

fn node(node: &Value) -> Vec<(&'static str, String)> {
    vec![
        ("roles", names(list(node, "roles").filter_map(Value::as_str))),
        ("version", word(node, "kubelet_version").to_owned()),
        ("cpu", word(node, "cpu_capacity").to_owned()),
        ("memory", word(node, "memory_capacity").to_owned()),
        ("pods", word(node, "pod_capacity").to_owned()),
    ]
}

fn binding(binding: &Value) -> Vec<(&'static str, String)> {
    let role = &binding["role_ref"];
    let subjects: Vec<String> = list(binding, "subjects")
        .map(|subject| format!("{}/{}", word(subject, "kind"), word(subject, "name")))
        .collect();
    vec![
        ("role", format!("{}/{}", word(role, "kind"), word(role, "name"))),
        ("subjects", names(subjects.iter().map(String::as_str))),
    ]
}

fn event(event: &Value) -> Vec<(&'static str, String)> {
    let involved = &event["involved_object"];
    vec![
        ("type", word(event, "type").to_owned()),
        ("reason", word(event, "reason").to_owned()),
        ("message", word(event, "message").to_owned()),
        (
            "object",
            format!("{}/{}", word(involved, "kind"), word(involved, "name")),
        ),
        ("count", number(event, "count").to_string()),
    ]
}

/// The first names, and how many more there are.
fn names<'a>(all: impl Iterator<Item = &'a str>) -> String {
    let all: Vec<&str> = all.collect();
    let first = all.iter().take(NAMES).copied().collect::<Vec<_>>().join(", ");
    match all.len().saturating_sub(NAMES) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_tells_readiness_restarts_and_image() {
        let pod = json!({"node_name": "n1", "containers": [
            {"image": "app:1", "ready": true, "restart_count": 1},
            {"image": "sidecar:2", "ready": false, "restart_count": 2},
        ]});
        let facts = facts("Pod", &pod);
        assert_eq!(facts["ready"], "1/2");
        assert_eq!(facts["restarts"], "3");
        assert_eq!(facts["image"], "app:1");
        assert!(!facts.contains_key("ip"), "what is empty is left out");
    }

    #[test]
    fn console_columns_name_facts_that_the_hub_has() {
        let columns: BTreeMap<String, Vec<String>> =
            serde_json::from_str(include_str!("../../console/web/src/model/facts.json")).unwrap();
        assert!(!columns.is_empty());
        for (kind, names) in &columns {
            let known = with_empty(kind, &json!({}));
            for name in names {
                assert!(
                    known.iter().any(|(fact, _)| fact == name),
                    "the console has a column {name} for {kind}, the hub has {known:?}"
                );
            }
        }
    }

    #[test]
    fn long_lists_are_cut() {
        assert_eq!(names(["a", "b", "c"].into_iter()), "a, b, c");
        assert_eq!(names(["a", "b", "c", "d", "e"].into_iter()), "a, b, c and 2 more");
    }

    #[test]
    fn every_kind_has_facts_of_nothing_without_a_panic() {
        for kind in InventoryKind::ALL {
            facts(kind.name(), &json!({}));
            facts(kind.name(), &json!(null));
        }
        assert!(facts("Widget", &json!({"type": "x"})).is_empty());
    }
}
