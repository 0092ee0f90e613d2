//! `agent.conf`.

use serde_json::{Value, json};
use trustplane_api::identity::{
    SpireAgentSpec, StringBool, Verification, VerificationType, WorkloadAttestors, names,
};

use super::{health_checks, paths, telemetry};
use crate::Shared;

pub(super) fn conf(spec: &SpireAgentSpec, shared: &Shared) -> Value {
    json!({
        "agent": {
            "data_dir": paths::AGENT_DATA,
            "log_format": spec.log_format.as_str(),
            "log_level": spec.log_level.as_str(),
            // It attests anew when its bundle no longer fits the server, instead of failing for ever. Up to 1.13 this was retry_bootstrap,
            // with which 1.15 does not start.
            "rebootstrap_mode": "auto",
            "server_address": format!("{}.{}", names::SERVER, shared.namespace),
            "server_port": "443",
            "socket_path": format!("{}/{}", paths::AGENT_SOCKET_DIRECTORY, names::SOCKET),
            "trust_bundle_path": format!("{}/{}", paths::AGENT_BUNDLE, names::BUNDLE_KEY),
            "trust_domain": shared.trust_domain,
        },
        "health_checks": health_checks("9982"),
        "plugins": plugins(spec, shared),
        "telemetry": telemetry(),
    })
}

/// The plugins. The agent stops at start without a node attestor or without a workload attestor: what the spec does not mention is on.
fn plugins(spec: &SpireAgentSpec, shared: &Shared) -> Value {
    let mut plugins = json!({ "KeyManager": [{ "memory": { "plugin_data": {} } }] });
    let node = spec.node_attestor.as_ref();
    if node.is_none_or(|node| node.k8s_psat_enabled.is_true()) {
        plugins["NodeAttestor"] =
            json!([{ "k8s_psat": { "plugin_data": { "cluster": shared.cluster_name } } }]);
    }
    let default = WorkloadAttestors::default();
    let workload = spec.workload_attestors.as_ref().unwrap_or(&default);
    if workload.k8s_enabled.is_true() {
        plugins["WorkloadAttestor"] = json!([{ "k8s": { "plugin_data": k8s(workload) } }]);
    }
    plugins
}

fn k8s(attestor: &WorkloadAttestors) -> Value {
    let is_on = |switch: StringBool| switch.is_true();
    let mut conf = json!({
        "disable_container_selectors": is_on(attestor.disable_container_selectors),
        // The pod does not have this variable. The plugin then asks kubelet at 127.0.0.1, and verifies its certificate without a name. With
        // a name of the node it would ask that, and nothing makes such names known to DNS.
        "node_name_env": "MY_NODE_NAME",
        "use_new_container_locator": is_on(attestor.use_new_container_locator),
        "verbose_container_locator_logs": false,
    });
    match kubelet_ca(attestor.workload_attestors_verification.as_ref()) {
        Some(path) => {
            conf["kubelet_ca_path"] = path.into();
            conf["skip_kubelet_verification"] = false.into();
        }
        None => conf["skip_kubelet_verification"] = true.into(),
    }
    conf
}

/// The file with the CA by which the agent verifies kubelet; `None` if it does not. The agent stops if there is no such file.
pub fn kubelet_ca(verification: Option<&Verification>) -> Option<String> {
    let verification = verification?;
    let file = verification.host_cert_file_name.as_deref();
    let on_the_node = file.filter(|file| !file.is_empty()).map(|file| {
        let base = verification.host_cert_base_path.as_deref();
        let base = base.filter(|base| !base.is_empty()).unwrap_or(paths::KUBELET_PKI);
        format!("{}/{file}", base.trim_end_matches('/'))
    });
    match verification.r#type {
        VerificationType::Skip => None,
        VerificationType::Auto | VerificationType::HostCert => {
            Some(on_the_node.unwrap_or_else(|| paths::CLUSTER_CA.to_owned()))
        }
    }
}
