//! Which HSMSecrets an installation serves, and in which namespaces it may.

use serde_json::{Value, json};
use trustplane_e2e::chart::{Chart, render};

use super::{argument, find, names, product};

/// The ClusterRole with the rights in the namespaces of HSMSecrets.
pub const TENANTS: &str = "tp-trustplane-capability-hsm-tenants";

fn manager(objects: &[Value]) -> &Value {
    find(objects, "Deployment/tp-trustplane-manager")
}

/// `Kind namespace` of each binding of the rights of tenants; without a namespace it holds everywhere.
fn bindings(objects: &[Value]) -> Vec<String> {
    let bound = objects
        .iter()
        .filter(|object| object["roleRef"]["name"] == TENANTS);
    let place = |binding: &Value| {
        assert_eq!(binding["roleRef"]["kind"], "ClusterRole", "{binding}");
        let namespace = binding["metadata"]["namespace"].as_str().unwrap_or_default();
        format!("{} {namespace}", binding["kind"].as_str().unwrap())
    };
    let mut places: Vec<String> = bound.map(place).collect();
    places.sort();
    places
}

#[test]
fn hsm_secrets_of_all_namespaces_are_served_by_default() {
    let objects = product(&[]);
    let expected = [
        ("--hsm-operator-names=", Some("tp-trustplane-manager")),
        ("--hsm-require-parent-ref", None),
        ("--hsm-secret-namespaces=", None),
        ("--hsm-tenancy=", None),
    ];
    for (flag, value) in expected {
        assert_eq!(argument(manager(&objects), flag).as_deref(), value, "{flag}");
    }
    assert_eq!(bindings(&objects), ["ClusterRoleBinding "]);
    let none = product(&["capabilities.hsm.enabled=false"]);
    assert!(!names(&none).iter().any(|name| name.contains(TENANTS)));
    assert_eq!(argument(manager(&none), "--hsm-operator-names="), None);
}

#[test]
fn rights_of_tenants_are_bound_in_the_listed_namespaces_alone() {
    let values = [
        "capabilities.hsm.namespaces={tokens}",
        "hsm.secretNamespaces={shop,home,tokens}",
    ];
    let objects = product(&values);
    let flag = argument(manager(&objects), "--hsm-secret-namespaces=");
    assert_eq!(flag.as_deref(), Some("shop,home,tokens"));
    assert_eq!(
        bindings(&objects),
        ["RoleBinding home", "RoleBinding shop", "RoleBinding tokens"]
    );
    // What is not for tenants is bound where the tokens are, as before.
    let served = objects.iter().filter(|object| {
        let role = &object["roleRef"];
        role["kind"] == "ClusterRole" && role["name"] == "tp-trustplane-capability-hsm"
    });
    let places: Vec<_> = served.map(|binding| &binding["metadata"]["namespace"]).collect();
    assert_eq!(places, ["tokens"]);
    assert_eq!(
        argument(manager(&objects), "--hsm-namespaces=").as_deref(),
        Some("tokens")
    );
    let all: Vec<_> = names(&objects);
    let keys = objects.iter().map(|object| {
        (
            &object["kind"],
            &object["metadata"]["namespace"],
            &object["metadata"]["name"],
        )
    });
    let mut keys: Vec<String> = keys.map(|key| format!("{key:?}")).collect();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), all.len(), "two objects have one name: {all:?}");
}

#[test]
fn tenants_get_secrets_and_events_and_nothing_of_tokens() {
    let objects = product(&[]);
    let rules = &find(&objects, &format!("ClusterRole/{TENANTS}"))["rules"];
    let rules = rules.as_array().unwrap().iter();
    let mut resources: Vec<&str> = rules
        .flat_map(|rule| rule["resources"].as_array().unwrap())
        .map(|resource| resource.as_str().unwrap())
        .collect();
    resources.sort_unstable();
    let expected = ["events", "hsmsecrets", "hsmsecrets/status", "secrets"];
    assert_eq!(resources, expected);
}

#[test]
fn values_say_whom_parent_ref_means_and_whose_a_path_is() {
    let values = [
        "hsm.operatorNames={controller-manager,hsm-secrets-operator}",
        "hsm.requireParentRef=true",
        "hsm.tenancy=namespaced",
    ];
    let objects = product(&values);
    let expected = [
        (
            "--hsm-operator-names=",
            "tp-trustplane-manager,controller-manager,hsm-secrets-operator",
        ),
        ("--hsm-require-parent-ref", ""),
        ("--hsm-tenancy=", "namespaced"),
    ];
    for (flag, value) in expected {
        assert_eq!(
            argument(manager(&objects), flag).as_deref(),
            Some(value),
            "{flag}"
        );
    }
    // A Deployment for each capability has another name, and others are told nothing.
    let apart = product(&["deployment.perCapability=true", "hsm.operatorNames={more}"]);
    let hsm = find(&apart, "Deployment/tp-trustplane-hsm");
    assert_eq!(
        argument(hsm, "--hsm-operator-names=").as_deref(),
        Some("tp-trustplane-hsm,more")
    );
    let sync = find(&apart, "Deployment/tp-trustplane-sync");
    assert_eq!(argument(sync, "--hsm-operator-names="), None);
    let binding = find(&apart, &format!("ClusterRoleBinding/{TENANTS}"));
    assert_eq!(
        binding["subjects"],
        json!([{"kind": "ServiceAccount", "name": "tp-trustplane-hsm", "namespace": "home"}])
    );
}

#[test]
fn wrong_values_for_hsm_secrets_are_refused() {
    let chart = Chart::of_the_product().unwrap();
    for (value, field) in [
        ("hsm.operatorNames={Upper}", "/hsm/operatorNames/0"),
        ("hsm.operatorNames=one", "/hsm/operatorNames"),
        ("hsm.requireParentRef=perhaps", "/hsm/requireParentRef"),
        ("hsm.secretNamespaces={a.b}", "/hsm/secretNamespaces/0"),
        ("hsm.secretNamespaces=shop", "/hsm/secretNamespaces"),
        ("hsm.tenancy=shared", "/hsm/tenancy"),
        ("hsm.tenancies=flat", "'tenancies' not allowed"),
    ] {
        let refused = render(&chart, &[value]).unwrap();
        assert!(
            !refused.status.success() && refused.err.contains(field),
            "{value}: {refused:?}"
        );
    }
}
