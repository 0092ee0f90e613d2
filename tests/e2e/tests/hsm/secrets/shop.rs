//! The namespace of those who use secrets, which knows nothing of tokens.

use std::collections::BTreeMap;
use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use trustplane_cluster::node::PROBE_IMAGE;
use trustplane_e2e::say;

use crate::stage::{Pod, Stage};

/// Its name.
pub const SHOP: &str = "vault-shop";
/// The pod that reads the Secret.
pub const READER: &str = "reader";

/// What a developer does there.
pub struct Shop<'a>(pub &'a Stage<'a>);

impl Shop<'_> {
    /// Makes the namespace. Its pods may do as little as can be.
    pub fn open(&self) {
        let Self(stage) = self;
        say(&mut stage.arena.kubectl(&["create", "namespace", SHOP])).unwrap();
        let restricted = "pod-security.kubernetes.io/enforce=restricted";
        say(&mut stage.arena.kubectl(&["label", "namespace", SHOP, restricted])).unwrap();
    }

    /// Makes an HSMSecret.
    pub fn ask_for(&self, path: &str, name: &str, secret: &str) {
        let Self(stage) = self;
        let object = json!({
            "apiVersion": "hsm.j5t.io/v1alpha1", "kind": "HSMSecret",
            "metadata": {"name": name, "namespace": SHOP},
            "spec": {"hsmPath": path, "secretName": secret, "syncInterval": 5},
        });
        stage.arena.apply(SHOP, &object).unwrap();
    }

    /// Starts a pod on a node that mounts the Secret, and waits until it runs.
    pub fn reader_on(&self, node: &str, secret: &str) -> Pod {
        let Self(stage) = self;
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": READER, "namespace": SHOP},
            "spec": {
                "nodeSelector": {"kubernetes.io/hostname": node},
                "securityContext": {
                    "runAsNonRoot": true, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"},
                },
                "containers": [{
                    "name": "main", "image": PROBE_IMAGE,
                    "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
                    "volumeMounts": [{"name": "db", "mountPath": "/etc/db", "readOnly": true}],
                }],
                "volumes": [{"name": "db", "secret": {"secretName": secret}}],
            },
        });
        stage.arena.apply(SHOP, &pod).unwrap();
        self.run(&["wait", "pod", READER, "--for=condition=Ready", "--timeout=60s"]);
        let pod = stage.pod_in(SHOP, READER);
        assert_eq!(pod.node, node);
        pod
    }

    /// What the pod has in a file.
    pub fn file(&self, key: &str) -> String {
        self.run(&["exec", READER, "--", "/probe", "cat", &format!("/etc/db/{key}")])
    }

    pub fn secret(&self, name: &str) -> Value {
        self.read(&["get", "secret", name])
    }

    pub fn has(&self, secret: &str) -> bool {
        let found = self.run(&["get", "secret", secret, "--ignore-not-found", "--output=name"]);
        !found.is_empty()
    }

    pub fn read(&self, arguments: &[&str]) -> Value {
        let Self(stage) = self;
        let scoped = [&["--namespace", SHOP], arguments].concat();
        stage.arena.read(&scoped).unwrap()
    }

    /// Runs `kubectl` there, and gives what it said.
    pub fn run(&self, arguments: &[&str]) -> String {
        let Self(stage) = self;
        let mut kubectl: Command = stage.arena.kubectl(&[&["--namespace", SHOP], arguments].concat());
        say(&mut kubectl).inspect_err(|_| stage.explain()).unwrap()
    }
}

/// The values of a Secret.
pub fn values(secret: &Value) -> BTreeMap<String, String> {
    let data = secret["data"].as_object().unwrap().iter();
    let decoded = data.map(|(key, value)| {
        let value = STANDARD.decode(value.as_str().unwrap()).unwrap();
        (key.clone(), String::from_utf8(value).unwrap())
    });
    decoded.collect()
}
