//! Tokens that go from node to node.

use trustplane_api::hsm::conditions::{event, phase};

use super::*;
use crate::decide::world::soft;

#[test]
fn f42_a_token_that_moved_gets_its_agent_at_the_new_place() {
    let mut input = one();
    let mut cluster = running(&mut input);
    let mut old = token("e6", "n1", "/dev/bus/usb/001/015", false);
    old.device_info.insert(info::MOVED_TO.to_owned(), "n2".to_owned());
    input.pools[0].status.aggregated_devices = vec![old, token("e6", "n2", "/dev/bus/usb/003/002", true)];
    let wanted = format!("delete Deployment hsm/{NAME} (uid uid-Deployment hsm/{NAME})");
    let plan = decide(&input);
    assert_eq!(steps(&plan)[0], wanted);
    let [_, Step::Tell(told)] = &plan.steps[..] else {
        panic!("{plan}")
    };
    assert_eq!(
        (told.severity, told.reason),
        (Severity::Normal, event::TOKEN_MOVED)
    );
    assert_eq!(
        told.text(),
        r#"the agent of the token "e6" follows it from node n1 to node n2"#
    );
    // Nothing is told again while the old one goes.
    let mut leaving = input.clone();
    for (kind, live) in &mut leaving.live {
        live.deleted = (*kind == DEPLOYMENT).then(|| at(60));
    }
    assert_eq!(steps(&decide(&leaving)), [""; 0]);
    carry_out(&mut input, &mut cluster);
    assert_eq!(steps(&decide(&input)), [format!("create Deployment hsm/{NAME}")]);
    carry_out(&mut input, &mut cluster);
    let made = cluster.body(&DEPLOYMENT, NAME).unwrap();
    assert_eq!(pod(made)["nodeSelector"]["kubernetes.io/hostname"], "n2");
    assert_eq!(steps(&decide(&input)), [""; 0]);
}

#[test]
fn a_token_that_is_lost_while_its_agent_moves_keeps_the_rest_of_it() {
    let mut input = one();
    consents::elsewhere(&mut input, Consent::Given);
    let mut cluster = running(&mut input);
    input.pools[0].status.aggregated_devices = vec![token("e6", "n2", "/dev/b", true)];
    carry_out(&mut input, &mut cluster);
    assert!(cluster.body(&DEPLOYMENT, NAME).is_none());
    input.pools[0].status.aggregated_devices[0].available = false;
    assert_eq!(steps(&decide(&input)), [""; 0]);
}

const FIXED: &str = "hsm-agent-pico-hsm-a";

/// A static token, by the node that is named for it.
fn fixed(node: &str) -> AgentsInput {
    let spec = soft(json!([{"name": "hsm-a", "tokenLabel": "l", "nodeName": node}]));
    let mut listed = token("hsm-a", node, "", true);
    listed
        .device_info
        .insert(info::DISCOVERY_TYPE.to_owned(), info::STATIC.to_owned());
    input(&spec, status(phase::READY, vec![listed]))
}

/// A pod of its agent.
fn pod_on(node: &str, phase: &str) -> AgentPod {
    AgentPod {
        meta: meta(json!({
            "name": format!("{FIXED}-5d9c7-x"), "namespace": "hsm", "uid": "p", "resourceVersion": "1",
            "labels": {"app": FIXED},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("{FIXED}-5d9c7"), "uid": "r",
                "controller": true,
            }],
        })),
        node: Some(node.to_owned()),
        phase: phase.to_owned(),
        reason: None,
        account: None,
        ready: true,
    }
}

fn told(plan: &Plan<AgentAction>) -> Vec<(&'static str, String)> {
    let notes = plan.steps.iter().filter_map(|step| match step {
        Step::Tell(note) => Some((note.reason, note.text().to_owned())),
        _ => None,
    });
    notes.collect()
}

#[test]
fn w35_a_static_token_has_no_second_agent_while_a_pod_of_the_first_may_run() {
    let mut before = fixed("n1");
    let mut cluster = running(&mut before);
    let mut input = fixed("n2");
    input.live = before.live;
    input.pods = vec![pod_on("n1", "Running")];
    let plan = decide(&input);
    // Its pods go before it does.
    let Step::Delete(delete) = &plan.steps[0] else {
        panic!("{plan}")
    };
    assert_eq!(
        (&delete.target.kind, delete.propagation),
        (&DEPLOYMENT, trustplane_plan::Propagation::Foreground)
    );
    // It leaves, and is gone: as long as the pod is there, there is no other.
    let mut leaving = input.clone();
    for (kind, live) in &mut leaving.live {
        live.deleted = (*kind == DEPLOYMENT).then(|| at(60));
    }
    carry_out(&mut input, &mut cluster);
    assert!(cluster.body(&DEPLOYMENT, FIXED).is_none());
    for waiting in [&leaving, &input] {
        let plan = decide(waiting);
        let [(reason, text)] = &told(&plan)[..] else {
            panic!("{plan}")
        };
        assert_eq!(plan.steps.len(), 1, "{plan}");
        assert_eq!(*reason, event::AGENT_WAITS);
        assert_eq!(
            *text,
            format!(
                "the token \"hsm-a\" has no agent until the pod {FIXED}-5d9c7-x on node n1 has ended; if that node is dead: \
                 kubectl delete pod --namespace hsm {FIXED}-5d9c7-x --force"
            )
        );
    }
    // A pod that has ended, or is gone, holds nothing.
    for pods in [
        vec![],
        vec![pod_on("n1", "Succeeded")],
        vec![pod_on("n1", "Failed")],
    ] {
        let mut free = input.clone();
        free.pods = pods;
        assert_eq!(steps(&decide(&free)), [format!("create Deployment hsm/{FIXED}")]);
    }
    // Nor does one that only has the label.
    let mut stranger = pod_on("n1", "Running");
    stranger.meta.owners.clear();
    input.pods = vec![stranger];
    carry_out(&mut input, &mut cluster);
    let made = cluster.body(&DEPLOYMENT, FIXED).unwrap();
    assert_eq!(pod(made)["nodeSelector"]["kubernetes.io/hostname"], "n2");
}

#[test]
fn a_pod_of_the_deployment_that_is_there_holds_up_nothing() {
    let mut input = fixed("n1");
    let mut cluster = running(&mut input);
    input.pods = vec![pod_on("n1", "Running")];
    assert_eq!(steps(&decide(&input)), [""; 0]);
    // A roll-out is the business of the Deployment, which waits by itself.
    let mut other = soft(json!([{"name": "hsm-a", "tokenLabel": "other", "nodeName": "n1"}]));
    other.max_devices = 1;
    input.device = Some(view("hsm", "pico", &other));
    assert_eq!(steps(&decide(&input)), [format!("update Deployment hsm/{FIXED}")]);
    carry_out(&mut input, &mut cluster);
    assert_eq!(steps(&decide(&input)), [""; 0]);
}

#[test]
fn a_token_on_the_bus_does_not_wait_for_a_pod_of_a_node_that_has_lost_it() {
    let mut input = one();
    let mut cluster = running(&mut input);
    input.pools[0].status.aggregated_devices = vec![token("e6", "n2", "/dev/b", true)];
    let mut left = pod_on("n1", "Running");
    left.meta.labels.insert("app".to_owned(), NAME.to_owned());
    left.meta.owners[0].name = format!("{NAME}-5d9c7");
    input.pods = vec![left];
    carry_out(&mut input, &mut cluster);
    assert_eq!(steps(&decide(&input)), [format!("create Deployment hsm/{NAME}")]);
}

#[test]
fn a_deployment_of_somebody_else_is_not_removed_because_a_token_moved() {
    let mut input = one();
    running(&mut input);
    let deployments = input.live.iter_mut().filter(|(kind, _)| *kind == DEPLOYMENT);
    deployments.for_each(|(_, live)| live.labels.clear());
    input.pools[0].status.aggregated_devices = vec![token("e6", "n2", "/dev/b", true)];
    let told = steps(&decide(&input)).join("\n");
    assert!(
        told.contains(event::AGENT_TAKEN) && !told.contains("Deployment hsm/hsm-agent-pico-e6 ("),
        "{told}"
    );
}
