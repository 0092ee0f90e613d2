//! Clusters with nodes, for real: what pods, logs, Services and names promise, and that nothing stays behind.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and its output tells where the time went"
)]

mod csi;
mod place;
mod workload;

use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::ensure;
use rustix::process::Signal;
use trustplane_cluster::identity::Identity;
use trustplane_cluster::node::{self, Count, Options};
use trustplane_cluster::wait;

use place::{Footprint, Place};
use workload::{apply, await_pods, kubectl, pod};

const LIMIT: Duration = Duration::from_secs(60);
/// Longer than the limits inside `up`, so that it is `up` which tells what went wrong.
const UP_LIMIT: Duration = Duration::from_secs(500);

#[test]
fn two_nodes_are_a_cluster_and_leave_nothing() {
    let place = Place::new("two");
    let cluster = place.up(Count::Two);
    workload::start(&cluster);
    workload::pods_talk(&cluster);
    workload::pods_reach_the_api_server_and_the_machine(&cluster);
    workload::images_load(&cluster);
    workload::device_plugins_are_apart(&cluster);
    let again = place.up(Count::Two);
    assert_eq!(
        again.control_plane().url(),
        cluster.control_plane().url(),
        "up of a running cluster is that cluster"
    );
    let footprint = Footprint::of(&place);
    place.down();
    footprint.assert_gone();
}

#[test]
fn what_was_killed_is_cleared_away_beside_a_neighbour_and_the_next_up_works() {
    let (place, other) = (Place::new("killed"), Place::new("neighbour"));
    // At the same moment, so that both look for free addresses and ports at once.
    let (cluster, neighbour) = std::thread::scope(|scope| {
        let neighbour = scope.spawn(|| other.up(Count::One));
        (place.up(Count::One), neighbour.join().unwrap())
    });
    assert_ne!(cluster.machine_address(), neighbour.machine_address());
    apply(&cluster, &[pod("stubborn", "node-1", &["hold"])]);
    await_pods(&cluster);
    let state = place.0.state().unwrap().unwrap();
    csi::kubelet_answers_at_the_loopback_address(&cluster, &state);
    csi::start(&cluster, &state);
    csi::volumes_come_and_go(&cluster, &state);
    let footprint = Footprint::of(&place);
    // The worst order: nobody is left who could stop the pods or unmount their volumes.
    for name in ["kube-apiserver", "containerd-node-1", "kubelet-node-1", "etcd"] {
        let state = place.0.state().unwrap().unwrap();
        let process = state.process(name).unwrap();
        assert!(process.signal(Signal::KILL).unwrap());
        wait::until("a killed process to end", LIMIT, || {
            Ok((!process.alive()?).then_some(()))
        })
        .unwrap();
    }
    place.down();
    footprint.assert_gone();
    assert!(node::open(place.0.name().as_str()).is_err());

    let cluster = place.up(Count::One);
    for cluster in [&cluster, &neighbour] {
        apply(
            cluster,
            &[pod("server", "node-1", &["serve", ":8080", "still here"])],
        );
        await_pods(cluster);
        let answer = kubectl(
            cluster,
            &["exec", "server", "--", "/probe", "get", "http://127.0.0.1:8080"],
        );
        assert_eq!(answer.unwrap(), "still here\n");
    }
    let footprint = Footprint::of(&place);
    place.down();
    footprint.assert_gone();
}

/// Not a test by itself: what the next one starts as a process of its own, to interrupt it.
#[test]
fn up_as_a_process() {
    if let Ok(name) = std::env::var("TRUSTPLANE_TEST_UP") {
        node::up(
            &name,
            &Options {
                nodes: Count::Two,
                owner: None,
            },
        )
        .unwrap();
    }
}

/// Starts `up` as a process and sends it a signal as soon as it has come to a certain process.
fn interrupted(place: &Place, signal: Signal, reached: &str) -> Footprint {
    let mut up = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "up_as_a_process", "--nocapture"])
        .env("TRUSTPLANE_TEST_UP", place.0.name().as_str())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait::until(reached, UP_LIMIT, || {
        ensure!(up.try_wait()?.is_none(), "up ended by itself");
        Ok(place.0.state()?.filter(|state| state.process(reached).is_some()))
    })
    .unwrap();
    let footprint = Footprint::of(place);
    Identity::of(up.id().cast_signed())
        .unwrap()
        .unwrap()
        .signal(signal)
        .unwrap();
    assert!(!up.wait().unwrap().success(), "the interruption came too late");
    footprint
}

#[test]
fn an_interrupted_up_leaves_nothing() {
    let place = Place::new("interrupted");
    interrupted(&place, Signal::INT, "containerd-node-2").assert_gone();
    interrupted(&place, Signal::TERM, "kube-proxy").assert_gone();
}

#[test]
fn a_killed_up_leaves_nothing_that_down_does_not_end() {
    let place = Place::new("cut");
    let footprint = interrupted(&place, Signal::KILL, "kubelet-node-1");
    assert!(
        footprint.processes.iter().any(|process| process.alive().unwrap()),
        "nothing is left to test with"
    );
    place.down();
    footprint.assert_gone();
}
