//! What the chart renders: who gets which rights, and what must never be rendered. No cluster is needed.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use trustplane_e2e::chart::{Chart, helm, render};
use trustplane_e2e::say;

#[path = "rendering/delivery.rs"]
mod delivery;
#[path = "rendering/hub.rs"]
mod hub;
#[path = "rendering/identity.rs"]
mod identity;
#[path = "rendering/reach.rs"]
mod reach;

fn chart() -> Chart {
    Chart::with_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/files")).unwrap()
}

fn text(values: &[&str]) -> String {
    let said = render(&chart(), values).unwrap();
    assert!(said.status.success(), "{}", said.err);
    said.out
}

fn objects(values: &[&str]) -> Vec<Value> {
    serde_saphyr::from_multiple(&text(values)).unwrap()
}

fn complaint(values: &[&str]) -> String {
    let said = render(&chart(), values).unwrap();
    assert!(!said.status.success(), "the values {values:?} are accepted");
    said.err
}

/// `Kind/name` of every object, in order.
fn names(objects: &[Value]) -> Vec<String> {
    let name = |object: &Value| {
        format!(
            "{}/{}",
            object["kind"].as_str().unwrap(),
            object["metadata"]["name"].as_str().unwrap()
        )
    };
    let mut names: Vec<String> = objects.iter().map(name).collect();
    names.sort();
    names
}

fn find<'a>(objects: &'a [Value], name: &str) -> &'a Value {
    let (kind, name) = name.split_once('/').unwrap();
    let found = objects
        .iter()
        .find(|object| object["kind"] == kind && object["metadata"]["name"] == name);
    found.unwrap_or_else(|| panic!("{kind}/{name} is not among {:?}", names(objects)))
}

fn argument(deployment: &Value, flag: &str) -> Option<String> {
    let arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
        .as_array()
        .unwrap();
    arguments
        .iter()
        .find_map(|argument| argument.as_str()?.strip_prefix(flag).map(str::to_owned))
}

#[test]
fn lint_finds_no_fault() {
    let chart = chart();
    let said = say(helm().unwrap().args(["lint", "--strict"]).arg(chart.path())).unwrap();
    assert!(said.contains("0 chart(s) failed"), "{said}");
}

#[test]
fn one_process_has_everything_by_default() {
    let objects = objects(&[]);
    let expected = [
        "ClusterRole/tp-trustplane-capability-alpha",
        "ClusterRole/tp-trustplane-capability-alpha-everywhere",
        "ClusterRole/tp-trustplane-capability-beta",
        "ClusterRole/tp-trustplane-manager",
        "ClusterRoleBinding/tp-trustplane-capability-alpha",
        "ClusterRoleBinding/tp-trustplane-capability-alpha-everywhere",
        "ClusterRoleBinding/tp-trustplane-capability-beta",
        "ClusterRoleBinding/tp-trustplane-manager",
        "CustomResourceDefinition/things.alpha.trustplane.io",
        "Deployment/tp-trustplane-manager",
        "Lease/tp-trustplane-manager",
        "MutatingWebhookConfiguration/tp-trustplane-manager",
        "NetworkPolicy/tp-trustplane-manager",
        "PodDisruptionBudget/tp-trustplane-manager",
        "Role/tp-trustplane-capability-alpha",
        "Role/tp-trustplane-manager",
        "RoleBinding/tp-trustplane-capability-alpha",
        "RoleBinding/tp-trustplane-manager",
        "Secret/installation-key",
        "Secret/tp-trustplane-manager-ca",
        "Service/tp-trustplane-manager",
        "ServiceAccount/tp-trustplane-manager",
        "ValidatingAdmissionPolicy/tp-trustplane-manager-secrets",
        "ValidatingAdmissionPolicyBinding/tp-trustplane-manager-secrets",
        "ValidatingWebhookConfiguration/tp-trustplane-manager",
    ];
    assert_eq!(names(&objects), expected);
    let deployment = find(&objects, "Deployment/tp-trustplane-manager");
    assert_eq!(
        argument(deployment, "--capabilities=").as_deref(),
        Some("alpha,beta")
    );
    assert_eq!(
        argument(deployment, "--name=").as_deref(),
        Some("tp-trustplane-manager")
    );
}

#[test]
fn a_capability_that_is_off_leaves_no_trace() {
    for values in [
        ["capabilities.alpha.enabled=false"],
        ["capabilities.beta.enabled=true"],
    ] {
        let rendered = text(&values);
        for trace in [
            "alpha",
            "things",
            "webhook:",
            "WebhookConfiguration",
            "9443",
            "manager-ca",
            "AdmissionPolicy",
        ] {
            assert!(!rendered.contains(trace), "{values:?} render {trace}");
        }
        let objects = objects(&values);
        let deployment = find(&objects, "Deployment/tp-trustplane-manager");
        assert_eq!(argument(deployment, "--capabilities=").as_deref(), Some("beta"));
        assert_eq!(
            argument(deployment, "--webhook-bind-address=").as_deref(),
            Some("0")
        );
    }
}

#[test]
fn with_one_deployment_for_each_capability_no_account_has_the_others_rights() {
    let objects = objects(&["deployment.perCapability=true", "capabilities.beta.replicas=0"]);
    for (name, replicas) in [("alpha", 2), ("beta", 0)] {
        let process = format!("tp-trustplane-{name}");
        let deployment = find(&objects, &format!("Deployment/{process}"));
        assert_eq!(deployment["spec"]["replicas"], replicas);
        assert_eq!(
            deployment["spec"]["template"]["spec"]["serviceAccountName"],
            process
        );
        assert_eq!(argument(deployment, "--capabilities=").as_deref(), Some(name));
        assert_eq!(argument(deployment, "--name=").as_deref(), Some(process.as_str()));
        for kind in [
            "ServiceAccount",
            "Lease",
            "PodDisruptionBudget",
            "NetworkPolicy",
            "Service",
        ] {
            find(&objects, &format!("{kind}/{process}"));
        }
        let binding = find(
            &objects,
            &format!("ClusterRoleBinding/tp-trustplane-capability-{name}"),
        );
        assert_eq!(
            binding["subjects"],
            json!([{"kind": "ServiceAccount", "name": process, "namespace": "home"}])
        );
        let role = find(&objects, &format!("Role/{process}"));
        assert_eq!(role["rules"][0]["resourceNames"], json!([process]));
    }
    let selectors: Vec<&Value> = objects
        .iter()
        .filter(|object| object["kind"] == "Deployment")
        .map(|deployment| &deployment["spec"]["selector"])
        .collect();
    assert_ne!(
        selectors[0], selectors[1],
        "one Deployment would take the other's pods"
    );
    assert!(!names(&objects).contains(&"Deployment/tp-trustplane-manager".to_owned()));
}

#[test]
fn a_capability_can_be_kept_to_some_namespaces() {
    let objects = objects(&[
        "capabilities.alpha.enabled=true",
        "capabilities.alpha.namespaces={a,b}",
    ]);
    let of = |kind: &'static str| objects.iter().filter(move |object| object["kind"] == kind);
    let wide: Vec<_> = of("ClusterRoleBinding")
        .map(|binding| &binding["metadata"]["name"])
        .collect();
    assert_eq!(
        wide,
        ["tp-trustplane-capability-alpha-everywhere"],
        "what has no namespace"
    );
    let bound: BTreeSet<_> = of("RoleBinding")
        .filter(|binding| binding["roleRef"]["kind"] == "ClusterRole")
        .map(|binding| {
            let text = |field: &str| binding["metadata"][field].as_str().unwrap_or_default();
            format!("{}/{}", text("namespace"), text("name"))
        })
        .collect();
    let expected = [
        "a/tp-trustplane-capability-alpha-served",
        "a/tp-trustplane-manager-served",
        "b/tp-trustplane-capability-alpha-served",
        "b/tp-trustplane-manager-served",
    ];
    assert_eq!(bound, expected.map(str::to_owned).into());
    let deployment = find(&objects, "Deployment/tp-trustplane-manager");
    assert_eq!(
        argument(deployment, "--alpha-namespaces=").as_deref(),
        Some("a,b")
    );
}

#[test]
fn every_pod_fits_the_restricted_profile() {
    for values in [&[][..], &["deployment.perCapability=true"]] {
        for deployment in objects(values)
            .iter()
            .filter(|object| object["kind"] == "Deployment")
        {
            let pod = &deployment["spec"]["template"]["spec"];
            let expected = json!({
                "allowPrivilegeEscalation": false,
                "capabilities": {"drop": ["ALL"]},
                "privileged": false,
                "readOnlyRootFilesystem": true,
                "runAsNonRoot": true,
                "runAsUser": 65532,
                "runAsGroup": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            });
            assert_eq!(pod["containers"][0]["securityContext"], expected);
            assert!(pod["containers"][0]["resources"]["limits"]["memory"].is_string());
            for forbidden in ["hostNetwork", "hostPID", "hostIPC", "volumes"] {
                assert_eq!(pod.get(forbidden), None);
            }
        }
    }
}

#[test]
fn what_belongs_to_the_process_is_never_rendered() {
    assert!(
        !text(&[]).contains("caBundle"),
        "an upgrade would take away what the process wrote"
    );
    for object in objects(&[]) {
        let kind = object["kind"].as_str().unwrap();
        if ["Secret", "Lease"].contains(&kind) {
            let fields: Vec<&String> = object.as_object().unwrap().keys().collect();
            assert_eq!(
                fields,
                ["apiVersion", "kind", "metadata"],
                "an upgrade would overwrite the {kind}"
            );
        }
    }
}

#[test]
fn definitions_are_rendered_to_the_letter_and_kept() {
    let written = fs::read_to_string(chart().file("files/crds/things.alpha.trustplane.io.yaml")).unwrap();
    let rendered = text(&[]);
    assert!(rendered.contains(written.trim()), "{rendered}");
    let objects = objects(&[]);
    let crd = find(&objects, "CustomResourceDefinition/things.alpha.trustplane.io");
    assert_eq!(crd["metadata"]["annotations"]["helm.sh/resource-policy"], "keep");
    assert!(!text(&["crds.install=false"]).contains("CustomResourceDefinition"));
}

#[test]
fn a_webhook_that_fails_closed_leaves_our_own_namespace_alone() {
    let objects = objects(&[]);
    let webhook = |kind: &str| {
        let configuration = find(
            &objects,
            &format!("{kind}WebhookConfiguration/tp-trustplane-manager"),
        );
        assert_eq!(configuration["webhooks"].as_array().map(Vec::len), Some(1));
        &configuration["webhooks"][0]
    };
    let (closed, open) = (webhook("Validating"), webhook("Mutating"));
    assert_eq!(
        (&closed["failurePolicy"], &open["failurePolicy"]),
        (&json!("Fail"), &json!("Ignore"))
    );
    assert_eq!(
        closed["namespaceSelector"],
        json!({"matchExpressions": [
            {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["home", "kube-system"]}
        ]})
    );
    // Nobody is kept from anything by one that fails open.
    assert_eq!(open.get("namespaceSelector"), None);
}

#[test]
fn webhooks_are_called_where_the_process_serves_them() {
    let objects = objects(&[]);
    let configuration = find(&objects, "ValidatingWebhookConfiguration/tp-trustplane-manager");
    let expected = json!({
        "name": "things.alpha.trustplane.io",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": {
            "name": "tp-trustplane-manager", "namespace": "home", "path": "/admit/things", "port": 443,
        }},
        "failurePolicy": "Fail",
        "namespaceSelector": configuration["webhooks"][0]["namespaceSelector"],
        "rules": [{
            "apiGroups": ["alpha.trustplane.io"], "apiVersions": ["v1"],
            "operations": ["CREATE", "UPDATE"], "resources": ["things"],
        }],
        "sideEffects": "None",
        "timeoutSeconds": 5,
    });
    assert_eq!(configuration["webhooks"][0], expected);
    let service = find(&objects, "Service/tp-trustplane-manager");
    let port = json!({"name": "webhook", "port": 443, "targetPort": "webhook", "protocol": "TCP"});
    assert!(
        service["spec"]["ports"].as_array().unwrap().contains(&port),
        "{service}"
    );
    let deployment = find(&objects, "Deployment/tp-trustplane-manager");
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let port = json!({"name": "webhook", "containerPort": 9443, "protocol": "TCP"});
    assert!(
        container["ports"].as_array().unwrap().contains(&port),
        "{container}"
    );
    assert_eq!(
        argument(deployment, "--webhook-bind-address=").as_deref(),
        Some(":9443")
    );
}

#[test]
fn a_wrong_value_is_answered_with_what_is_right() {
    let cases = [
        (
            "capabilities.gamma.enabled=true",
            "this build has no such capability; it has: alpha, beta",
        ),
        ("capabilities.alpha.enable=true", "'enable' not allowed"),
        ("replicas=3", "'replicas' not allowed"),
        ("deployment.replicas=many", "/deployment/replicas"),
        ("image.digest=sha256:short", "/image/digest"),
        ("log.format=xml", "/log/format"),
    ];
    for (value, expected) in cases {
        let told = complaint(&[value]);
        assert!(told.contains(expected), "{value}: {told}");
    }
    let none = [
        "deployment.perCapability=true",
        "capabilities.alpha.enabled=false",
        "capabilities.beta.enabled=false",
    ];
    assert!(complaint(&none).contains("there is nothing to deploy"));
}

#[test]
fn an_image_is_named_by_tag_or_by_digest() {
    let image = |values: &[&str]| {
        let objects = objects(values);
        let deployment = find(&objects, "Deployment/tp-trustplane-manager");
        deployment["spec"]["template"]["spec"]["containers"][0]["image"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(image(&[]), format!("localhost/trustplane/manager:{version}"));
    assert_eq!(
        image(&["image.registry=r:5000", "image.tag=x"]),
        "r:5000/trustplane/manager:x"
    );
    let digest = format!("sha256:{}", "a".repeat(64));
    assert_eq!(
        image(&[&format!("image.digest={digest}")]),
        format!("localhost/trustplane/manager@{digest}")
    );
}

#[test]
fn the_secrets_for_the_registry_reach_the_processes_of_hsm_too() {
    let chart = Chart::of_the_product().unwrap();
    let values = ["image.pullSecrets[0].name=one", "image.pullSecrets[1].name=two"];
    let rendered = render(&chart, &values).unwrap();
    assert!(
        rendered.out.contains("- --hsm-image-pull-secrets=one,two\n"),
        "{rendered:?}"
    );
}

/// What the product's own chart renders.
fn product(values: &[&str]) -> Vec<Value> {
    let said = render(&Chart::of_the_product().unwrap(), values).unwrap();
    assert!(said.status.success(), "{}", said.err);
    serde_saphyr::from_multiple(&said.out).unwrap()
}

#[test]
fn rules_for_our_kinds_hold_whoever_installs_the_definitions() {
    let policy = "ValidatingAdmissionPolicy/hsmdevices.hsm.j5t.io";
    find(&product(&[]), policy);
    let objects = product(&["crds.install=false"]);
    find(&objects, policy);
    assert!(
        objects
            .iter()
            .all(|object| object["kind"] != "CustomResourceDefinition")
    );
    let without = product(&["capabilities.hsm.enabled=false"]);
    assert!(!names(&without).contains(&policy.to_owned()));
}

#[test]
fn hsm_serves_our_own_namespace_and_no_other_unless_one_is_named() {
    let objects = product(&["capabilities.hsm.enabled=true"]);
    let manager = find(&objects, "Deployment/tp-trustplane-manager");
    assert_eq!(argument(manager, "--hsm-namespaces=").as_deref(), Some("home"));
    // Its rights are bound here, and nowhere else, but for those to deliver secrets.
    let is_hsm = |object: &&Value| {
        let role = object["roleRef"]["name"].as_str().unwrap_or_default();
        let is_ours = role.starts_with("tp-trustplane-capability-hsm") && role != delivery::TENANTS;
        is_ours || role == "tp-trustplane-discovery"
    };
    let bound: Vec<_> = objects.iter().filter(is_hsm).collect();
    assert!(bound.len() >= 3, "{:?}", names(&objects));
    for binding in bound {
        assert_eq!(binding["kind"], "RoleBinding", "{binding}");
        assert_eq!(binding["metadata"]["namespace"], "home", "{binding}");
    }
    // So is who discovery is.
    for kind in ["ServiceAccount", "Role", "RoleBinding"] {
        let discovery = objects.iter().filter(|object| {
            object["kind"] == kind && object["metadata"]["name"] == "tp-trustplane-discovery"
        });
        let places: Vec<_> = discovery.map(|object| &object["metadata"]["namespace"]).collect();
        assert_eq!(places, ["home"], "{kind}");
    }
}

#[test]
fn the_guard_of_secrets_excepts_those_that_the_process_keeps_by_their_names() {
    let objects = objects(&[]);
    let guard = find(
        &objects,
        "ValidatingAdmissionPolicy/tp-trustplane-manager-secrets",
    );
    let variables = guard["spec"]["variables"].as_array().unwrap();
    let kept = variables
        .iter()
        .find(|variable| variable["name"] == "isKept")
        .unwrap();
    let expression = kept["expression"].as_str().unwrap();
    let named = r#"request.name in ["installation-key","tp-trustplane-manager-ca"]"#;
    assert!(expression.ends_with(named), "{expression}");
    // They are the installation's to remove.
    assert!(expression.contains("variables.staysThere"), "{expression}");
}

#[test]
fn the_guard_lets_a_process_take_over_only_what_consents() {
    let consented = |values: &[&str]| {
        let objects = objects(values);
        let guard = find(
            &objects,
            "ValidatingAdmissionPolicy/tp-trustplane-manager-secrets",
        );
        let variables = guard["spec"]["variables"].as_array().unwrap();
        let found = |name: &str| {
            let variable = variables.iter().find(|variable| variable["name"] == name);
            variable.unwrap()["expression"].as_str().unwrap().to_owned()
        };
        assert!(found("wasFree").contains("variables.consented"));
        found("consented")
    };
    let expression = consented(&[]);
    let named = r#"oldObject.metadata.annotations['trustplane.io/adopt-by'] in ["alpha"]"#;
    assert!(expression.ends_with(named), "{expression}");
    assert_eq!(consented(&["secretGuard.adoptByPolicy=true"]), "true");
}

#[test]
fn the_guard_refuses_reserved_types_whoever_consents() {
    let objects = objects(&["secretGuard.adoptByPolicy=true"]);
    let guard = find(
        &objects,
        "ValidatingAdmissionPolicy/tp-trustplane-manager-secrets",
    );
    let variables = guard["spec"]["variables"].as_array().unwrap();
    let reserved = variables
        .iter()
        .find(|variable| variable["name"] == "isReserved")
        .unwrap();
    let expression = reserved["expression"].as_str().unwrap();
    for kind in [
        "object.type == 'kubernetes.io/service-account-token'",
        "object.type.startsWith('bootstrap.kubernetes.io/')",
        "object.type.startsWith('helm.sh/')",
    ] {
        assert!(expression.contains(kind), "{expression}");
    }
    let mut validations = guard["spec"]["validations"].as_array().unwrap().iter();
    assert!(validations.any(|rule| rule["expression"] == "variables.isKept || !variables.isReserved"));
}

#[test]
fn agents_hear_the_manager_and_nobody_else_on_the_port_of_their_service() {
    let objects = product(&[
        "capabilities.hsm.namespaces={tokens}",
        "hsm.agent.extraEgress[0].ports[0].port=1792",
    ]);
    let policy = find(&objects, "NetworkPolicy/tp-trustplane-agents");
    assert_eq!(policy["metadata"]["namespace"], "tokens");
    let [service] = policy["spec"]["ingress"].as_array().unwrap().as_slice() else {
        panic!("{policy}");
    };
    assert_eq!(service["ports"], json!([{"port": 9090, "protocol": "TCP"}]));
    let manager = json!([{
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "home"}},
        "podSelector": {"matchLabels": {
            "app.kubernetes.io/component": "manager",
            "app.kubernetes.io/instance": "tp",
            "app.kubernetes.io/name": "trustplane",
        }},
    }]);
    assert_eq!(service["from"], manager);
    let egress = policy["spec"]["egress"].as_array().unwrap();
    assert_eq!(egress.last().unwrap(), &json!({"ports": [{"port": 1792}]}));
    let discovery = find(&objects, "NetworkPolicy/tp-trustplane-discovery");
    assert_eq!(discovery["metadata"]["namespace"], "tokens");
    let none = product(&["networkPolicy.enabled=false"]);
    assert!(none.iter().all(|object| object["kind"] != "NetworkPolicy"));
}

#[test]
fn tokens_are_for_agents_and_for_those_whom_the_values_list() {
    let users = |values: &[&str]| {
        let objects = product(values);
        let policy = find(&objects, "ValidatingAdmissionPolicy/tokens.hsm.j5t.io");
        let variables = policy["spec"]["variables"].as_array().unwrap();
        let users = variables
            .iter()
            .find(|variable| variable["name"] == "users")
            .unwrap();
        users["expression"].as_str().unwrap().to_owned()
    };
    assert_eq!(users(&[]), "'home/hsm-agent-*'.split(',')");
    let listed = [
        "capabilities.hsm.namespaces={tokens,lab}",
        "hsm.tokenUsers={apps/signer,ci/*}",
    ];
    assert_eq!(
        users(&listed),
        "'tokens/hsm-agent-*,lab/hsm-agent-*,apps/signer,ci/*'.split(',')"
    );
    let types = |values: &[&str]| {
        let objects = product(values);
        argument(
            find(&objects, "Deployment/tp-trustplane-manager"),
            "--hsm-offer-types",
        )
    };
    assert_eq!(types(&[]), None);
    assert_eq!(types(&["hsm.offerTypes=true"]).as_deref(), Some(""));
    let refused = render(&Chart::of_the_product().unwrap(), &["hsm.tokenUsers={apps'}"]).unwrap();
    assert!(refused.err.contains("tokenUsers"), "{refused:?}");
}
