//! Plans from what was seen, without a cluster.

mod rollout;

mod operands;

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use trustplane_api::identity::conditions::{self, reason};
use trustplane_api::identity::{OperandKind, names};
use trustplane_plan::kinds::{CONFIG_MAP, DAEMON_SET, DEPLOYMENT, SECRET, STATEFUL_SET};
use trustplane_plan::{
    Expect, FieldSet, Fingerprinter, Keep, Kind, Meta, OWNER_UID, Plan, Propagation, Step,
};

use super::*;
use crate::health::Workload;
use crate::{Images, Settings};

const NAMESPACE: &str = "zero-trust-workload-identity-manager";
const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn settings() -> Settings {
    let image = |name: &str| format!("ghcr.io/spiffe/{name}:1.15.3");
    Settings {
        namespaces: vec![NAMESPACE.to_owned()],
        images: Images {
            spire_server: image("spire-server"),
            spire_agent: image("spire-agent"),
            spire_controller_manager: "ghcr.io/spiffe/spire-controller-manager:0.6.4".to_owned(),
            oidc_discovery_provider: image("oidc-discovery-provider"),
            spiffe_csi_driver: "ghcr.io/spiffe/spiffe-csi-driver:0.2.8".to_owned(),
            node_driver_registrar: "registry.k8s.io/sig-storage/csi-node-driver-registrar:v2.9.4".to_owned(),
            csi_init: "ubi9:latest".to_owned(),
        },
        pull_policy: "IfNotPresent".to_owned(),
        kubelet_root: "/var/lib/kubelet".to_owned(),
        selinux: false,
        create_only: false,
    }
}

fn fingerprinter() -> Fingerprinter {
    Fingerprinter::new(&[7; 32])
}

fn meta(object: &Value) -> Meta {
    Meta::decode(
        &object.to_string(),
        &Keep::owned_by("trustplane-identity-operands"),
    )
    .unwrap()
}

fn seen(uid: &str, spec: Value) -> Seen {
    let metadata = json!({"name": "cluster", "uid": uid, "resourceVersion": "1", "generation": 1});
    Seen {
        meta: meta(&json!({ "metadata": metadata })),
        spec,
        status: Value::Null,
    }
}

fn ztwim() -> Seen {
    seen(
        "z",
        json!({"trustDomain": "example.org", "clusterName": "one", "bundleConfigMap": "spire-bundle"}),
    )
}

fn all_operands() -> BTreeMap<OperandKind, Seen> {
    OperandKind::ALL
        .into_iter()
        .map(|kind| {
            let spec = match kind {
                OperandKind::SpireServer => json!({"jwtIssuer": "https://oidc.example.org"}),
                _ => json!({}),
            };
            (kind, seen(&format!("uid-{}", kind.as_str()), spec))
        })
        .collect()
}

fn config(manager: Option<Seen>, operands: BTreeMap<OperandKind, Seen>) -> Plan<ConfigAction> {
    decide_config(&ConfigInput { manager, operands }, &settings(), NOW)
}

fn input(operand: OperandKind) -> OperandInput {
    OperandInput {
        operand,
        manager: Some(ztwim()),
        operands: all_operands(),
        children: Vec::new(),
        complete: true,
        server: None,
        has_discovery: false,
        workload: None,
        bundle: None,
        namespace: NamespaceState::Free,
        issuing: Issuing {
            bundle: "CA".to_owned(),
            renew_before: SignedDuration::from_hours(24),
        },
    }
}

fn plan(input: &OperandInput) -> Plan<OperandAction> {
    decide_operand(input, &settings(), &fingerprinter(), NOW)
}

/// The status that a plan writes.
fn status<A: Clone>(plan: &Plan<A>) -> Value {
    let statuses = plan.steps.iter().filter_map(|step| match step {
        Step::Status(status) => Some(status.status.clone()),
        _ => None,
    });
    let all: Vec<Value> = statuses.collect();
    assert_eq!(all.len(), 1, "one write of the status in a pass");
    all[0].clone()
}

/// Status, reason and message of a condition.
fn condition(status: &Value, type_: &str) -> (String, String, String) {
    let conditions = status["conditions"].as_array().unwrap();
    let found = conditions.iter().find(|condition| condition["type"] == type_);
    let found = found.unwrap_or_else(|| panic!("no {type_} in {status}"));
    let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
    (text("status"), text("reason"), text("message"))
}

fn lines<A: std::fmt::Debug>(plan: &Plan<A>) -> Vec<String> {
    plan.to_string().lines().map(str::to_owned).collect()
}

/// The objects as the API server has them after the writes of a plan.
fn carried_out(plan: &Plan<OperandAction>) -> Vec<(Kind, Meta)> {
    let applied = plan.steps.iter().filter_map(|step| match step {
        Step::Apply(apply) => Some(&apply.manifest),
        Step::Call(OperandAction::Certificate(certificate)) => Some(&certificate.write.manifest),
        _ => None,
    });
    applied
        .map(|manifest| {
            let mut body = manifest.body();
            body["metadata"]["uid"] = "child".into();
            body["metadata"]["resourceVersion"] = "9".into();
            let mut live = meta(&body);
            live.fields = FieldSet::from_fields_v1(&owned(&manifest.wish()));
            if *manifest.kind() == SECRET {
                live.annotations
                    .insert(ENDS.to_owned(), "2000-01-01T00:00:00Z".to_owned());
            }
            (manifest.kind().clone(), live)
        })
        .collect()
}

/// The field set of whoever applied a wish; lists count as one field.
fn owned(wish: &Value) -> Value {
    match wish {
        Value::Object(fields) if !fields.is_empty() => fields
            .iter()
            .map(|(name, value)| (format!("f:{name}"), owned(value)))
            .collect(),
        _ => json!({}),
    }
}

fn healthy(kind: &Kind) -> Workload {
    Workload::read(&match *kind == DAEMON_SET {
        true => json!({"metadata": {"generation": 1}, "status": {
            "observedGeneration": 1, "desiredNumberScheduled": 1, "numberReady": 1, "updatedNumberScheduled": 1,
            "numberAvailable": 1,
        }}),
        false => json!({"metadata": {"generation": 1}, "spec": {"replicas": 1}, "status": {
            "observedGeneration": 1, "readyReplicas": 1, "updatedReplicas": 1, "availableReplicas": 1,
        }}),
    })
}

/// An input in which everything is as the first plan made it, and well.
fn settled(operand: OperandKind) -> OperandInput {
    let mut input = input(operand);
    let first = plan(&input);
    input.children = carried_out(&first);
    input.workload = Some(healthy(&needs(&input, &settings()).unwrap().workload.kind));
    let bundle = input
        .children
        .iter()
        .find(|(kind, meta)| *kind == CONFIG_MAP && meta.object.name() == "spire-bundle");
    input.bundle = bundle.map(|(_, meta)| (meta.clone(), true));
    input.server = input
        .children
        .iter()
        .find(|(kind, _)| *kind == STATEFUL_SET)
        .map(|(_, meta)| meta.clone());
    let second = plan(&input);
    input.operands.get_mut(&operand).unwrap().status = status(&second);
    input
}

#[test]
fn values_of_ztwim_are_filled_into_operands_with_record_and_owner() {
    let plan = config(Some(ztwim()), all_operands());
    let applies: Vec<_> = plan
        .steps
        .iter()
        .filter_map(|step| match step {
            Step::Apply(apply) => Some((apply.manifest.kind().kind.to_string(), apply.manifest.body())),
            _ => None,
        })
        .collect();
    assert_eq!(applies.len(), 4, "{plan}");
    let (_, server) = &applies[0];
    assert_eq!(server["spec"]["trustDomain"], "example.org");
    assert_eq!(
        server["metadata"]["ownerReferences"][0]["blockOwnerDeletion"],
        true
    );
    let record = server["metadata"]["annotations"][names::INHERITED]
        .as_str()
        .unwrap();
    assert!(record.contains(r#""clusterName":"one""#), "{record}");
    let (kind, csi) = &applies[2];
    assert_eq!(kind, "SpiffeCSIDriver");
    assert!(csi["spec"].is_null(), "it follows no value, only its owner");
    let (_, oidc) = &applies[3];
    assert_eq!(oidc["spec"]["jwtIssuer"], "https://oidc.example.org");
    assert!(
        lines(&plan).iter().any(|line| line.contains("Synchronised")),
        "{plan}"
    );
}

#[test]
fn operands_that_follow_already_are_not_written() {
    let first = config(Some(ztwim()), all_operands());
    let mut operands = all_operands();
    for (kind, seen) in &mut operands {
        let body = first.steps.iter().find_map(|step| match step {
            Step::Apply(apply) if *apply.manifest.kind() == *kind.kind() => Some(apply.manifest.body()),
            _ => None,
        });
        let mut body = body.unwrap();
        body["metadata"]["uid"] = "u".into();
        seen.meta = meta(&body);
        for (name, value) in body["spec"].as_object().into_iter().flatten() {
            seen.spec[name] = value.clone();
        }
    }
    let second = config(Some(ztwim()), operands);
    assert!(
        !second.steps.iter().any(|step| matches!(step, Step::Apply(_))),
        "{second}"
    );
}

#[test]
fn ztwim_without_values_takes_what_operands_agree_on_and_says_so() {
    let mut operands = all_operands();
    for kind in [OperandKind::SpireServer, OperandKind::SpireAgent] {
        let spec = &mut operands.get_mut(&kind).unwrap().spec;
        spec["trustDomain"] = "old.example".into();
        spec["clusterName"] = "c".into();
    }
    let plan = config(Some(seen("z", json!({}))), operands.clone());
    let told = lines(&plan);
    assert!(
        told[0].contains("update ZeroTrustWorkloadIdentityManager"),
        "{plan}"
    );
    assert!(
        told.iter()
            .any(|line| line.contains("Initializing ZTWIM from operand config")),
        "{plan}"
    );
    assert!(
        told.iter().any(|line| line.contains("Consider moving to ZTWIM")),
        "{plan}"
    );

    // The name of the cluster was copied before: it is said again, or the API server would take it away.
    let copied = json!({"metadata": {"name": "cluster", "uid": "z", "resourceVersion": "2", "managedFields": [
        {"manager": "trustplane-identity-operands", "operation": "Apply", "fieldsV1": {"f:spec": {"f:clusterName": {}}}},
    ]}});
    let mut manager = seen("z", json!({"clusterName": "c"}));
    manager.meta = meta(&copied);
    let plan = config(Some(manager), operands.clone());
    let Step::Apply(apply) = &plan.steps[0] else {
        panic!("{plan}")
    };
    assert_eq!(
        apply.manifest.body()["spec"],
        json!({"clusterName": "c", "trustDomain": "old.example"})
    );

    operands.get_mut(&OperandKind::SpireAgent).unwrap().spec["trustDomain"] = "other.example".into();
    let plan = config(Some(seen("z", json!({}))), operands);
    let (is, why, message) = condition(&status(&plan), conditions::CONFIGURATION_VALID);
    assert_eq!(
        (is.as_str(), why.as_str()),
        ("False", reason::CONFIGURATION_CONFLICT)
    );
    assert!(
        message.contains("SpireServer/cluster") && message.contains("SpireAgent/cluster"),
        "{message}"
    );
}

#[test]
fn operands_of_a_ztwim_on_its_way_out_are_left_alone() {
    let mut manager = ztwim();
    manager.meta.deleted = Some(NOW);
    assert!(config(Some(manager), all_operands()).is_empty());
    assert!(config(None, all_operands()).is_empty());
}
