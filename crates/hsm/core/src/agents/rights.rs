//! Who an agent is, and what it may do: read one Secret, and fill one ConfigMap.

use serde_json::{Value, json};
use trustplane_api::hsm::names::{DEVICE_LABEL, SERIAL_LABEL};
use trustplane_plan::kinds::{ROLE, ROLE_BINDING, SERVICE_ACCOUNT};
use trustplane_plan::{Kind, Manifest};

use super::Agent;
use crate::objects::{AGENT, COMPONENT_LABEL, DEVICE_NAMESPACE_LABEL, away_name, label_value};

const GROUP: &str = "rbac.authorization.k8s.io";

pub(super) fn manifests(agent: &Agent<'_>) -> Vec<Manifest> {
    let namespace = &agent.device.namespace;
    let pin = &agent.opening.pin;
    // list and watch of one name: by a field selector.
    let pin_rule = rule("secrets", &pin.name, &["get", "list", "watch"]);
    let record_rule = rule("configmaps", &agent.name, &["get", "patch"]);
    // The token is mounted by the one pod that needs it.
    let account = agent
        .object(SERVICE_ACCOUNT)
        .with("automountServiceAccountToken", false.into());
    let mut wishes = vec![account];
    let mut rules = vec![record_rule];
    if pin.namespace == *namespace {
        rules.push(pin_rule);
    } else {
        let there = away_name(namespace, &agent.name);
        let away = |kind: Kind| away(agent, kind, &there);
        wishes.push(away(ROLE).with("rules", json!([pin_rule])));
        wishes.push(bind(away(ROLE_BINDING), &there, agent));
    }
    wishes.push(agent.object(ROLE).with("rules", rules.into()));
    wishes.push(bind(agent.object(ROLE_BINDING), &agent.name, agent));
    wishes
}

/// An object in the namespace of the PIN. It cannot have an owner, so labels tell for whom it is.
fn away(agent: &Agent<'_>, kind: Kind, name: &str) -> Manifest {
    Manifest::new(kind, Some(&agent.opening.pin.namespace), name)
        .label(COMPONENT_LABEL, AGENT)
        .label(DEVICE_NAMESPACE_LABEL, &agent.device.namespace)
        .label(DEVICE_LABEL, &label_value(&agent.device.name))
        .label(SERIAL_LABEL, &label_value(&agent.serial))
}

fn bind(binding: Manifest, role: &str, agent: &Agent<'_>) -> Manifest {
    binding
        .with(
            "roleRef",
            json!({ "apiGroup": GROUP, "kind": "Role", "name": role }),
        )
        .with(
            "subjects",
            json!([{ "kind": "ServiceAccount", "name": agent.name, "namespace": agent.device.namespace }]),
        )
}

fn rule(resource: &str, name: &str, verbs: &[&str]) -> Value {
    json!({ "apiGroups": [""], "resources": [resource], "resourceNames": [name], "verbs": verbs })
}
