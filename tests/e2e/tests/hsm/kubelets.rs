//! The real kubelets are stopped and started: one under the token, and one whose node then has no discovery.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;

use trustplane_api::hsm::conditions::phase;
use trustplane_cluster::node::Node;
use trustplane_e2e::say;

use crate::devices::MOVED;
use crate::stage::{Pod, Stage};

const POOL: &str = "pico-pool";

/// The node `lost` loses its discovery, and the pool is partial; then the kubelet of the node that has the token restarts.
pub fn come_and_go(stage: &Stage<'_>, lost: &Node, holder: &Node) {
    let value = ["write", "demo/pico", "--from-literal", "password=battery-staple"];
    let written = stage.test(&["pico"], &value);
    assert!(written.status.success(), "{written:?}");
    let agent = stage.pod(MOVED).unwrap();
    let discovery = stage.discovery_on("pico", &holder.name());

    let gone = stage.discovery_on("pico", &lost.name());
    stage.cluster.stop_kubelet(lost).unwrap();
    // Its container goes on, but nobody starts another one.
    say(&mut stage.kubectl(&["delete", "pod", &gone.name, "--force", "--grace-period=0"])).unwrap();
    stage.pool_is(POOL, phase::PARTIAL);
    is_read(stage);

    let plugins = plugins(holder);
    stage.cluster.stop_kubelet(holder).unwrap();
    stage.cluster.start_kubelet(holder).unwrap();
    // Kubelet forgets its plugins when it starts, and removes their sockets.
    stage.until("all plugins to register again", || {
        let now = self::plugins(holder);
        let is_new = |(name, socket): (&String, &Socket)| plugins.get(name).is_some_and(|old| old != socket);
        (now.len() == plugins.len() && now.iter().all(is_new)).then_some(())
    });
    stage.is_offered(&holder.name(), &["2", "1", "1"]);
    // It knows of its pods a moment after it has registered, and runs nothing in them before.
    let pods = format!("/api/v1/nodes/{}/proxy/pods", holder.name());
    stage.until("kubelet to know of the agent", || {
        let known = say(&mut stage.kubectl(&["get", "--raw", &pods])).ok()?;
        known.contains(&agent.uid).then_some(())
    });
    assert_is_same(&stage.discovery_on("pico", &holder.name()), &discovery);
    stage.pool_is(POOL, phase::PARTIAL);
    assert_is_same(&stage.pod(MOVED).unwrap(), &agent);
    is_read(stage);

    // Kubelet hands out the token as before.
    say(&mut stage.kubectl(&["delete", "pod", &agent.name, "--wait=false"])).unwrap();
    stage.cluster.start_kubelet(lost).unwrap();
    stage.until("another pod with the token", || {
        let pod = stage.pod(MOVED)?;
        (pod.uid != agent.uid && pod.ready && pod.node == holder.name()).then_some(())
    });
    stage.pool_is(POOL, phase::READY);
    assert_ne!(stage.discovery_on("pico", &lost.name()).uid, gone.uid);
}

pub fn assert_is_same(now: &Pod, before: &Pod) {
    assert_eq!(
        (&now.uid, now.restarts),
        (&before.uid, before.restarts),
        "{} was replaced",
        before.name
    );
}

/// The token is read where it is, by the tool of its agent.
fn is_read(stage: &Stage<'_>) {
    let read = stage.test(&["pico"], &["read", "demo/pico", "--show"]);
    assert!(
        read.status.success() && read.out.contains("battery-staple"),
        "{read:?}"
    );
}

/// A socket file: a new one of the same name is another one.
type Socket = (u64, i64, i64);

/// The sockets of our plugins on a node.
fn plugins(node: &Node) -> BTreeMap<String, Socket> {
    let directory = node.state_directory().join("kubelet/device-plugins");
    let files = fs::read_dir(directory).unwrap().flatten();
    let sockets = files.filter_map(|file| {
        let name = file.file_name().into_string().ok()?;
        let is_ours = name.starts_with("hsm.j5t.io") && name.ends_with(".sock");
        let metadata = file.metadata().ok().filter(|_| is_ours)?;
        Some((name, (metadata.ino(), metadata.ctime(), metadata.ctime_nsec())))
    });
    sockets.collect()
}
