//! Who is granted what, and where, by the values. No cluster is needed.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use trustplane_e2e::chart::{Chart, render};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// A chart with two capabilities, of which `alpha` has parts.
fn alpha() -> Chart {
    Chart::with_files(&fixtures().join("files")).unwrap()
}

/// The chart as it is committed.
fn product() -> Chart {
    let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/trustplane/files");
    Chart::with_files(&files).unwrap()
}

fn objects(chart: &Chart, values: &[&str]) -> Vec<Value> {
    let said = render(chart, values).unwrap();
    assert!(said.status.success(), "{}", said.err);
    serde_saphyr::from_multiple(&said.out).unwrap()
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn texts<'a>(object: &'a Value, field: &str) -> Vec<&'a str> {
    let list = object[field].as_array().into_iter().flatten();
    list.filter_map(Value::as_str).collect()
}

/// `account place: verb group/resource name` for everything that is granted.
fn grants(objects: &[Value]) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let is_binding = |object: &&Value| text(object, "/kind").ends_with("RoleBinding");
    for binding in objects.iter().filter(is_binding) {
        let namespace = text(binding, "/metadata/namespace");
        let (kind, name) = (text(binding, "/roleRef/kind"), text(binding, "/roleRef/name"));
        let is_role = |object: &&Value| {
            text(object, "/kind") == kind
                && text(object, "/metadata/name") == name
                && (kind == "ClusterRole" || text(object, "/metadata/namespace") == namespace)
        };
        let role = objects.iter().find(is_role).expect(name);
        let place = match namespace {
            "" => "everywhere".to_owned(),
            namespace => format!("in {namespace}"),
        };
        for subject in binding["subjects"].as_array().unwrap() {
            let account = format!("{}/{}", text(subject, "/namespace"), text(subject, "/name"));
            let rules = role["rules"].as_array().unwrap().iter().flat_map(singles);
            all.extend(rules.map(|right| format!("{account} {place}: {right}")));
        }
    }
    all
}

fn singles(rule: &Value) -> Vec<String> {
    let mut all = Vec::new();
    for group in texts(rule, "apiGroups") {
        let group = if group.is_empty() { "core" } else { group };
        for resource in texts(rule, "resources") {
            for verb in texts(rule, "verbs") {
                let right = format!("{verb} {group}/{resource}");
                match &texts(rule, "resourceNames")[..] {
                    [] => all.push(right),
                    names => all.extend(names.iter().map(|name| format!("{right} {name}"))),
                }
            }
        }
    }
    all
}

/// The files hold what the releases before this one granted. A right that is new has to be written there by hand, or be one of
/// a part that is off unless the values ask for it.
#[test]
fn an_upgrade_with_unchanged_values_grants_nothing_new() {
    let kept = [
        "capabilities.sync.namespaces={a,b}",
        "capabilities.hsm.namespaces={tokens}",
    ];
    let chart = product();
    for (name, values) in [
        ("default", &[][..]),
        ("per-capability", &["deployment.perCapability=true"]),
        ("kept", &kept),
    ] {
        let before = fs::read_to_string(fixtures().join(format!("grants/{name}.txt"))).unwrap();
        let before: BTreeSet<String> = before.lines().map(str::to_owned).collect();
        let now = grants(&objects(&chart, values));
        assert!(!now.is_empty());
        let new: Vec<_> = now.difference(&before).collect();
        assert!(new.is_empty(), "{name}: {new:#?}");
    }
}

#[test]
fn a_part_of_sync_that_is_off_takes_its_rights_and_kinds_along() {
    let chart = product();
    let values = [
        "capabilities.sync.enabled=true",
        "capabilities.sync.parts.policies=false",
        "capabilities.sync.parts.deletion=false",
    ];
    let objects = objects(&chart, &values);
    let all = serde_json::to_string(&objects).unwrap();
    assert!(!all.contains("secretsyncpolicies") && all.contains("secretsyncstores"));
    assert!(all.contains("\"--sync-policy=off\""));
    let grants = grants(&objects);
    for gone in ["delete core/secrets", "list core/namespaces"] {
        assert!(!grants.iter().any(|right| right.ends_with(gone)), "{gone}");
    }
    assert!(grants.contains("home/tp-trustplane-manager everywhere: create core/secrets"));
}

#[test]
fn a_part_is_off_or_on_by_what_the_code_says_unless_the_values_say() {
    let chart = alpha();
    let rendered = |values: &[&str]| serde_json::to_string(&objects(&chart, values)).unwrap();
    let silent = rendered(&[]);
    assert!(!silent.contains("audits") && !silent.contains("--alpha-keeps"));
    let turned = rendered(&[
        "capabilities.alpha.parts.audits=true",
        "capabilities.alpha.parts.deletion=false",
    ]);
    for said in [
        "\"--alpha-audits\"",
        "\"--alpha-keeps\"",
        "things.alpha.trustplane.io,audits.alpha.trustplane.io",
    ] {
        assert!(turned.contains(said), "{said}");
    }
    let kinds = ["CustomResourceDefinition", "ValidatingAdmissionPolicy"];
    let with = objects(&chart, &["capabilities.alpha.parts.audits=true"]);
    for kind in kinds {
        let is_it = |object: &Value| {
            object["kind"] == kind && object["metadata"]["name"] == "audits.alpha.trustplane.io"
        };
        assert!(with.iter().any(is_it), "{kind}");
    }
}

#[test]
fn rights_hold_where_they_say_also_for_a_capability_that_is_kept() {
    let values = [
        "capabilities.alpha.enabled=true",
        "capabilities.alpha.namespaces={a}",
        "capabilities.alpha.parts.audits=true",
    ];
    let grants = grants(&objects(&alpha(), &values));
    let configuration = "validatingwebhookconfigurations tp-trustplane-manager";
    for (place, right) in [
        ("in a", "get alpha.trustplane.io/things".to_owned()),
        ("in a", "delete alpha.trustplane.io/things".to_owned()),
        ("in a", "create events.k8s.io/events".to_owned()),
        ("in home", "get core/configmaps".to_owned()),
        ("in default", "create events.k8s.io/events".to_owned()),
        ("everywhere", "list core/pods".to_owned()),
        (
            "everywhere",
            format!("patch admissionregistration.k8s.io/{configuration}"),
        ),
    ] {
        let right = format!("home/tp-trustplane-manager {place}: {right}");
        assert!(grants.contains(&right), "{right} is not among {grants:#?}");
    }
    let wide = grants.iter().filter(|right| right.contains(" everywhere: "));
    assert_eq!(wide.count(), 1 + 2 * 3, "{grants:#?}");
}

#[test]
fn an_unknown_part_is_answered_with_those_that_there_are() {
    let said = render(&alpha(), &["capabilities.alpha.parts.x=true"]).unwrap();
    let told = "capabilities.alpha.parts.x: this capability has no such part; it has: audits, deletion";
    assert!(!said.status.success() && said.err.contains(told), "{}", said.err);
    let said = render(&alpha(), &["capabilities.beta.parts.x=true"]).unwrap();
    assert!(said.err.contains("it has: none"), "{}", said.err);
}
