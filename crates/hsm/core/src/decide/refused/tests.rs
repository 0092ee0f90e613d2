use jiff::SignedDuration;
use serde_json::{Value, json};
use trustplane_plan::ObjectRef;

use super::*;
use crate::decide::world::{meta, steps};
use crate::decide::{Issuing, decide_agents, world};

const AGENT_NAME: &str = "hsm-agent-pico-e6";

/// A pod of the agent that the kubelet has refused.
fn pod() -> Value {
    json!({
        "name": "p", "namespace": "hsm", "uid": "u", "resourceVersion": "5",
        "labels": {
            "app": AGENT_NAME, "app.kubernetes.io/component": "hsm-agent", "hsm.j5t.io/device": "pico",
        },
        "ownerReferences": [{
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("{AGENT_NAME}-5d9c7"), "uid": "r",
            "controller": true,
        }],
    })
}

fn refused(pod: Value) -> AgentPod {
    AgentPod {
        meta: meta(pod),
        node: None,
        phase: "Failed".to_owned(),
        reason: Some(REFUSED.to_owned()),
        account: Some(AGENT_NAME.to_owned()),
        ready: false,
    }
}

/// A pod of the agent that runs since then.
fn runs(since: i64) -> AgentPod {
    let mut metadata = pod();
    metadata["creationTimestamp"] = json!(world::at(since));
    AgentPod {
        phase: "Running".to_owned(),
        reason: None,
        ready: true,
        ..refused(metadata)
    }
}

fn deployment(device: &str) -> Meta {
    meta(json!({
        "name": AGENT_NAME, "namespace": "hsm", "uid": "d", "resourceVersion": "1",
        "labels": {"app.kubernetes.io/managed-by": "hsm-secrets-operator", "hsm.j5t.io/device": device},
    }))
}

/// What is removed, if the Deployment of the agent is there.
fn removed(pod: AgentPod) -> Vec<String> {
    removed_beside(pod, vec![(DEPLOYMENT, deployment("pico"))])
}

fn removed_beside(pod: AgentPod, live: Vec<(trustplane_plan::Kind, Meta)>) -> Vec<String> {
    decided(&beside(pod, live))
}

fn beside(pod: AgentPod, live: Vec<(trustplane_plan::Kind, Meta)>) -> AgentsInput {
    AgentsInput {
        key: ObjectRef::new(Some("hsm"), "pico"),
        // A device that makes no sense has agents that go on.
        device: Some(world::view(
            "hsm",
            "pico",
            &world::spec(json!({"deviceType": "PicoHSM", "discovery": {"usb": []}})),
        )),
        pools: Vec::new(),
        live,
        complete: true,
        records: Default::default(),
        pods: vec![pod],
        consent: crate::consent::Consent::Needless,
        issuing: Issuing {
            bundle: String::new(),
            renew_before: SignedDuration::ZERO,
        },
    }
}

fn decided(input: &AgentsInput) -> Vec<String> {
    steps(&decide_agents(
        input,
        &world::rules(),
        &world::fingerprinter(),
        world::at(0),
    ))
}

#[test]
fn a_pod_that_the_kubelet_has_refused_is_removed_as_it_was_seen() {
    assert_eq!(removed(refused(pod())), ["delete Pod hsm/p (uid u)"]);
}

#[test]
fn a_pod_that_runs_or_failed_for_another_reason_or_goes_already_is_left_alone() {
    let changed = |change: &dyn Fn(&mut AgentPod)| {
        let mut pod = refused(pod());
        change(&mut pod);
        removed(pod)
    };
    assert_eq!(changed(&|pod| pod.phase = "Running".to_owned()), [""; 0]);
    assert_eq!(changed(&|pod| pod.phase = "Pending".to_owned()), [""; 0]);
    assert_eq!(changed(&|pod| pod.reason = Some("Evicted".to_owned())), [""; 0]);
    assert_eq!(changed(&|pod| pod.reason = None), [""; 0]);
    assert_eq!(changed(&|pod| pod.meta.deleted = Some(world::at(0))), [""; 0]);
}

#[test]
fn a_pod_of_somebody_else_with_our_labels_is_left_alone() {
    let changed = |path: &str, value: Value| {
        let mut pod = pod();
        *pod.pointer_mut(path).unwrap() = value;
        removed(refused(pod))
    };
    assert_eq!(changed("/ownerReferences", json!([])), [""; 0]);
    assert_eq!(changed("/ownerReferences/0/kind", "Job".into()), [""; 0]);
    assert_eq!(changed("/ownerReferences/0/controller", false.into()), [""; 0]);
    assert_eq!(changed("/ownerReferences/0/name", "theirs-5d9c7".into()), [""; 0]);
    assert_eq!(changed("/ownerReferences/0/name", AGENT_NAME.into()), [""; 0]);
    assert_eq!(changed("/namespace", "other".into()), [""; 0]);
    assert_eq!(changed("/labels/app", "theirs".into()), [""; 0]);
    assert_eq!(changed("/labels/hsm.j5t.io~1device", "other".into()), [""; 0]);
    assert_eq!(
        changed("/labels/app.kubernetes.io~1component", "web".into()),
        [""; 0]
    );
}

#[test]
fn a_pod_without_a_deployment_of_ours_is_left_alone() {
    assert_eq!(removed_beside(refused(pod()), Vec::new()), [""; 0]);
    let theirs = vec![(DEPLOYMENT, deployment("other"))];
    assert_eq!(removed_beside(refused(pod()), theirs), [""; 0]);
}

fn created(deployment: Meta, when: i64) -> Vec<(trustplane_plan::Kind, Meta)> {
    let created = Some(world::at(when));
    vec![(
        DEPLOYMENT,
        Meta {
            created,
            ..deployment
        },
    )]
}

#[test]
fn pod_whose_deployment_is_gone_is_ended() {
    let ghost = ["delete Pod hsm/p (uid u)"];
    assert_eq!(removed_beside(runs(-60), Vec::new()), ghost);
    // Another Deployment has its name: the pod that it makes waits for the device.
    let other = created(deployment("pico"), -10);
    assert_eq!(removed_beside(runs(-11), other), ghost);
}

#[test]
fn pod_of_a_deployment_that_is_there_is_no_ghost() {
    let its = created(deployment("pico"), -100);
    assert_eq!(removed_beside(runs(-99), its.clone()), [""; 0]);
    assert_eq!(removed_beside(runs(-100), its), [""; 0]);
    // The Deployment takes its pods with it.
    let mut leaving = created(deployment("pico"), 0);
    leaving[0].1.deleted = Some(world::at(0));
    assert_eq!(removed_beside(runs(-100), leaving), [""; 0]);
}

/// The watch of pods may be ahead of that of Deployments.
#[test]
fn pod_that_is_new_is_no_ghost_yet() {
    assert_eq!(removed_beside(runs(-59), Vec::new()), [""; 0]);
}

/// The list of Deployments has a hole, in which that of the pod may be.
#[test]
fn pod_is_no_ghost_on_a_partial_view() {
    let mut input = beside(runs(-600), Vec::new());
    input.complete = false;
    assert_eq!(decided(&input), [""; 0]);
}

#[test]
fn pod_that_ends_or_is_not_ours_is_no_ghost() {
    let changed = |change: &dyn Fn(&mut AgentPod)| {
        let mut pod = runs(-600);
        change(&mut pod);
        removed_beside(pod, Vec::new())
    };
    assert_eq!(changed(&|pod| pod.meta.deleted = Some(world::at(0))), [""; 0]);
    assert_eq!(changed(&|pod| pod.phase = "Succeeded".to_owned()), [""; 0]);
    assert_eq!(changed(&|pod| pod.meta.owners.clear()), [""; 0]);
    // An agent of the HSM Secrets Operator has the same labels, and another account.
    assert_eq!(
        changed(&|pod| pod.account = Some("hsm-agent".to_owned())),
        [""; 0]
    );
    assert_eq!(changed(&|pod| pod.account = None), [""; 0]);
    assert_eq!(changed(&|pod| pod.meta.labels.clear()), [""; 0]);
}
