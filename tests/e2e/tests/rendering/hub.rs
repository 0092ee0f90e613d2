//! The hub, and what the inventory needs: who reaches whom, which Secrets the manager reads, and what is not there unless it is
//! asked for.

use std::path::Path;

use serde_json::{Value, json};
use trustplane_e2e::chart::{Chart, render};

use super::{argument, complaint, find, names, objects};

const HUB: &str = "hub.enabled=true";
const INVENTORY: &str = "capabilities.inventory.enabled=true";

/// The chart as it is committed.
pub fn committed() -> Chart {
    let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/trustplane/files");
    Chart::with_files(&files).unwrap()
}

/// What it renders.
pub fn product(values: &[&str]) -> Vec<Value> {
    let said = render(&committed(), values).unwrap();
    assert!(said.status.success(), "{}", said.err);
    serde_saphyr::from_multiple(&said.out).unwrap()
}

fn pod(objects: &[Value]) -> &Value {
    &find(objects, "Deployment/tp-trustplane-hub")["spec"]["template"]["spec"]
}

/// The selector of a process of this release.
fn selector(component: &str) -> Value {
    json!({"matchLabels": {
        "app.kubernetes.io/component": component,
        "app.kubernetes.io/instance": "tp",
        "app.kubernetes.io/name": "trustplane",
    }})
}

#[test]
fn nothing_of_the_inventory_is_there_unless_it_is_asked_for() {
    let objects = product(&[]);
    let rendered = serde_json::to_string(&objects).unwrap();
    for trace in ["trustplane-hub", "ObsykAgent", "obsyk-credentials", "8443"] {
        assert!(!rendered.contains(trace), "{trace} is rendered by default");
    }
}

#[test]
fn the_hub_is_one_pod_without_a_token_for_the_api_server() {
    let objects = objects(&[HUB, "hub.urls={https://hub.example.com}"]);
    let deployment = find(&objects, "Deployment/tp-trustplane-hub");
    assert_eq!(deployment["spec"]["replicas"], 1);
    assert_eq!(deployment["spec"]["strategy"], json!({"type": "Recreate"}));
    let arguments = json!([
        "--data-dir=/var/lib/trustplane-hub",
        "--agents-bind-address=:8443",
        "--console-bind-address=127.0.0.1:8480",
        "--url=https://tp-trustplane-hub.home.svc:8443",
        "--url=https://hub.example.com",
        "--admin-bind-address=:8080",
        "--health-probe-bind-address=:8081",
        "--log-format=json",
        "--log=info",
    ]);
    let pod = pod(&objects);
    assert_eq!(pod["containers"][0]["args"], arguments);
    assert_eq!(pod["automountServiceAccountToken"], false);
    let account = find(&objects, "ServiceAccount/tp-trustplane-hub");
    assert_eq!(account["automountServiceAccountToken"], false);
    let bound = objects.iter().filter(|object| {
        let subjects = object["subjects"].as_array().into_iter().flatten();
        subjects
            .into_iter()
            .any(|subject| subject["name"] == "tp-trustplane-hub")
    });
    assert_eq!(bound.count(), 0, "the hub has a right");
    for probe in ["livenessProbe", "readinessProbe"] {
        assert_eq!(
            pod["containers"][0][probe]["httpGet"]["port"], "probes",
            "{probe}"
        );
    }
    let service = find(&objects, "Service/tp-trustplane-hub");
    let port = json!([{"name": "agents", "port": 8443, "targetPort": "agents", "protocol": "TCP"}]);
    assert_eq!(service["spec"]["ports"], port);
    assert_eq!(service["spec"]["type"], "ClusterIP");
}

#[test]
fn the_hub_fits_the_restricted_profile() {
    let objects = objects(&[HUB]);
    let manager = find(&objects, "Deployment/tp-trustplane-manager");
    let manager = &manager["spec"]["template"]["spec"]["containers"][0];
    let hub = pod(&objects);
    assert_eq!(
        hub["containers"][0]["securityContext"],
        manager["securityContext"]
    );
    assert!(hub["containers"][0]["resources"]["limits"]["memory"].is_string());
    // Whoever made the volume, the hub may write to it.
    assert_eq!(hub["securityContext"]["fsGroup"], 65532);
    for forbidden in ["hostNetwork", "hostPID", "hostIPC"] {
        assert_eq!(hub.get(forbidden), None);
    }
}

#[test]
fn data_is_on_a_claim_that_outlives_the_release_unless_the_values_say_otherwise() {
    let volume = |values: &[&str]| {
        let objects = objects(&[&[HUB], values].concat());
        let data = pod(&objects)["volumes"][0].clone();
        let claims = names(&objects)
            .into_iter()
            .filter(|name| name.starts_with("PersistentVolumeClaim/"));
        (data, claims.collect::<Vec<_>>())
    };
    let claim = |name: &str| json!({"name": "data", "persistentVolumeClaim": {"claimName": name}});
    let own = "PersistentVolumeClaim/tp-trustplane-hub".to_owned();
    assert_eq!(volume(&[]), (claim("tp-trustplane-hub"), vec![own]));
    assert_eq!(
        volume(&["hub.persistence.existingClaim=mine"]),
        (claim("mine"), vec![])
    );
    assert_eq!(
        volume(&["hub.persistence.enabled=false"]),
        (json!({"name": "data", "emptyDir": {}}), vec![])
    );
    let objects = objects(&[
        HUB,
        "hub.persistence.size=1Gi",
        "hub.persistence.storageClass=fast",
    ]);
    let claim = find(&objects, "PersistentVolumeClaim/tp-trustplane-hub");
    assert_eq!(
        claim["metadata"]["annotations"]["helm.sh/resource-policy"],
        "keep"
    );
    assert_eq!(claim["spec"]["resources"]["requests"]["storage"], "1Gi");
    assert_eq!(claim["spec"]["storageClassName"], "fast");
}

#[test]
fn the_hub_hears_agents_and_calls_nobody() {
    let objects = product(&[HUB, INVENTORY, "hub.agentsFrom[0].ipBlock.cidr=203.0.113.0/24"]);
    let policy = &find(&objects, "NetworkPolicy/tp-trustplane-hub")["spec"];
    assert_eq!(policy["podSelector"], selector("hub"));
    assert_eq!(policy["policyTypes"], json!(["Ingress", "Egress"]));
    assert_eq!(policy["egress"], json!([]));
    let agents = json!([{
        "ports": [{"port": "agents", "protocol": "TCP"}],
        "from": [{"podSelector": selector("manager")}, {"ipBlock": {"cidr": "203.0.113.0/24"}}],
    }]);
    assert_eq!(policy["ingress"], agents);
    // Without the capability no process of this cluster sends an inventory.
    let alone = product(&[HUB]);
    let policy = &find(&alone, "NetworkPolicy/tp-trustplane-hub")["spec"];
    assert_eq!(policy["ingress"], json!([]));
}

#[test]
fn the_manager_reaches_the_hub_only_if_it_sends_an_inventory() {
    let reaches = |values: &[&str]| {
        let objects = product(values);
        let policy = find(&objects, "NetworkPolicy/tp-trustplane-manager");
        let rules = policy["spec"]["egress"].as_array().unwrap();
        let to_hub = json!({
            "ports": [{"port": 8443, "protocol": "TCP"}],
            "to": [{"podSelector": selector("hub")}],
        });
        rules.contains(&to_hub)
    };
    assert!(reaches(&[HUB, INVENTORY]));
    assert!(!reaches(&[HUB]) && !reaches(&[INVENTORY]));
}

#[test]
fn the_inventory_switches_no_other_capability_off() {
    let objects = product(&[INVENTORY]);
    let manager = find(&objects, "Deployment/tp-trustplane-manager");
    let chosen = argument(manager, "--capabilities=").unwrap();
    let chosen: Vec<&str> = chosen.split(',').collect();
    for capability in ["sync", "hsm", "inventory"] {
        assert!(chosen.contains(&capability), "{chosen:?}");
    }
}

#[test]
fn a_kind_that_is_switched_off_has_no_right_and_is_not_watched() {
    let lists_secrets = |objects: &[Value]| {
        let role = find(
            objects,
            "ClusterRole/tp-trustplane-capability-inventory-everywhere",
        );
        let rules = role["rules"].as_array().unwrap().iter();
        rules
            .flat_map(|rule| rule["resources"].as_array().unwrap())
            .any(|resource| resource == "secrets")
    };
    let without = |objects: &[Value]| {
        let manager = find(objects, "Deployment/tp-trustplane-manager");
        argument(manager, "--inventory-without=")
    };
    let all = product(&[INVENTORY]);
    assert!(lists_secrets(&all) && without(&all).is_none());
    let fewer = product(&[INVENTORY, "capabilities.inventory.parts.secrets=false"]);
    assert!(!lists_secrets(&fewer));
    assert_eq!(without(&fewer).as_deref(), Some("secrets"));
}

/// The names of Secrets that the capability may read at home.
fn readable(objects: &[Value]) -> Vec<String> {
    let role = find(objects, "Role/tp-trustplane-capability-inventory");
    let rules = role["rules"].as_array().unwrap().iter();
    let secrets = rules.filter(|rule| rule["resources"].as_array().unwrap().contains(&json!("secrets")));
    secrets
        .flat_map(|rule| rule["resourceNames"].as_array().unwrap())
        .map(|name| name.as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn the_manager_reads_the_credentials_that_the_values_name_and_the_chart_makes_none() {
    let default = product(&[INVENTORY]);
    assert_eq!(readable(&default), ["obsyk-credentials"]);
    assert!(!names(&default).iter().any(|name| name.contains("credentials")));
    let guard = find(
        &default,
        "ValidatingAdmissionPolicy/tp-trustplane-manager-secrets",
    );
    assert!(!guard.to_string().contains("CREDENTIALS") && !guard.to_string().contains("credentials\""));
    let named = product(&[
        INVENTORY,
        "inventory.credentialsSecrets={one,two}",
        "inventory.agent.enabled=true",
        "inventory.agent.clusterName=prod",
        "inventory.agent.platformURL=https://hub.example.com",
        "inventory.agent.credentialsSecretRef.name=three",
    ]);
    assert_eq!(readable(&named), ["one", "two", "three"]);
    // A rule without names would permit every Secret: without names there is no rule, and so no role.
    let none = product(&[INVENTORY, "inventory.credentialsSecrets=null"]);
    assert!(
        !names(&none)
            .iter()
            .any(|name| name == "Role/tp-trustplane-capability-inventory")
    );
}

const AGENT: [&str; 4] = [
    INVENTORY,
    "inventory.agent.enabled=true",
    "inventory.agent.clusterName=prod",
    "inventory.agent.platformURL=https://hub.example.com",
];

#[test]
fn an_agent_has_the_fields_that_the_values_give() {
    let objects = product(&AGENT);
    let agent = find(&objects, "ObsykAgent/tp-trustplane");
    let expected = json!({
        "platformURL": "https://hub.example.com",
        "clusterName": "prod",
        "credentialsSecretRef": {"name": "obsyk-credentials"},
        "syncInterval": "5m",
        "rateLimit": {"eventsPerSecond": 10, "burstSize": 20},
    });
    assert_eq!(agent["spec"], expected);
    let more = [
        "inventory.agent.caBundle=PEM",
        "inventory.agent.proxyURL=http://proxy:3128",
        "inventory.agent.fullSyncInterval=24h",
        "inventory.agent.excludeNamespaces={kube-system}",
    ];
    let objects = product(&[&AGENT[..], &more].concat());
    let spec = &find(&objects, "ObsykAgent/tp-trustplane")["spec"];
    assert_eq!(spec["caBundle"], "PEM");
    assert_eq!(spec["proxyURL"], "http://proxy:3128");
    assert_eq!(spec["fullSyncInterval"], "24h");
    assert_eq!(spec["excludeNamespaces"], json!(["kube-system"]));
}

#[test]
fn an_agent_is_made_after_its_kind_and_taken_over_by_the_next_upgrade() {
    // `helm template` knows no API server, as a first install knows none that serves the kind.
    let objects = product(&AGENT);
    let annotations = &find(&objects, "ObsykAgent/tp-trustplane")["metadata"]["annotations"];
    let expected = json!({
        "helm.sh/hook": "post-install,post-upgrade",
        "meta.helm.sh/release-name": "tp",
        "meta.helm.sh/release-namespace": "home",
    });
    assert_eq!(annotations, &expected);
}

#[test]
fn a_wrong_value_of_hub_or_inventory_is_answered_with_what_is_right() {
    for (value, expected) in [
        ("hub.replicas=2", "'replicas' not allowed"),
        ("hub.image.digest=sha256:short", "/hub/image/digest"),
        ("hub.urls={hub.example.com}", "/hub/urls/0"),
        ("hub.service.type=ExternalName", "/hub/service/type"),
        ("hub.persistence.accessMode=x", "'accessMode' not allowed"),
        (
            "inventory.agent.syncInterval=often",
            "/inventory/agent/syncInterval",
        ),
        ("inventory.agent.platformURL=hub", "/inventory/agent/platformURL"),
        (
            "inventory.agent.rateLimit.burstSize=0",
            "/inventory/agent/rateLimit/burstSize",
        ),
        (
            "inventory.credentialsSecrets={A_B}",
            "/inventory/credentialsSecrets/0",
        ),
        ("inventory.agent.privateKey=x", "'privateKey' not allowed"),
        (
            "inventory.agent.enabled=true",
            "set capabilities.inventory.enabled=true",
        ),
    ] {
        let told = complaint(&[value]);
        assert!(told.contains(expected), "{value}: {told}");
    }
    for (missing, told) in [
        (2, "clusterName: say by which name"),
        (3, "platformURL: say where"),
    ] {
        let values: Vec<&str> = AGENT.iter().take(missing).copied().collect();
        let refused = render(&committed(), &values).unwrap();
        assert!(refused.err.contains(told), "{}", refused.err);
    }
}
