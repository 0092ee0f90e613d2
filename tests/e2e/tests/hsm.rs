//! Tokens on two real nodes: those of SoftHSM that a device names, and one that kubelet hands out as a USB device, which moves
//! from node to node. The bus is a directory of files on each node; everything else is real.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test stops at the first surprise, and tells what it saw"
)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use trustplane_cluster::wait;
use trustplane_e2e::chart::Chart;
use trustplane_e2e::{Arena, Release, say, try_say};
use trustplane_testkit::canary::{Canary, Search};

/// The release and its namespace.
const NAME: &str = "plane";
/// Where the tokens are.
const TOKENS: &str = "tokens";
/// The user of agents.
const USER: u32 = 65532;
/// How long a pod may take that has to be scheduled and started.
const PATIENCE: Duration = Duration::from_secs(90);
const SERIAL: &str = "DC6A33145E23A42A";
const MOVED: &str = "hsm-agent-pico-dc6a33145e23a42a";

#[test]
fn tokens_are_found_served_and_followed() {
    let arena = Arena::of_two_nodes().unwrap();
    let Some(nodes) = arena.nodes() else {
        eprintln!(
            "not run: the buses and tokens are directories of our own nodes; run it without --kubeconfig"
        );
        return;
    };
    for image in ["manager", "agent", "discovery"] {
        arena.load(image).unwrap();
    }
    let buses: Vec<Bus> = nodes
        .iter()
        .map(|node| Bus::new(&node.state_directory()))
        .collect();
    let release = Release::named(&arena, NAME).unwrap();
    say(&mut arena.kubectl(&["create", "namespace", TOKENS])).unwrap();
    // They have directories and devices of the node.
    say(&mut arena.kubectl(&[
        "label",
        "namespace",
        TOKENS,
        "pod-security.kubernetes.io/enforce=privileged",
    ]))
    .unwrap();
    release
        .install(
            &Chart::of_the_product().unwrap(),
            &[
                &format!("capabilities.hsm.namespaces={{{TOKENS}}}"),
                "capabilities.hsm.enabled=true",
                "hsm.hostDirectories={/var/lib/softhsm}",
                "deployment.extraArgs={--hsm-sysfs-path=/var/lib/usb/sys,--hsm-dev-path=/var/lib/usb/dev,--hsm-agent-user=65532}",
            ],
        )
        .unwrap();
    let stage = Stage {
        arena: &arena,
        release: &release,
    };
    let pin = Canary::new("pin");
    stage.pin(&pin);
    for token in ["a", "b", "pico"] {
        nodes[0].make_room_for_token(token, USER).unwrap();
    }
    stage.apply(&static_device());
    stage.agent_serves("hsm-agent-softhsm-a", "node-1");
    stage.agent_serves("hsm-agent-softhsm-b", "node-1");
    stage.stores_and_reads_back();

    buses[0].plug(7);
    stage.apply(&usb_device());
    stage.agent_serves(MOVED, "node-1");
    assert_eq!(stage.capacity("node-1"), [json!("1"), json!("1")]);
    let pod = stage.pod(MOVED);

    // Plugged in again: another number, and so another pod.
    buses[0].unplug();
    buses[0].plug(8);
    wait::until("the pod to be replaced", PATIENCE, || {
        Ok((stage.pod(MOVED).is_some_and(|now| Some(now) != pod)).then_some(()))
    })
    .unwrap();
    stage.agent_serves(MOVED, "node-1");

    buses[0].unplug();
    let [from, to] = [0, 1].map(|node: usize| nodes[node].state_directory().join("softhsm/pico"));
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    say(Command::new("cp").arg("--archive").arg(&from).arg(&to)).unwrap();
    fs::remove_dir_all(&from).unwrap();
    buses[1].plug(3);
    stage.agent_serves(MOVED, "node-2");
    stage.discovery_may_report_and_nothing_else();
    stage.holds_nowhere(&pin);

    for device in ["pico", "softhsm"] {
        say(&mut stage.kubectl(&["delete", "hsmdevice", device, "--timeout=60s"])).unwrap();
    }
    wait::until("everything of the devices to go", PATIENCE, || {
        let kinds = "hsmpools,daemonsets,deployments,pods,roles,rolebindings";
        let left = say(&mut stage.kubectl(&["get", kinds, "--output=name"]))?;
        let ours = left
            .lines()
            .filter(|line| line.contains("pico") || line.contains("softhsm"));
        Ok(ours.count().eq(&0).then_some(()))
    })
    .inspect_err(|_| stage.explain())
    .unwrap();
}

struct Stage<'a> {
    arena: &'a Arena,
    release: &'a Release<'a>,
}

impl Stage<'_> {
    fn kubectl(&self, arguments: &[&str]) -> Command {
        self.arena
            .kubectl(&[&["--namespace", TOKENS], arguments].concat())
    }

    fn read(&self, arguments: &[&str]) -> Value {
        self.arena
            .read(&[&["--namespace", TOKENS], arguments].concat())
            .unwrap()
    }

    fn apply(&self, object: &Value) {
        self.arena.apply(TOKENS, object).unwrap();
    }

    fn pin(&self, pin: &Canary) {
        self.apply(&json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "pin", "namespace": TOKENS},
            "stringData": {"pin": pin.value()},
        }));
    }

    fn agent_serves(&self, agent: &str, node: &str) {
        wait::until(&format!("{agent} to serve on {node}"), PATIENCE, || {
            let selector = format!("--selector=app={agent}");
            let pods = self.read(&["get", "pods", &selector]);
            let serves = pods["items"].as_array().into_iter().flatten().any(|pod| {
                let ready = pod["status"]["conditions"].as_array().into_iter().flatten();
                let mut ready = ready.filter(|condition| condition["type"] == "Ready");
                pod["metadata"]["deletionTimestamp"].is_null()
                    && pod["spec"]["nodeName"] == node
                    && ready.any(|condition| condition["status"] == "True")
            });
            Ok(serves.then_some(()))
        })
        .inspect_err(|_| self.explain())
        .unwrap();
    }

    fn pod(&self, agent: &str) -> Option<Value> {
        let pods = self.read(&["get", "pods", &format!("--selector=app={agent}")]);
        let pods = pods["items"].as_array().cloned().unwrap_or_default();
        let mut alive = pods
            .iter()
            .filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        alive.next().map(|pod| pod["metadata"]["uid"].clone())
    }

    /// What kubelet offers: tokens of the type, and this token.
    fn capacity(&self, node: &str) -> [Value; 2] {
        let node = self.read(&["get", "node", node]);
        let capacity = &node["status"]["capacity"];
        let token = capacity.as_object().unwrap().iter();
        let mut token = token.filter(|(name, _)| name.starts_with("hsm.j5t.io/token-"));
        let token = token.next().map(|(_, count)| count.clone()).unwrap_or_default();
        [capacity["hsm.j5t.io/picohsm"].clone(), token]
    }

    fn stores_and_reads_back(&self) {
        let test = |action: &[&str]| {
            let command = [
                &[
                    "hsm",
                    "test",
                    "softhsm",
                    "--namespace",
                    TOKENS,
                    "--token",
                    "a",
                    "--",
                ],
                action,
            ]
            .concat();
            try_say(&mut self.arena.plugin(&command)).unwrap()
        };
        let written = test(&["write", "demo/db", "--from-literal", "password=correct-horse"]);
        assert!(written.status.success(), "{written:?}");
        let read = test(&["read", "demo/db", "--show"]);
        assert!(
            read.status.success() && read.out.contains("correct-horse"),
            "{read:?}"
        );
    }

    /// The policy that ships: a discovery pod may write its own report, and nothing else.
    fn discovery_may_report_and_nothing_else(&self) {
        let pods = self.read(&["get", "pods", "--selector=app.kubernetes.io/component=discovery"]);
        let pods = pods["items"].as_array().unwrap();
        let [one, other] = pods.as_slice() else {
            panic!("a discovery pod on each node: {pods:?}");
        };
        // kubectl reads what it patches, which discovery cannot.
        let account = format!("--serviceaccount={TOKENS}:{NAME}-trustplane-discovery");
        for grant in [
            &["create", "role", "reader", "--verb=get", "--resource=pods"][..],
            &["create", "rolebinding", "reader", "--role=reader", &account][..],
        ] {
            say(&mut self.kubectl(grant)).unwrap();
        }
        let name = |pod: &Value| pod["metadata"]["name"].as_str().unwrap().to_owned();
        let uid = one["metadata"]["uid"].as_str().unwrap();
        let patch = |pod: &Value, patch: Value| {
            let patch = format!("--patch={patch}");
            let mut command = self.kubectl(&["patch", "pod", &name(pod), "--type=merge", &patch]);
            command
                .arg(format!(
                    "--as=system:serviceaccount:{TOKENS}:{NAME}-trustplane-discovery"
                ))
                .arg(format!(
                    "--as-user-extra=authentication.kubernetes.io/pod-name={}",
                    name(one)
                ))
                .arg(format!(
                    "--as-user-extra=authentication.kubernetes.io/pod-uid={uid}"
                ))
                .arg("--dry-run=server");
            try_say(&mut command).unwrap()
        };
        let annotation = |key: &str| json!({"metadata": {"annotations": {key: "x"}}});
        let report = annotation("hsm.j5t.io/device-report");
        let allowed = patch(one, report.clone());
        assert!(allowed.status.success(), "{allowed:?}");
        for (said, why) in [
            (patch(other, report), "a discovery pod may change itself only"),
            (
                patch(one, annotation("a")),
                "a discovery pod may change its annotation hsm.j5t.io/device-report only",
            ),
            (
                patch(one, json!({"metadata": {"labels": {"a": "b"}}})),
                "a discovery pod may change its annotations only",
            ),
        ] {
            assert!(
                !said.status.success() && said.err.contains(why),
                "{why}: {said:?}"
            );
        }
    }

    /// The PIN is in its Secret, and nowhere else that can be read.
    fn holds_nowhere(&self, pin: &Canary) {
        let mut search = Search::for_canaries([pin]);
        for question in [
            &[
                "get",
                "configmaps,pods,deployments,daemonsets,hsmpools,hsmdevices,events",
                "--output=yaml",
            ][..],
            &[
                "logs",
                "--selector=app.kubernetes.io/component=hsm-agent",
                "--tail=-1",
                "--prefix",
            ][..],
            &[
                "logs",
                "--selector=app.kubernetes.io/component=discovery",
                "--tail=-1",
                "--prefix",
            ][..],
        ] {
            search.text(&question.join(" "), &say(&mut self.kubectl(question)).unwrap());
        }
        search.assert_clean();
    }

    fn explain(&self) {
        self.release.explain();
        for question in [
            &["get", "pods,hsmpools,daemonsets,deployments", "--output=wide"][..],
            &["get", "hsmpools,configmaps", "--output=yaml"][..],
            &["get", "events", "--sort-by=.lastTimestamp"][..],
            &[
                "logs",
                "--selector=app.kubernetes.io/component=hsm-agent",
                "--tail=30",
                "--prefix",
            ][..],
            &[
                "logs",
                "--selector=app.kubernetes.io/component=discovery",
                "--tail=30",
                "--prefix",
            ][..],
        ] {
            let answer = say(&mut self.kubectl(question)).unwrap_or_else(|error| format!("{error:#}"));
            eprintln!("$ kubectl {}\n{answer}", question.join(" "));
        }
    }
}

/// The USB bus of a node, as files.
struct Bus(PathBuf);

impl Bus {
    fn new(state: &Path) -> Self {
        let bus = Self(state.join("usb"));
        for directory in ["sys/bus/usb/devices", "sys/devices", "dev/bus/usb/001"] {
            fs::create_dir_all(bus.0.join(directory)).unwrap();
        }
        bus
    }

    fn plug(&self, number: u8) {
        // Kubelet hands out device files only: this one takes everything and gives nothing.
        let file = self.0.join(format!("dev/bus/usb/001/{number:03}"));
        say(Command::new("mknod").arg(&file).args(["c", "1", "3"])).unwrap();
        let device = self.0.join("sys/devices/1-1");
        fs::create_dir_all(&device).unwrap();
        for (name, content) in [
            ("idVendor", "20a0"),
            ("idProduct", "4230"),
            ("serial", SERIAL),
            ("manufacturer", "Pol Henarejos"),
            ("product", "Pico HSM"),
            ("busnum", "1"),
            ("devnum", &number.to_string()),
        ] {
            fs::write(device.join(name), format!("{content}\n")).unwrap();
        }
        symlink("../../../devices/1-1", self.0.join("sys/bus/usb/devices/1-1")).unwrap();
    }

    fn unplug(&self) {
        fs::remove_file(self.0.join("sys/bus/usb/devices/1-1")).unwrap();
        fs::remove_dir_all(self.0.join("sys/devices/1-1")).unwrap();
        for file in fs::read_dir(self.0.join("dev/bus/usb/001")).unwrap() {
            fs::remove_file(file.unwrap().path()).unwrap();
        }
    }
}

fn static_device() -> Value {
    let token = |name: &str| {
        json!({
            "name": name, "nodeName": "node-1", "tokenLabel": name,
            "environment": [{"name": "SOFTHSM2_CONF", "value": format!("/var/lib/softhsm/{name}/softhsm2.conf")}],
            "hostDirectories": [{"path": format!("/var/lib/softhsm/{name}")}],
        })
    };
    json!({
        "apiVersion": "hsm.j5t.io/v1alpha1", "kind": "HSMDevice",
        "metadata": {"name": "softhsm", "namespace": TOKENS},
        "spec": {
            "deviceType": "SoftHSM",
            "discovery": {"static": [token("a"), token("b")]},
            "pkcs11": {
                "libraryPath": "/usr/lib/softhsm/libsofthsm2.so", "autoProvision": true,
                "pinSecret": {"name": "pin", "key": "pin"},
            },
        },
    })
}

/// The token behind the device is one of SoftHSM: there is no other that needs no hardware. Its files move with the device.
fn usb_device() -> Value {
    json!({
        "apiVersion": "hsm.j5t.io/v1alpha1", "kind": "HSMDevice",
        "metadata": {"name": "pico", "namespace": TOKENS},
        "spec": {
            "deviceType": "PicoHSM",
            "discovery": {"usb": {"vendorId": "20A0", "productId": "4230"}},
            "pkcs11": {
                "libraryPath": "/usr/lib/softhsm/libsofthsm2.so", "autoProvision": true, "tokenLabel": "pico",
                "pinSecret": {"name": "pin", "key": "pin"},
                "environment": [{"name": "SOFTHSM2_CONF", "value": "/var/lib/softhsm/pico/softhsm2.conf"}],
                "hostDirectories": [{"path": "/var/lib/softhsm/pico"}],
            },
        },
    })
}
