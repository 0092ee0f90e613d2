//! Who reaches the ports of a process, and which further volumes it has.

use serde_json::{Value, json};

use super::{argument, complaint, find, objects, product};

const MONITORING: &str =
    r"networkPolicy.metricsFrom[0].namespaceSelector.matchLabels.kubernetes\.io/metadata\.name=monitoring";

fn monitoring() -> Value {
    json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}})
}

/// The ingress rules of a NetworkPolicy, as pairs of ports and peers.
fn ingress(objects: &[Value], name: &str) -> Vec<(Value, Value)> {
    let policy = find(objects, &format!("NetworkPolicy/{name}"));
    let rules = policy["spec"]["ingress"].as_array().unwrap().iter();
    rules
        .map(|rule| (rule["ports"][0]["port"].clone(), rule["from"].clone()))
        .collect()
}

#[test]
fn probes_have_a_port_that_no_pod_reaches() {
    let objects = objects(&[]);
    let deployment = find(&objects, "Deployment/tp-trustplane-manager");
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(
        argument(deployment, "--health-probe-bind-address=").as_deref(),
        Some(":8081")
    );
    let port = json!({"name": "probes", "containerPort": 8081, "protocol": "TCP"});
    assert!(container["ports"].as_array().unwrap().contains(&port));
    for probe in ["livenessProbe", "readinessProbe"] {
        assert_eq!(container[probe]["httpGet"]["port"], "probes", "{probe}");
    }
    let service = find(&objects, "Service/tp-trustplane-manager");
    assert!(
        !service["spec"]["ports"].to_string().contains("probes"),
        "{service}"
    );
    let webhook = (json!("webhook"), Value::Null);
    assert_eq!(ingress(&objects, "tp-trustplane-manager"), [webhook]);
}

#[test]
fn a_policy_without_an_ingress_rule_denies_all() {
    let objects = objects(&["capabilities.beta.enabled=true"]);
    assert!(ingress(&objects, "tp-trustplane-manager").is_empty());
}

#[test]
fn metrics_are_for_the_peers_that_are_named() {
    let nodes = "networkPolicy.probesFrom[0].ipBlock.cidr=10.0.0.0/16";
    let objects = product(&["capabilities.hsm.namespaces={tokens}", MONITORING, nodes]);
    let node = json!({"ipBlock": {"cidr": "10.0.0.0/16"}});
    let manager = ingress(&objects, "tp-trustplane-manager");
    assert_eq!(manager[0], (json!("admin"), json!([monitoring()])));
    assert_eq!(manager[1], (json!("probes"), json!([node])));
    // An agent and discovery serve both at one port.
    let both = json!([monitoring(), node]);
    let agents = ingress(&objects, "tp-trustplane-agents");
    assert_eq!(agents.last().unwrap(), &(json!(8093), both.clone()));
    assert_eq!(
        ingress(&objects, "tp-trustplane-discovery"),
        [(json!(8080), both)]
    );
    let closed = product(&["capabilities.hsm.namespaces={tokens}"]);
    assert!(ingress(&closed, "tp-trustplane-discovery").is_empty());
}

#[test]
fn further_volumes_reach_the_manager() {
    let values = [
        "deployment.extraVolumes[0].name=secrets",
        "deployment.extraVolumes[0].secret.secretName=team-secrets",
        "deployment.extraVolumeMounts[0].name=secrets",
        "deployment.extraVolumeMounts[0].mountPath=/secrets/team",
        "deployment.extraVolumeMounts[0].readOnly=true",
        "deployment.extraArgs={--sync-file-root=/secrets}",
    ];
    let objects = objects(&values);
    let deployment = find(&objects, "Deployment/tp-trustplane-manager");
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(
        pod["volumes"],
        json!([{"name": "secrets", "secret": {"secretName": "team-secrets"}}])
    );
    assert_eq!(
        pod["containers"][0]["volumeMounts"],
        json!([{"name": "secrets", "mountPath": "/secrets/team", "readOnly": true}])
    );
    assert_eq!(
        argument(deployment, "--sync-file-root=").as_deref(),
        Some("/secrets")
    );
    for (wrong, lacks) in [
        ("deployment.extraVolumes[0].secret.secretName=x", "name"),
        ("deployment.extraVolumeMounts[0].name=secrets", "mountPath"),
    ] {
        let complaint = complaint(&[wrong]);
        assert!(complaint.contains(lacks), "{complaint}");
    }
}
