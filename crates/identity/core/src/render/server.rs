//! `server.conf`.

use serde_json::{Map, Value, json};
use trustplane_api::identity::{CaSubject, KeyManager, SpireServerSpec, names};

use super::{datastore, federation, go_duration, health_checks, paths, telemetry};
use crate::Shared;

pub(super) fn conf(spec: &SpireServerSpec, shared: &Shared) -> Value {
    json!({
        "health_checks": health_checks("8080"),
        "plugins": {
            "DataStore": [{ "sql": { "plugin_data": datastore::conf(spec) } }],
            "KeyManager": [key_manager(spec)],
            "NodeAttestor": [{ "k8s_psat": { "plugin_data": { "clusters": [clusters(shared)] } } }],
            // It only patches, and only at start and when the bundle changes: the ConfigMap has to be there, and stay there.
            "Notifier": [{ "k8sbundle": { "plugin_data": {
                "config_map": shared.bundle,
                "namespace": shared.namespace,
            } } }],
        },
        "server": server(spec, shared),
        "telemetry": telemetry(),
    })
}

fn server(spec: &SpireServerSpec, shared: &Shared) -> Value {
    let mut server = json!({
        "audit_log_enabled": false,
        "bind_address": "0.0.0.0",
        "bind_port": "8081",
        "ca_key_type": spec.ca_key_type.as_str(),
        "ca_ttl": go_duration(&spec.ca_validity),
        "data_dir": paths::SERVER_DATA,
        "default_jwt_svid_ttl": go_duration(&spec.default_jwt_validity),
        "default_x509_svid_ttl": go_duration(&spec.default_x509_validity),
        "log_format": spec.log_format.as_str(),
        "log_level": spec.log_level.as_str(),
        "trust_domain": shared.trust_domain,
    });
    if let Some(subject) = &spec.ca_subject {
        server["ca_subject"] = ca_subject(subject);
    }
    if let Some(jwt_key_type) = spec.jwt_key_type {
        server["jwt_key_type"] = jwt_key_type.as_str().into();
    }
    if let Some(issuer) = &spec.jwt_issuer {
        server["jwt_issuer"] = issuer.as_str().into();
    }
    if let Some(federation) = &spec.federation {
        server["federation"] = federation::conf(federation);
    }
    server
}

fn ca_subject(subject: &CaSubject) -> Value {
    json!([{
        "common_name": subject.common_name,
        "country": [subject.country],
        "organization": [subject.organization],
    }])
}

/// Where keys are kept: on the volume, unless the spec turns that off and memory on.
fn key_manager(spec: &SpireServerSpec) -> Value {
    let in_memory = |keys: &KeyManager| !keys.disk_enabled.is_true() && keys.memory_enabled.is_true();
    if spec.key_manager.as_ref().is_some_and(in_memory) {
        return json!({ "memory": { "plugin_data": {} } });
    }
    json!({ "disk": { "plugin_data": { "keys_path": paths::SERVER_KEYS } } })
}

/// Whose tokens the server accepts: those of the agents, by the name that they give the cluster.
fn clusters(shared: &Shared) -> Map<String, Value> {
    let cluster = json!({
        "allowed_node_label_keys": [],
        "allowed_pod_label_keys": [],
        "audience": [names::SERVER],
        "service_account_allow_list": [format!("{}:{}", shared.namespace, names::AGENT)],
    });
    Map::from_iter([(shared.cluster_name.clone(), cluster)])
}
