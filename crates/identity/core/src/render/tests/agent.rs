//! `agent.conf`.

use super::*;

fn agent(spec: &SpireAgentSpec) -> Value {
    json_of(&agent_conf(spec, &shared()))
}

#[test]
fn agent_conf_runs_when_the_spec_is_empty() {
    let expected = json!({
        "agent": {
            "data_dir": "/var/lib/spire",
            "log_format": "text",
            "log_level": "info",
            "rebootstrap_mode": "auto",
            "server_address": "spire-server.zero-trust-workload-identity-manager",
            "server_port": "443",
            "socket_path": "/tmp/spire-agent/public/spire-agent.sock",
            "trust_bundle_path": "/run/spire/bundle/bundle.crt",
            "trust_domain": "example.org",
        },
        "health_checks": {
            "bind_address": "0.0.0.0", "bind_port": "9982", "listener_enabled": true,
            "live_path": "/live", "ready_path": "/ready",
        },
        "plugins": {
            "KeyManager": [{ "memory": { "plugin_data": {} } }],
            "NodeAttestor": [{ "k8s_psat": { "plugin_data": { "cluster": "prod-us-west" } } }],
            "WorkloadAttestor": [{ "k8s": { "plugin_data": {
                "disable_container_selectors": false,
                "node_name_env": "MY_NODE_NAME",
                "skip_kubelet_verification": true,
                "use_new_container_locator": true,
                "verbose_container_locator_logs": false,
            } } }],
        },
        "telemetry": { "Prometheus": { "host": "0.0.0.0", "port": "9402" } },
    });
    assert_eq!(agent(&SpireAgentSpec::default()), expected);
}

#[test]
fn agent_conf_has_attestors_when_the_spec_says_nothing_of_them() {
    let spec = SpireAgentSpec {
        node_attestor: Some(NodeAttestor::default()),
        workload_attestors: Some(WorkloadAttestors::default()),
        ..SpireAgentSpec::default()
    };
    assert_eq!(agent(&spec), agent(&SpireAgentSpec::default()));
    let off = SpireAgentSpec {
        node_attestor: Some(NodeAttestor {
            k8s_psat_enabled: StringBool::False,
        }),
        ..SpireAgentSpec::default()
    };
    assert_eq!(agent(&off)["plugins"].get("NodeAttestor"), None);
}

#[test]
fn kubelet_is_verified_as_the_spec_says() {
    let ca = |r#type, base: Option<&str>, file: Option<&str>| {
        kubelet_ca(Some(&Verification {
            r#type,
            host_cert_base_path: base.map(str::to_owned),
            host_cert_file_name: file.map(str::to_owned),
        }))
    };
    let cluster = Some("/var/run/secrets/kubernetes.io/serviceaccount/ca.crt".to_owned());
    let given = Some("/etc/kubernetes/kubelet-ca.crt".to_owned());
    assert_eq!(kubelet_ca(None), None);
    assert_eq!(
        ca(
            VerificationType::Skip,
            Some("/etc/kubernetes"),
            Some("kubelet-ca.crt")
        ),
        None
    );
    assert_eq!(ca(VerificationType::Auto, None, None), cluster);
    // Release 0 of the original filled in the directory alone.
    assert_eq!(
        ca(VerificationType::Auto, Some("/var/lib/kubelet/pki"), None),
        cluster
    );
    assert_eq!(
        ca(
            VerificationType::Auto,
            Some("/etc/kubernetes"),
            Some("kubelet-ca.crt")
        ),
        given
    );
    assert_eq!(
        ca(
            VerificationType::HostCert,
            Some("/etc/kubernetes/"),
            Some("kubelet-ca.crt")
        ),
        given
    );
    let usual = Some("/var/lib/kubelet/pki/kubelet.crt".to_owned());
    assert_eq!(ca(VerificationType::HostCert, None, Some("kubelet.crt")), usual);
}

#[test]
fn agent_conf_says_either_that_kubelet_is_verified_or_with_what() {
    for example in matrix() {
        let conf = agent(&example.agent);
        let k8s = &conf["plugins"]["WorkloadAttestor"][0]["k8s"]["plugin_data"];
        let skips = k8s["skip_kubelet_verification"].as_bool().unwrap();
        assert_eq!(skips, k8s.get("kubelet_ca_path").is_none(), "{}", example.name);
    }
}
