//! The capability `identity`: off unless it is asked for, with rights in the namespaces of SPIRE alone, and webhooks that know their process.

use serde_json::{Value, json};
use trustplane_e2e::chart::render;

use super::hub::{committed, product};
use super::{argument, find, names};

const ON: &str = "capabilities.identity.enabled=true";
const HERE: &str = "capabilities.identity.namespaces={spire}";
const MANAGER: &str = "Deployment/tp-trustplane-manager";
const RIGHTS: &str = "tp-trustplane-capability-identity";

fn rules<'a>(objects: &'a [Value], name: &str) -> &'a [Value] {
    find(objects, name)["rules"].as_array().unwrap()
}

fn texts(list: &Value) -> Vec<&str> {
    list.as_array()
        .unwrap()
        .iter()
        .map(|text| text.as_str().unwrap())
        .collect()
}

/// The arguments that begin with `--identity-`, in order.
fn arguments(objects: &[Value], deployment: &str) -> Vec<String> {
    let container = &find(objects, deployment)["spec"]["template"]["spec"]["containers"][0];
    let all = texts(&container["args"]).into_iter();
    all.filter(|argument| argument.starts_with("--identity-"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn nothing_of_identity_is_there_unless_it_is_asked_for() {
    let rendered = serde_json::to_string(&product(&[])).unwrap();
    for trace in ["identity", "spire", "spiffe", "ztwim", "operator.openshift.io"] {
        assert!(!rendered.contains(trace), "{trace} is rendered by default");
    }
    let chosen = argument(find(&product(&[ON]), MANAGER), "--capabilities=").unwrap();
    let chosen: Vec<&str> = chosen.split(',').collect();
    for capability in ["sync", "hsm", "identity"] {
        assert!(chosen.contains(&capability), "{chosen:?}");
    }
}

#[test]
fn the_process_is_told_images_and_namespaces() {
    let digest = format!("sha256:{}", "a".repeat(64));
    let objects = product(&[
        ON,
        HERE,
        "identity.images.spireAgent.registry=r:5000",
        &format!("identity.images.nodeDriverRegistrar.digest={digest}"),
        "identity.pullPolicy=Never",
        "identity.kubeletRoot=/var/snap/kubelet",
    ]);
    let expected = [
        "--identity-namespaces=spire".to_owned(),
        "--identity-server-image=ghcr.io/spiffe/spire-server:1.15.3".to_owned(),
        "--identity-agent-image=r:5000/spiffe/spire-agent:1.15.3".to_owned(),
        "--identity-oidc-image=ghcr.io/spiffe/oidc-discovery-provider:1.15.3".to_owned(),
        "--identity-controller-manager-image=ghcr.io/spiffe/spire-controller-manager:0.6.4".to_owned(),
        "--identity-csi-driver-image=ghcr.io/spiffe/spiffe-csi-driver:0.2.8".to_owned(),
        format!("--identity-registrar-image=registry.k8s.io/sig-storage/csi-node-driver-registrar@{digest}"),
        "--identity-csi-init-image=registry.access.redhat.com/ubi9:latest".to_owned(),
        "--identity-image-pull-policy=Never".to_owned(),
        "--identity-kubelet-root=/var/snap/kubelet".to_owned(),
    ];
    assert_eq!(arguments(&objects, MANAGER), expected);
    let more = product(&[ON, "identity.selinux=true", "identity.createOnly=true"]);
    let more = arguments(&more, MANAGER);
    assert_eq!(more[0], "--identity-namespaces=home", "the release's namespace");
    for flag in ["--identity-selinux", "--identity-create-only=true"] {
        assert!(
            more.iter().any(|said| said == flag),
            "{flag} is not among {more:?}"
        );
    }
}

#[test]
fn rights_to_run_spire_hold_in_the_listed_namespaces_alone() {
    let objects = product(&[ON, HERE]);
    let bound = |role: &str| {
        let bindings = objects.iter().filter(|object| object["roleRef"]["name"] == role);
        bindings
            .map(|binding| {
                (
                    binding["kind"].as_str().unwrap(),
                    binding["metadata"]["namespace"].as_str(),
                )
            })
            .collect::<Vec<_>>()
    };
    assert!(bound(RIGHTS).contains(&("RoleBinding", Some("spire"))));
    let elsewhere = bound(RIGHTS)
        .into_iter()
        .filter(|(_, place)| !matches!(place, Some("spire" | "home")));
    assert_eq!(elsewhere.count(), 0);
    // Nothing that runs a program, and no Secret, is among what holds everywhere.
    let everywhere = format!("{RIGHTS}-everywhere");
    assert_eq!(bound(&everywhere), [("ClusterRoleBinding", None)]);
    let wide: Vec<&str> = rules(&objects, &format!("ClusterRole/{everywhere}"))
        .iter()
        .flat_map(|rule| texts(&rule["resources"]))
        .collect();
    for resource in [
        "secrets",
        "configmaps",
        "pods",
        "daemonsets",
        "deployments",
        "statefulsets",
        "roles",
    ] {
        assert!(!wide.contains(&resource), "{resource} everywhere: {wide:?}");
    }
}

#[test]
fn roles_are_the_charts_to_make_and_the_process_may_bind_them_by_name() {
    let objects = product(&[ON, HERE]);
    let programs = [
        "trustplane-spire-agent",
        "trustplane-spire-controller-manager",
        "trustplane-spire-server",
    ];
    for role in programs {
        assert!(!rules(&objects, &format!("ClusterRole/{role}")).is_empty());
        let given = objects.iter().any(|object| object["roleRef"]["name"] == role);
        assert!(!given, "{role} is bound before its program is there");
    }
    let wide = rules(&objects, &format!("ClusterRole/{RIGHTS}-everywhere")).iter();
    let of_roles: Vec<&Value> = wide
        .filter(|rule| texts(&rule["resources"]).contains(&"clusterroles"))
        .collect();
    let [bind] = of_roles.as_slice() else {
        panic!("{of_roles:?}");
    };
    assert_eq!(bind["verbs"], json!(["bind"]));
    let mut named = texts(&bind["resourceNames"]);
    named.sort_unstable();
    assert_eq!(named, programs);
    for people in ["trustplane-identity-editor", "trustplane-identity-viewer"] {
        let rules = rules(&objects, &format!("ClusterRole/{people}")).iter();
        let mut resources = rules.flat_map(|rule| texts(&rule["resources"]));
        assert!(resources.any(|resource| resource == "spireservers"), "{people}");
    }
}

#[test]
fn webhooks_ask_nobody_about_their_own_process() {
    for (values, process) in [
        (&[ON, HERE][..], "tp-trustplane-manager"),
        (
            &[ON, HERE, "deployment.perCapability=true"],
            "tp-trustplane-identity",
        ),
    ] {
        let objects = product(values);
        for (kind, name) in [("Mutating", "fill"), ("Validating", "judge")] {
            let configuration = find(&objects, &format!("{kind}WebhookConfiguration/{process}"));
            let webhooks = configuration["webhooks"].as_array().unwrap();
            let name = format!("{name}.identity.trustplane.io");
            let webhook = webhooks
                .iter()
                .find(|webhook| webhook["name"] == name.as_str())
                .unwrap();
            assert_eq!(webhook["failurePolicy"], "Fail");
            assert_eq!(webhook["clientConfig"]["service"]["name"], process);
            let conditions = webhook["matchConditions"].as_array().unwrap();
            let is_not_us = format!("request.userInfo.username != 'system:serviceaccount:home:{process}'");
            let mut expressions = conditions
                .iter()
                .map(|condition| condition["expression"].as_str().unwrap());
            assert!(
                expressions.any(|expression| expression == is_not_us),
                "{conditions:?}"
            );
            assert!(!webhook.to_string().contains("$("), "{webhook}");
            assert_eq!(webhook["rules"][0]["resources"].as_array().map(Vec::len), Some(5));
        }
    }
}

#[test]
fn a_deployment_for_each_capability_tells_identity_alone() {
    let objects = product(&[ON, HERE, "deployment.perCapability=true"]);
    assert!(!arguments(&objects, "Deployment/tp-trustplane-identity").is_empty());
    assert!(arguments(&objects, "Deployment/tp-trustplane-sync").is_empty());
    let binding = find(&objects, &format!("ClusterRoleBinding/{RIGHTS}-everywhere"));
    assert_eq!(
        binding["subjects"],
        json!([{"kind": "ServiceAccount", "name": "tp-trustplane-identity", "namespace": "home"}])
    );
    // Each has the Secret of its own CA.
    for secret in ["Secret/identity-oidc-ca", "Secret/tp-trustplane-identity-ca"] {
        assert!(find(&objects, secret).get("data").is_none());
    }
}

#[test]
fn the_process_reaches_the_api_server_and_nobody_else_for_it() {
    let policy = |values: &[&str]| {
        find(&product(values), "NetworkPolicy/tp-trustplane-manager")["spec"]["egress"].clone()
    };
    assert_eq!(policy(&[ON, HERE]), policy(&[]));
}

#[test]
fn definitions_stay_when_the_release_goes() {
    let objects = product(&[ON]);
    for kind in [
        "zerotrustworkloadidentitymanagers.operator.openshift.io",
        "spireservers.operator.openshift.io",
        "clusterspiffeids.spire.spiffe.io",
    ] {
        let definition = find(&objects, &format!("CustomResourceDefinition/{kind}"));
        assert_eq!(
            definition["metadata"]["annotations"]["helm.sh/resource-policy"],
            "keep"
        );
    }
    let without = product(&[ON, "crds.install=false"]);
    assert!(
        !names(&without)
            .iter()
            .any(|name| name.starts_with("CustomResourceDefinition/"))
    );
}

#[test]
fn a_wrong_value_of_identity_is_answered_with_what_is_right() {
    for (value, expected) in [
        ("identity.pullPolicy=Sometimes", "/identity/pullPolicy"),
        ("identity.kubeletRoot=kubelet", "/identity/kubeletRoot"),
        ("identity.selinux=perhaps", "/identity/selinux"),
        ("identity.createOnly=1", "/identity/createOnly"),
        (
            "identity.images.spireServer.repository=",
            "/identity/images/spireServer/repository",
        ),
        (
            "identity.images.spireAgent.digest=sha256:short",
            "/identity/images/spireAgent/digest",
        ),
        ("identity.images.spire.tag=1", "'spire' not allowed"),
        ("identity.trustDomain=example.org", "'trustDomain' not allowed"),
        (
            "capabilities.identity.namespaces={A_B}",
            "/capabilities/identity/namespaces/0",
        ),
    ] {
        let said = render(&committed(), &[value]).unwrap();
        assert!(
            !said.status.success() && said.err.contains(expected),
            "{value}: {}",
            said.err
        );
    }
}
