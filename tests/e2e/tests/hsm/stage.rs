//! The cluster as the test sees it, by the commands of a person.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use trustplane_api::hsm::names::DEVICE_LABEL;
use trustplane_api::hsm::record::{OFFICER, Outcome, Record};
use trustplane_cluster::node::Cluster;
use trustplane_cluster::wait;
use trustplane_e2e::{Arena, Release, Said, say, try_say};

use crate::devices::TOKENS;

/// How long a pod may take that has to be scheduled and started.
pub const PATIENCE: Duration = Duration::from_secs(90);

pub struct Stage<'a> {
    pub arena: &'a Arena,
    pub cluster: &'a Cluster,
    pub release: &'a Release<'a>,
}

/// A pod that stays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pod {
    pub name: String,
    pub uid: String,
    pub node: String,
    pub address: String,
    pub ready: bool,
    pub restarts: i64,
}

impl Pod {
    fn of(pod: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let status = &pod["status"];
        let conditions = status["conditions"].as_array().into_iter().flatten();
        let mut ready = conditions.filter(|condition| condition["type"] == "Ready");
        let containers = status["containerStatuses"].as_array().into_iter().flatten();
        Self {
            name: text(&pod["metadata"]["name"]),
            uid: text(&pod["metadata"]["uid"]),
            node: text(&pod["spec"]["nodeName"]),
            address: text(&status["podIP"]),
            ready: ready.any(|condition| condition["status"] == "True"),
            restarts: containers
                .filter_map(|container| container["restartCount"].as_i64())
                .sum(),
        }
    }
}

impl Stage<'_> {
    pub fn kubectl(&self, arguments: &[&str]) -> Command {
        self.arena
            .kubectl(&[&["--namespace", TOKENS], arguments].concat())
    }

    pub fn read(&self, arguments: &[&str]) -> Value {
        self.arena
            .read(&[&["--namespace", TOKENS], arguments].concat())
            .unwrap()
    }

    pub fn apply(&self, object: &Value) {
        self.arena.apply(TOKENS, object).unwrap();
    }

    /// Puts a PIN into a Secret.
    pub fn pin(&self, secret: &str, pin: &str) {
        self.apply(&json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": secret, "namespace": TOKENS},
            "stringData": {"pin": pin},
        }));
    }

    /// Waits, and says what the cluster says if it was in vain.
    pub fn until<T>(&self, what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
        wait::until(what, PATIENCE, || Ok(condition()))
            .inspect_err(|_| self.explain())
            .unwrap()
    }

    /// The pods with a label that are not about to go.
    pub fn pods(&self, selector: &str) -> Vec<Pod> {
        let pods = self.read(&["get", "pods", &format!("--selector={selector}")]);
        let pods = pods["items"].as_array().into_iter().flatten();
        let staying = pods.filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        staying.map(Pod::of).collect()
    }

    /// The pod of an agent.
    pub fn pod(&self, agent: &str) -> Option<Pod> {
        self.pods(&format!("app={agent}")).into_iter().next()
    }

    /// A pod of another namespace.
    pub fn pod_in(&self, namespace: &str, name: &str) -> Pod {
        let pod = ["--namespace", namespace, "get", "pod", name];
        Pod::of(&self.arena.read(&pod).unwrap())
    }

    /// The pods of discovery for an HSMDevice.
    pub fn discovery(&self, device: &str) -> Vec<Pod> {
        self.pods(&format!(
            "app.kubernetes.io/component=discovery,{DEVICE_LABEL}={device}"
        ))
    }

    /// The one of them on a node.
    pub fn discovery_on(&self, device: &str, node: &str) -> Pod {
        let mut here = self.discovery(device).into_iter().filter(|pod| pod.node == node);
        here.next().expect("a discovery pod on the node")
    }

    pub fn agent_serves(&self, agent: &str, node: &str) {
        self.until(&format!("{agent} to serve on {node}"), || {
            let mut pods = self.pods(&format!("app={agent}")).into_iter();
            pods.find(|pod| pod.node == node && pod.ready)
        });
    }

    /// What an agent has written down.
    pub fn record(&self, agent: &str) -> Record {
        let map = self.read(&["get", "configmap", agent]);
        let data: BTreeMap<String, String> = serde_json::from_value(map["data"].clone()).unwrap_or_default();
        Record::read(&data).unwrap()
    }

    /// What came of the tries of the user's PINs that an agent has written down.
    pub fn tries(&self, agent: &str) -> Vec<Outcome> {
        let record = self.record(agent);
        let tries = record.tries.iter().filter(|tried| tried.secret != OFFICER);
        tries.map(|tried| tried.outcome).collect()
    }

    /// What kubelet offers: how many tokens of the type, and of each token.
    pub fn offer(&self, node: &str, what: &str) -> Vec<String> {
        let node = self.read(&["get", "node", node]);
        let all = node["status"][what].as_object().unwrap();
        let tokens = all
            .iter()
            .filter(|(name, _)| name.starts_with("hsm.j5t.io/token-"));
        let tokens = tokens.map(|(_, count)| count);
        let counts = all.get("hsm.j5t.io/picohsm").into_iter().chain(tokens);
        counts.map(|count| count.as_str().unwrap().to_owned()).collect()
    }

    /// Waits for kubelet to have tokens and to hand them out.
    pub fn is_offered(&self, node: &str, counts: &[&str]) {
        for what in ["capacity", "allocatable"] {
            self.until(&format!("the {what} of {node} to be {counts:?}"), || {
                (self.offer(node, what) == counts).then_some(())
            });
        }
    }

    /// Waits for a condition of a pool to be true, and gives its message.
    pub fn pool_says(&self, pool: &str, condition: &str) -> String {
        self.until(&format!("{pool} to say {condition}"), || {
            let pool = self.read(&["get", "hsmpool", pool]);
            let conditions = pool["status"]["conditions"].as_array()?;
            let found = conditions.iter().find(|found| found["type"] == condition)?;
            let is_true = found["status"] == "True" && found["reason"] == condition;
            is_true.then(|| found["message"].as_str().unwrap_or_default().to_owned())
        })
    }

    /// Waits for the phase of a pool.
    pub fn pool_is(&self, pool: &str, phase: &str) {
        self.until(&format!("{pool} to be {phase}"), || {
            let found = self.read(&["get", "hsmpool", pool]);
            (found["status"]["phase"] == phase).then_some(())
        });
    }

    /// Waits for an event on an HSMDevice.
    pub fn is_told(&self, device: &str, reason: &str) {
        let about = format!(
            "--field-selector=involvedObject.kind=HSMDevice,involvedObject.name={device},reason={reason}"
        );
        self.until(&format!("the event {reason} on {device}"), || {
            let events = self.read(&["get", "events", &about]);
            events["items"]
                .as_array()
                .is_some_and(|events| !events.is_empty())
                .then_some(())
        });
    }

    /// `kubectl trustplane hsm test` on a token.
    pub fn test(&self, device: &[&str], action: &[&str]) -> Said {
        let command = [&["hsm", "test", "--namespace", TOKENS], device, &["--"], action].concat();
        try_say(&mut self.arena.plugin(&command)).unwrap()
    }

    pub fn stores_and_reads_back(&self) {
        let token = ["softhsm", "--token", "a"];
        let written = self.test(
            &token,
            &["write", "demo/db", "--from-literal", "password=correct-horse"],
        );
        assert!(written.status.success(), "{written:?}");
        let read = self.test(&token, &["read", "demo/db", "--show"]);
        assert!(
            read.status.success() && read.out.contains("correct-horse"),
            "{read:?}"
        );
    }

    pub fn explain(&self) {
        self.release.explain();
        for question in [
            &["get", "pods,hsmpools,daemonsets,deployments", "--output=wide"][..],
            &["get", "hsmpools,configmaps", "--output=yaml"][..],
            &["get", "events", "--sort-by=.lastTimestamp"][..],
            &["get", "hsmsecrets", "--all-namespaces", "--output=yaml"][..],
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

/// The process of a command in a pod, which has to be there.
pub fn process_of(pod: &str, command: &str) -> u32 {
    find_process(pod, command).expect("a pod has a process")
}

/// The one process of a command in a pod, which its control groups name.
pub fn find_process(pod: &str, command: &str) -> Option<u32> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let mut found = processes.filter_map(|entry| {
        let process: u32 = entry.file_name().to_str()?.parse().ok()?;
        let groups = fs::read_to_string(entry.path().join("cgroup")).ok()?;
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        let is_it = line
            .split(|byte| *byte == 0)
            .next()?
            .ends_with(command.as_bytes());
        (groups.contains(pod) && is_it).then_some(process)
    });
    let process = found.next();
    assert_eq!(found.next(), None, "a pod has one process");
    process
}
