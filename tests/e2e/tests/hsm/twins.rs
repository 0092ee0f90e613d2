//! Two HSMDevices of one type on one node: kubelet knows the type by one socket, which one process serves.

use std::fs;

use trustplane_cluster::node::Node;
use trustplane_e2e::say;

use crate::USER;
use crate::bus::Bus;
use crate::devices::{BESIDE, MOVED, TWIN, usb_device};
use crate::kubelets::assert_is_same;
use crate::stage::{Pod, Stage, process_of};

/// The node has a token already. Another one of its type comes, and then the process that serves both goes.
pub fn share_a_type(stage: &Stage<'_>, bus: &Bus, node: &Node) {
    let first = stage.discovery_on("pico", &node.name());
    assert!(serves_type(&first), "{} serves the type alone", first.name);

    node.make_room_for_token("twin", USER).unwrap();
    bus.plug(&TWIN, 4);
    stage.apply(&usb_device("twin", &TWIN));
    stage.agent_serves(BESIDE, &node.name());
    stage.is_offered(&node.name(), &["2", "1", "1"]);
    let second = stage.discovery_on("twin", &node.name());
    assert!(
        serves_type(&first) && !serves_type(&second),
        "one process serves the type"
    );

    let agents = [MOVED, BESIDE].map(|agent| (agent, stage.pod(agent).unwrap()));
    say(&mut stage.kubectl(&["delete", "pod", &first.name, "--wait=false"])).unwrap();
    let next = stage.until("another discovery pod", || {
        let mut pods = stage.discovery("pico").into_iter();
        pods.find(|pod| pod.node == node.name() && pod.uid != first.uid && pod.ready)
    });
    // Whichever was quicker.
    stage.until("one process to serve the type", || {
        let serving = [&second, &next]
            .into_iter()
            .filter(|pod| serves_type(pod))
            .count();
        assert!(serving < 2, "two processes serve the type");
        (serving == 1).then_some(())
    });
    stage.is_offered(&node.name(), &["2", "1", "1"]);
    // Nobody who has a token notices.
    for (agent, before) in agents {
        assert_is_same(&stage.pod(agent).unwrap(), &before);
    }
}

/// Whether a discovery pod listens at the socket of the type: sockets are those of its network.
fn serves_type(pod: &Pod) -> bool {
    let process = process_of(&pod.uid, "trustplane-discovery");
    let sockets = fs::read_to_string(format!("/proc/{process}/net/unix")).unwrap();
    let mut of_type = sockets
        .lines()
        .filter(|line| line.ends_with("/hsm.j5t.io_picohsm.sock"));
    of_type.any(|line| line.split_whitespace().nth(3) == Some(LISTENS))
}

/// The flag of a socket that takes connections.
const LISTENS: &str = "00010000";
