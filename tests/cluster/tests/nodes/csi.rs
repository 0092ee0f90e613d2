//! Volumes of a CSI driver that runs as SPIFFE's does, and the address where SPIRE's agent looks for kubelet.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use trustplane_cluster::cache::Cache;
use trustplane_cluster::node::{Cluster, spire};
use trustplane_cluster::state::State;
use trustplane_cluster::tools::{Tool, Toolchain};
use trustplane_cluster::wait;

use crate::LIMIT;
use crate::workload::{apply, await_pods, kubectl, pod};

const DRIVER: &str = "csi.spiffe.io";
/// What pods are given, as the node sees it.
const SOCKETS: &str = "/run/spire/agent-sockets";

/// Starts the driver, and a pod that keeps a volume of it.
pub fn start(cluster: &Cluster, state: &State) {
    let images = spire::images(&Cache::locate().unwrap()).unwrap();
    let reference = |key: &str| {
        let image = images.iter().find(|image| image.key == key).unwrap();
        cluster.load_image(&image.archive).unwrap();
        image.reference()
    };
    let (driver, registrar) = (reference("spiffeCsiDriver"), reference("nodeDriverRegistrar"));
    apply(
        cluster,
        &[
            kind(),
            driver_pod(&driver, &registrar),
            user("reader", true),
            user("writer", false),
        ],
    );
    let ready = ["wait", "pod/reader", "--for=condition=Ready", "--timeout=60s"];
    kubectl(cluster, &ready).unwrap();
    fs::write(in_node(state, SOCKETS).join("word"), "sesame").unwrap();
}

/// The pod reads what is in the node's directory and cannot write there; a volume that is not read-only is refused, and a
/// deleted pod leaves no mount.
pub fn volumes_come_and_go(cluster: &Cluster, state: &State) {
    let word = ["exec", "reader", "--", "/probe", "cat", "/api/word"];
    assert_eq!(kubectl(cluster, &word).unwrap(), "sesame");
    let mounts = ["exec", "reader", "--", "/probe", "cat", "/proc/self/mountinfo"];
    assert!(kubectl(cluster, &mounts).unwrap().contains(" /api ro,"));
    wait::until("the refusal", LIMIT, || {
        let events = kubectl(
            cluster,
            &["get", "events", "--field-selector=involvedObject.name=writer"],
        )?;
        Ok(events
            .contains("csi.readOnly must be set to 'true'")
            .then_some(()))
    })
    .unwrap();
    assert_eq!(mounted(state), 1);
    kubectl(cluster, &["delete", "pod", "reader", "writer", "--timeout=60s"]).unwrap();
    assert_eq!(mounted(state), 0);
    assert_eq!(
        fs::read_to_string(in_node(state, SOCKETS).join("word")).unwrap(),
        "sesame"
    );
    apply(cluster, &[user("reader", true)]);
    await_pods(cluster);
    assert_eq!(mounted(state), 1, "what a hard stop finds");
}

/// kubelet of a node that is alone has a certificate for 127.0.0.1, and refuses strangers there.
pub fn kubelet_answers_at_the_loopback_address(cluster: &Cluster, state: &State) {
    let probe = Toolchain::new(&Cache::locate().unwrap())
        .ensure(Tool::Probe)
        .unwrap()
        .join("probe");
    let kubelet = state.process("kubelet-node-1").unwrap().pid();
    let mut get = Command::new("nsenter");
    get.arg(format!("--net=/proc/{kubelet}/ns/net"))
        .arg(probe)
        .args(["get", "-ca"])
        .arg(cluster.control_plane().ca())
        .arg("https://127.0.0.1:10250/pods");
    let output = get.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("401 Unauthorized"), "{said}");
}

/// A path of the node, as the machine sees it.
fn in_node(state: &State, path: &str) -> PathBuf {
    let containerd = state.process("containerd-node-1").unwrap().pid();
    Path::new(&format!("/proc/{containerd}/root")).join(path.trim_start_matches('/'))
}

/// How many volumes of CSI drivers are mounted on the node.
fn mounted(state: &State) -> usize {
    let containerd = state.process("containerd-node-1").unwrap().pid();
    let table = fs::read_to_string(format!("/proc/{containerd}/mountinfo")).unwrap();
    table
        .lines()
        .filter(|line| line.contains("/volumes/kubernetes.io~csi/"))
        .count()
}

fn kind() -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIDriver",
        "metadata": { "name": DRIVER },
        "spec": {
            "attachRequired": false,
            "podInfoOnMount": true,
            "fsGroupPolicy": "None",
            "volumeLifecycleModes": ["Ephemeral"],
        },
    })
}

fn user(name: &str, read_only: bool) -> Value {
    let mut user = pod(name, "node-1", &["pause"]);
    user["spec"]["volumes"] = json!([{ "name": "api", "csi": { "driver": DRIVER, "readOnly": read_only } }]);
    user["spec"]["containers"][0]["volumeMounts"] =
        json!([{ "name": "api", "mountPath": "/api", "readOnly": read_only }]);
    user
}

/// The driver and its registrar, with the flags and mounts of upstream's manifests.
fn driver_pod(driver: &str, registrar: &str) -> Value {
    let place = |name: &str, path: &str| json!({ "name": name, "hostPath": { "path": path, "type": "DirectoryOrCreate" } });
    let plugin = format!("/var/lib/kubelet/plugins/{DRIVER}");
    let mut driver_pod = pod("driver", "node-1", &[]);
    driver_pod["spec"]["volumes"] = json!([
        place("sockets", SOCKETS),
        place("plugin", &plugin),
        place("pods", "/var/lib/kubelet/pods"),
        place("registry", "/var/lib/kubelet/plugins_registry"),
    ]);
    driver_pod["spec"]["containers"] = json!([
        {
            "name": "spiffe-csi-driver",
            "image": driver,
            "args": ["-workload-api-socket-dir", "/sockets", "-plugin-name", DRIVER, "-csi-socket-path", "/plugin/csi.sock"],
            "env": [{ "name": "MY_NODE_NAME", "valueFrom": { "fieldRef": { "fieldPath": "spec.nodeName" } } }],
            "securityContext": { "privileged": true },
            "volumeMounts": [
                { "name": "sockets", "mountPath": "/sockets", "readOnly": true },
                { "name": "plugin", "mountPath": "/plugin" },
                { "name": "pods", "mountPath": "/var/lib/kubelet/pods", "mountPropagation": "Bidirectional" },
            ],
        },
        {
            "name": "node-driver-registrar",
            "image": registrar,
            "args": ["-csi-address", "/plugin/csi.sock", "-kubelet-registration-path", format!("{plugin}/csi.sock"),
                "-health-port", "9809"],
            "readinessProbe": { "httpGet": { "path": "/healthz", "port": 9809 }, "periodSeconds": 1 },
            "volumeMounts": [
                { "name": "plugin", "mountPath": "/plugin" },
                { "name": "registry", "mountPath": "/registration" },
            ],
        },
    ]);
    driver_pod
}
