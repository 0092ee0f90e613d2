//! Tokens on two real nodes: those of SoftHSM that a device names, and one that kubelet hands out as a USB device, which moves
//! from node to node. The bus is a directory of files on each node; everything else is real.
//!
//! It is one test, because two nodes take longer to start than any of its parts. What needs no other part runs beside it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test stops at the first surprise, and tells what it saw"
)]

mod bus;
mod client;
mod devices;
mod kubelets;
mod leader;
mod pins;
mod policy;
mod readers;
mod rotation;
mod secrets;
mod stage;
mod twins;

use std::fs;
use std::process::Command;
use std::thread;
use std::time::Instant;

use trustplane_api::hsm::conditions::event;
use trustplane_api::hsm::record::Outcome;
use trustplane_cluster::node::Node;
use trustplane_e2e::chart::Chart;
use trustplane_e2e::{Arena, Release, say};
use trustplane_testkit::canary::Canary;

use bus::Bus;
use devices::{MOVED, PICO, SELECTED, TOKENS, static_device, usb_device};
use pins::Copies;
use rotation::Rotation;
use secrets::Delivered;
use stage::Stage;

/// The release and its namespace.
const NAME: &str = "plane";
/// The user of agents.
const USER: u32 = 65532;

#[test]
fn tokens_are_found_served_and_followed() {
    let arena = Arena::of_two_nodes().unwrap();
    let Some(cluster) = arena.cluster() else {
        eprintln!(
            "not run: the buses and tokens are directories of our own nodes; run it without --kubeconfig"
        );
        return;
    };
    for image in ["manager", "agent", "discovery"] {
        arena.load(image).unwrap();
    }
    let nodes = cluster.nodes();
    let buses: Vec<Bus> = nodes
        .iter()
        .map(|node| Bus::new(&node.state_directory()))
        .collect();
    let release = Release::named(&arena, NAME).unwrap();
    install(&arena, &release);
    let stage = Stage {
        arena: &arena,
        cluster,
        release: &release,
    };
    let pin = Canary::new("pin");
    stage.pin("pin", pin.value());
    for token in ["a", "b", "pico"] {
        nodes[0].make_room_for_token(token, USER).unwrap();
    }
    buses[0].plug(&PICO, 7);
    stage.apply(&static_device());
    stage.apply(&usb_device("pico", &PICO));
    stage.agent_serves("hsm-agent-softhsm-a", "node-1");
    stage.agent_serves("hsm-agent-softhsm-b", "node-1");
    stage.stores_and_reads_back();
    stage.agent_serves(MOVED, "node-1");
    stage.is_offered("node-1", &["1", "1"]);

    let rotation = Rotation::begin(&stage, ["hsm-agent-softhsm-a", "hsm-agent-softhsm-b"]);
    // Whoever leads next finds the first step of the rotation due.
    rotation.let_announce();
    let heir = leader::is_killed_and_followed(&stage);
    // It is written into what agents have; those that come later have it from the first write on.
    rotation.is_announced();
    let copies = Copies::of_a_token(&nodes[0]);
    let delivered = thread::scope(|beside| {
        let pins = beside.spawn(|| pins::are_tried_once(&stage, &nodes[0], &copies, pin.value(), &heir));
        let delivered = beside.spawn(|| Delivered::to_a_pod(&stage, "node-2"));
        token_moves(&stage, &buses, &nodes);
        pins.join().unwrap();
        delivered.join().unwrap()
    });
    rotation.is_trusted();
    rotation.let_promote();
    leader::gives_way(&stage);
    rotation.is_promoted();
    readers::are_spoken_to(&stage, &buses[0]);
    twins::share_a_type(&stage, &buses[1], &nodes[1]);
    kubelets::come_and_go(&stage, &nodes[0], &nodes[1]);

    // Agents still take up their certificates, but nobody has anything to write.
    let rest = leader::Rest::begin(&stage);
    rotation.is_served();
    rotation.end();
    policy::discovery_may_report_and_nothing_else(&stage);
    policy::foreign_pods_get_no_token(&stage);
    policy::holds_nowhere(&stage, &[&[&pin][..], &delivered.canaries()].concat());
    delivered.is_as_it_was();
    rest.end();
    policy::everything_goes(&stage, ["pico", "twin", "mistaken", "locked"]);
    // One was forgotten: its agents go on, and go with it.
    release.uninstall().unwrap();
    stage.agent_serves("hsm-agent-softhsm-a", "node-1");
    stage.stores_and_reads_back();
    delivered.outlives_the_manager();
    policy::everything_goes(&stage, ["softhsm"]);
    policy::nothing_stays(&stage);
}

fn install(arena: &Arena, release: &Release<'_>) {
    say(&mut arena.kubectl(&["create", "namespace", TOKENS])).unwrap();
    // They have directories and devices of the node.
    say(&mut arena.kubectl(&[
        "label",
        "namespace",
        TOKENS,
        "pod-security.kubernetes.io/enforce=privileged",
    ]))
    .unwrap();
    say(&mut arena.kubectl(&["label", "nodes", "--all", SELECTED])).unwrap();
    release
        .install(
            &Chart::of_the_product().unwrap(),
            &[
                &format!("capabilities.hsm.namespaces={{{TOKENS}}}"),
                "capabilities.hsm.enabled=true",
                "hsm.hostDirectories={/var/lib/softhsm}",
                "hsm.offerTypes=true",
                "deployment.extraArgs={--hsm-sysfs-path=/var/lib/usb/sys,--hsm-dev-path=/var/lib/usb/dev}",
            ],
        )
        .unwrap();
}

/// The token is plugged in again, and then into the other node.
fn token_moves(stage: &Stage<'_>, buses: &[Bus], nodes: &[Node]) {
    let pod = stage.pod(MOVED).unwrap();
    // Another number, and so another pod.
    let unplugged = Instant::now();
    buses[0].unplug(&PICO);
    buses[0].plug(&PICO, 8);
    stage.until("the pod to be replaced", || {
        stage.pod(MOVED).filter(|now| now.uid != pod.uid)
    });
    stage.agent_serves(MOVED, "node-1");
    eprintln!(
        "served {:.1?} after it was plugged in with another number",
        unplugged.elapsed()
    );

    buses[0].unplug(&PICO);
    let [from, to] = [0, 1].map(|node: usize| nodes[node].state_directory().join("softhsm/pico"));
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    say(Command::new("cp").arg("--archive").arg(&from).arg(&to)).unwrap();
    fs::remove_dir_all(&from).unwrap();
    buses[1].plug(&PICO, 3);
    stage.agent_serves(MOVED, "node-2");
    // Wherever it is plugged in, its PIN is known to be right.
    stage.until("one try that was right", || {
        (stage.tries(MOVED) == [Outcome::Accepted]).then_some(())
    });
    stage.is_told("pico", event::TOKEN_MOVED);
}
