use std::collections::BTreeMap;

use serde_json::{Value, json};
use trustplane_api::identity::{
    CLUSTER_SPIFFE_ID, OperandKind, Persistence, Resources, SpiffeCsiDriverSpec, StringBool, Verification,
    VerificationType, WorkloadAttestors,
};
use trustplane_plan::kinds::{
    CLUSTER_ROLE, CLUSTER_ROLE_BINDING, CSI_DRIVER, DAEMON_SET, DEPLOYMENT, POD_DISRUPTION_BUDGET, ROLE,
    SERVICE, STATEFUL_SET, VALIDATING_WEBHOOKS,
};
use trustplane_plan::{Keep, Kind, Meta};

use super::*;
use crate::examples::{Example, ISSUER, matrix, settings, shared};

mod nodes;
mod pods;

const NAMESPACE: &str = "zero-trust-workload-identity-manager";

fn example(name: &str) -> Example {
    matrix().into_iter().find(|example| example.name == name).unwrap()
}

/// All objects of an example, with labels and tolerations for all.
fn all(example: &Example, common: &CommonConfig) -> BTreeMap<OperandKind, Vec<Manifest>> {
    let (shared, settings) = (&example.shared, &settings());
    let csi_spec = SpiffeCsiDriverSpec::default();
    let mut server = server(&example.server, common, shared, settings);
    server.push(bundle(common, shared));
    let mut oidc = oidc(&example.oidc, common, shared, settings, example.issuer);
    oidc.push(certificate(common, shared, example.issuer).0);
    BTreeMap::from([
        (OperandKind::SpireServer, server),
        (
            OperandKind::SpireAgent,
            agent(&example.agent, common, shared, settings),
        ),
        (
            OperandKind::SpiffeCsiDriver,
            csi(&csi_spec, common, shared, settings),
        ),
        (OperandKind::SpireOidcDiscoveryProvider, oidc),
    ])
}

fn empty() -> Vec<Manifest> {
    let objects = all(&example("empty"), &CommonConfig::default());
    objects.into_values().flatten().collect()
}

fn find(objects: &[Manifest], kind: &Kind, name: &str) -> Value {
    let is_it = |object: &&Manifest| object.kind() == kind && object.object().name() == name;
    objects.iter().find(is_it).unwrap().body()
}

#[test]
fn operands_have_the_objects_of_upstream() {
    let objects = all(&example("empty"), &CommonConfig::default());
    let names = |operand| {
        let objects: &Vec<Manifest> = &objects[&operand];
        objects
            .iter()
            .map(|object| object.target().to_string().replace(&format!("{NAMESPACE}/"), ""))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        names(OperandKind::SpireServer),
        [
            "ServiceAccount spire-server",
            "Service spire-server",
            "Service spire-controller-manager-webhook",
            "ClusterRoleBinding spire-server",
            "ClusterRoleBinding spire-controller-manager",
            "Role spire-bundle",
            "RoleBinding spire-bundle",
            "ValidatingWebhookConfiguration spire-controller-manager-webhook",
            "ConfigMap spire-server",
            "ConfigMap spire-controller-manager",
            "StatefulSet spire-server",
            "PodDisruptionBudget spire-server",
            "ClusterSPIFFEID zero-trust-workload-identity-manager-spire-default",
            "ConfigMap spire-bundle",
        ]
    );
    assert_eq!(
        names(OperandKind::SpireAgent),
        [
            "ServiceAccount spire-agent",
            "Service spire-agent",
            "ClusterRoleBinding spire-agent",
            "ConfigMap spire-agent",
            "DaemonSet spire-agent",
        ]
    );
    assert_eq!(
        names(OperandKind::SpiffeCsiDriver),
        [
            "ServiceAccount spire-spiffe-csi-driver",
            "CSIDriver csi.spiffe.io",
            "DaemonSet spire-spiffe-csi-driver",
        ]
    );
    assert_eq!(
        names(OperandKind::SpireOidcDiscoveryProvider),
        [
            "ServiceAccount spire-spiffe-oidc-discovery-provider",
            "Service spire-spiffe-oidc-discovery-provider",
            "ConfigMap spire-spiffe-oidc-discovery-provider",
            "Deployment spire-spiffe-oidc-discovery-provider",
            "PodDisruptionBudget spire-spiffe-oidc-discovery-provider",
            "ClusterSPIFFEID zero-trust-workload-identity-manager-spire-oidc-discovery-provider",
            "Secret oidc-serving-cert",
        ]
    );
}

#[test]
fn an_object_tells_its_operand_by_its_labels() {
    for example in matrix() {
        for (operand, objects) in all(&example, &CommonConfig::default()) {
            for object in objects {
                let meta = Meta::decode(&object.body().to_string(), &Keep::default()).unwrap();
                assert_eq!(operand_of(&meta), Some(operand), "{}", object.target());
                assert!(meta.owners.is_empty());
            }
        }
    }
}

#[test]
fn labels_of_people_are_added_and_ours_win() {
    let common: CommonConfig = serde_json::from_value(json!({"labels": {
        "team": "identity",
        "app.kubernetes.io/name": "mine",
        "app.kubernetes.io/managed-by": "Helm",
    }}))
    .unwrap();
    for object in all(&example("empty"), &common).into_values().flatten() {
        let labels = &object.body()["metadata"]["labels"];
        assert_eq!(labels["team"], "identity", "{}", object.target());
        assert_ne!(labels["app.kubernetes.io/name"], "mine");
        assert_eq!(labels["app.kubernetes.io/managed-by"], NAMESPACE);
        assert_eq!(labels["app.kubernetes.io/part-of"], NAMESPACE);
        let instance = "cluster-zero-trust-workload-identity-manager";
        assert_eq!(labels["app.kubernetes.io/instance"], instance);
    }
    let objects: Vec<_> = all(&example("empty"), &common).into_values().flatten().collect();
    let pods = find(&objects, &DAEMON_SET, "spire-agent");
    assert_eq!(pods["spec"]["template"]["metadata"]["labels"]["team"], "identity");
    assert_eq!(pods["metadata"]["labels"]["app.kubernetes.io/version"], "1.15.3");
}

#[test]
fn an_image_without_a_tag_gives_no_version() {
    let mut settings = settings();
    settings.images.spire_agent = "ghcr.io/spiffe/spire-agent@sha256:0123".into();
    let example = example("empty");
    let objects = agent(&example.agent, &CommonConfig::default(), &shared(), &settings);
    let labels = &find(&objects, &DAEMON_SET, "spire-agent")["metadata"]["labels"];
    assert_eq!(labels.get("app.kubernetes.io/version"), None);
}

/// The selectors of a set of objects, which all have to hold for the labels of the pods.
fn selects(selector: &Value, labels: &Value) -> bool {
    let selector = selector.as_object().unwrap();
    !selector.is_empty() && selector.iter().all(|(key, value)| labels.get(key) == Some(value))
}

#[test]
fn every_service_and_budget_selects_pods() {
    let objects = empty();
    let pods: Vec<_> = objects
        .iter()
        .filter(|object| [STATEFUL_SET, DAEMON_SET, DEPLOYMENT].contains(object.kind()))
        .map(|object| object.body()["spec"]["template"]["metadata"]["labels"].clone())
        .collect();
    assert_eq!(pods.len(), 4);
    let count = |selector: &Value| pods.iter().filter(|labels| selects(selector, labels)).count();
    for object in &objects {
        let spec = &object.body()["spec"];
        let selector = match object.kind() {
            kind if *kind == SERVICE => &spec["selector"],
            kind if *kind == POD_DISRUPTION_BUDGET => &spec["selector"]["matchLabels"],
            _ => continue,
        };
        assert_eq!(count(selector), 1, "{}", object.target());
    }
    let webhook = find(&objects, &SERVICE, "spire-controller-manager-webhook");
    assert_eq!(
        webhook["spec"]["selector"]["app.kubernetes.io/name"],
        "spire-server"
    );
    assert_eq!(
        webhook["spec"]["ports"],
        json!([{ "name": "https", "port": 443, "protocol": "TCP", "targetPort": "https" }])
    );
}

#[test]
fn what_cannot_change_does_not_change_with_a_spec() {
    let fixed = |example: &Example, common: &CommonConfig| {
        let objects: Vec<_> = all(example, common).into_values().flatten().collect();
        [
            (STATEFUL_SET, "spire-server"),
            (DAEMON_SET, "spire-agent"),
            (DAEMON_SET, "spire-spiffe-csi-driver"),
            (DEPLOYMENT, "spire-spiffe-oidc-discovery-provider"),
        ]
        .map(|(kind, name)| {
            let spec = find(&objects, &kind, name)["spec"].clone();
            (
                spec["selector"].clone(),
                spec["volumeClaimTemplates"].clone(),
                spec["serviceName"].clone(),
            )
        })
    };
    let plain = fixed(&example("empty"), &CommonConfig::default());
    let common: CommonConfig = serde_json::from_value(
        json!({"labels": {"team": "identity", "app.kubernetes.io/component": "mine"}}),
    )
    .unwrap();
    for example in matrix() {
        assert_eq!(fixed(&example, &common), plain, "{}", example.name);
    }
}

#[test]
fn the_server_may_write_the_bundle_of_any_name() {
    let example = example("cluster-name-with-dots");
    let objects = all(&example, &CommonConfig::default()).into_values().flatten();
    let objects: Vec<_> = objects.collect();
    let role = find(&objects, &ROLE, "spire-bundle");
    assert_eq!(
        role["rules"],
        json!([{
            "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["trust.bundle"], "verbs": ["get", "patch"],
        }])
    );
    let bundle = find(&objects, &CONFIG_MAP, "trust.bundle");
    assert_eq!(bundle.get("data"), None);
    let agent = find(&objects, &DAEMON_SET, "spire-agent").to_string();
    assert!(agent.contains(r#""name":"trust.bundle""#), "{agent}");
}

#[test]
fn accounts_get_the_roles_of_the_installation() {
    let objects = empty();
    let made: Vec<_> = cluster_roles().into_iter().map(|(name, _)| name).collect();
    for (name, role, account) in [
        ("spire-server", "trustplane-spire-server", "spire-server"),
        (
            "spire-controller-manager",
            "trustplane-spire-controller-manager",
            "spire-server",
        ),
        ("spire-agent", "trustplane-spire-agent", "spire-agent"),
    ] {
        let binding = find(&objects, &CLUSTER_ROLE_BINDING, name);
        let expected =
            json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role });
        assert_eq!(binding["roleRef"], expected);
        let subjects = json!([{ "kind": "ServiceAccount", "name": account, "namespace": NAMESPACE }]);
        assert_eq!(binding["subjects"], subjects);
        assert!(made.contains(&role));
    }
    assert!(!objects.iter().any(|object| *object.kind() == CLUSTER_ROLE));
}

#[test]
fn roles_permit_no_more_than_the_programs_use() {
    let text = json!(cluster_roles()).to_string();
    for word in ["*", "secrets", "delete", "nodes/proxy"] {
        assert!(!text.contains(word), "{word}: {text}");
    }
    let server = &cluster_roles()[0].1;
    assert_eq!(
        *server,
        json!([
            { "apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"] },
            { "apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["get"] },
        ])
    );
    let agent = &cluster_roles()[1].1;
    let expected = json!([{ "apiGroups": [""], "resources": ["nodes/pods"], "verbs": ["get"] }]);
    assert_eq!(*agent, expected);
}

#[test]
fn the_webhook_leaves_its_ca_to_the_controller_manager() {
    let webhooks = find(&empty(), &VALIDATING_WEBHOOKS, "spire-controller-manager-webhook");
    let webhook = |name: &str, path: &str, plural: &str| {
        json!({
            "name": name,
            "admissionReviewVersions": ["v1"],
            "clientConfig": { "service": {
                "name": "spire-controller-manager-webhook", "namespace": NAMESPACE, "path": path, "port": 443,
            } },
            "failurePolicy": "Ignore",
            "rules": [{
                "apiGroups": ["spire.spiffe.io"], "apiVersions": ["v1alpha1"],
                "operations": ["CREATE", "UPDATE"], "resources": [plural], "scope": "*",
            }],
            "sideEffects": "None",
        })
    };
    assert_eq!(
        webhooks["webhooks"],
        json!([
            webhook(
                "vclusterfederatedtrustdomain.kb.io",
                "/validate-spire-spiffe-io-v1alpha1-clusterfederatedtrustdomain",
                "clusterfederatedtrustdomains",
            ),
            webhook(
                "vclusterspiffeid.kb.io",
                "/validate-spire-spiffe-io-v1alpha1-clusterspiffeid",
                "clusterspiffeids",
            ),
        ])
    );
}

#[test]
fn the_default_identity_comes_with_the_server_unless_it_is_turned_off() {
    let name = "zero-trust-workload-identity-manager-spire-default";
    let mut example = example("empty");
    let objects =
        |example: &Example| server(&example.server, &CommonConfig::default(), &shared(), &settings());
    let expected = json!({
        "className": "zero-trust-workload-identity-manager-spire",
        "fallback": true,
        "hint": "default",
        "namespaceSelector": { "matchExpressions": [
            { "key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [NAMESPACE] },
        ] },
        "spiffeIDTemplate": "spiffe://{{ .TrustDomain }}/ns/{{ .PodMeta.Namespace }}/sa/{{ .PodSpec.ServiceAccountName }}",
    });
    assert_eq!(
        find(&objects(&example), &CLUSTER_SPIFFE_ID, name)["spec"],
        expected
    );
    example.server.default_identity = Some(StringBool::False);
    let kinds = objects(&example);
    assert!(!kinds.iter().any(|object| *object.kind() == CLUSTER_SPIFFE_ID));
}

#[test]
fn the_discovery_provider_gets_its_own_identity() {
    let name = "zero-trust-workload-identity-manager-spire-oidc-discovery-provider";
    let objects = empty();
    let spec = &find(&objects, &CLUSTER_SPIFFE_ID, name)["spec"];
    assert_eq!(spec["hint"], "oidc-discovery-provider");
    assert_eq!(
        spec["dnsNameTemplates"],
        json!(["oidc-discovery.{{ .TrustDomain }}"])
    );
    assert_eq!(spec["autoPopulateDNSNames"], true);
    assert_eq!(spec.get("fallback"), None);
    let namespaces = &spec["namespaceSelector"]["matchExpressions"][0];
    assert_eq!(
        (&namespaces["operator"], &namespaces["values"]),
        (&json!("In"), &json!([NAMESPACE]))
    );
    let pods = find(&objects, &DEPLOYMENT, "spire-spiffe-oidc-discovery-provider");
    let labels = &pods["spec"]["template"]["metadata"]["labels"];
    assert!(selects(&spec["podSelector"]["matchLabels"], labels));
}

#[test]
fn a_budget_lets_one_pod_go() {
    for (replicas, field, count) in [
        (1, "maxUnavailable", 1),
        (2, "minAvailable", 1),
        (5, "minAvailable", 4),
    ] {
        let mut example = example("empty");
        example.oidc.replica_count = replicas;
        let objects: Vec<_> = all(&example, &CommonConfig::default())
            .into_values()
            .flatten()
            .collect();
        let spec = find(
            &objects,
            &POD_DISRUPTION_BUDGET,
            "spire-spiffe-oidc-discovery-provider",
        )["spec"]
            .clone();
        assert_eq!(spec[field], count, "{replicas} replicas");
        assert_eq!(spec.as_object().unwrap().len(), 2);
    }
    let server = find(&empty(), &POD_DISRUPTION_BUDGET, "spire-server");
    assert_eq!(server["spec"]["maxUnavailable"], 1);
}

#[test]
fn the_service_of_the_server_has_the_endpoint_of_federation_when_there_is_one() {
    let ports = |name: &str| {
        let objects = server(
            &example(name).server,
            &CommonConfig::default(),
            &shared(),
            &settings(),
        );
        find(&objects, &SERVICE, "spire-server")["spec"]["ports"].clone()
    };
    let grpc = json!({ "name": "grpc", "port": 443, "protocol": "TCP", "targetPort": "grpc" });
    let metrics = json!({ "name": "metrics", "port": 9402, "protocol": "TCP", "targetPort": 9402 });
    assert_eq!(ports("empty"), json!([grpc, metrics]));
    let federation =
        json!({ "name": "federation", "port": 8443, "protocol": "TCP", "targetPort": "federation" });
    assert_eq!(ports("federation"), json!([grpc, metrics, federation]));
}

#[test]
fn the_csi_driver_is_for_volumes_of_single_pods() {
    let driver = find(&empty(), &CSI_DRIVER, "csi.spiffe.io");
    assert_eq!(
        driver["spec"],
        json!({
            "attachRequired": false,
            "fsGroupPolicy": "None",
            "podInfoOnMount": true,
            "volumeLifecycleModes": ["Ephemeral"],
        })
    );
    let profile = "security.openshift.io/csi-ephemeral-volume-profile";
    assert_eq!(driver["metadata"]["labels"][profile], "restricted");
    assert_eq!(driver["metadata"].get("namespace"), None);
}

#[test]
fn the_certificate_of_the_provider_is_for_the_hosts_that_it_answers_to() {
    let (secret, names) = certificate(
        &CommonConfig::default(),
        &shared(),
        "https://oidc.example.org:8443/a",
    );
    assert_eq!(
        secret.target().to_string(),
        format!("Secret {NAMESPACE}/oidc-serving-cert")
    );
    assert_eq!(names[3], "oidc.example.org");
    let conf: Value =
        serde_json::from_str(&render::oidc_conf(&example("empty").oidc, &shared(), ISSUER)).unwrap();
    let (_, names) = certificate(&CommonConfig::default(), &shared(), ISSUER);
    assert_eq!(conf["domains"], json!(names));
}
