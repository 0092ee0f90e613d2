//! A pod on the node of the test.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::network::Network;
use crate::node::Node;

/// How often the control group of a pod is tried to be removed: the kernel lets go of it a moment after its last process.
const TRIES: u32 = 100;

/// A pod on the node.
pub struct Pod {
    pub node: Arc<Node>,
    pub network: Arc<Network>,
    /// What it keeps while it lasts.
    pub dir: PathBuf,
    live: Value,
    group: PathBuf,
    hosts: Mutex<Vec<String>>,
}

impl Pod {
    pub fn new(node: Arc<Node>, live: Value, network: Arc<Network>) -> Result<Self> {
        let uid = live["metadata"]["uid"].as_str().context("a uid")?;
        let dir = node.dir.path().join("pods").join(uid);
        let unified = Path::new("/sys/fs/cgroup/unified");
        let hierarchy = match unified.exists() {
            true => unified,
            false => Path::new("/sys/fs/cgroup"),
        };
        let group = hierarchy.join(format!("trustplane-spire-{}/pod{uid}", std::process::id()));
        Ok(Self {
            node,
            network,
            dir,
            live,
            group,
            hosts: Mutex::default(),
        })
    }

    /// A text in its object.
    pub fn text(&self, pointer: &str) -> &str {
        self.live
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    pub fn namespace(&self) -> &str {
        self.text("/metadata/namespace")
    }

    pub fn metadata(&self) -> &Value {
        &self.live["metadata"]
    }

    pub fn spec(&self) -> &Value {
        &self.live["spec"]
    }

    /// What a token names that is bound to it.
    pub fn reference(&self) -> Value {
        let metadata = self.metadata();
        json!({ "apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"] })
    }

    pub fn containers(&self) -> impl Iterator<Item = &Value> {
        self.spec()["containers"].as_array().into_iter().flatten()
    }

    /// The object as kubelet tells of it while all containers run.
    pub fn told(&self) -> Value {
        let statuses: Value = self
            .containers()
            .map(|container| {
                let (name, image) = (&container["name"], &container["image"]);
                let id = self.container_id(name.as_str().unwrap_or_default());
                json!({
                    "name": name, "image": image, "imageID": image, "containerID": format!("containerd://{id}"),
                    "ready": true, "started": true, "restartCount": 0,
                    "state": { "running": { "startedAt": "2026-01-01T00:00:00Z" } },
                })
            })
            .collect();
        let mut told = self.live.clone();
        told["status"] = json!({ "phase": "Running", "containerStatuses": statuses });
        told
    }

    /// 64 hexadecimal digits of its own.
    fn container_id(&self, container: &str) -> String {
        let uid = self.text("/metadata/uid").replace('-', "");
        let name: String = container.bytes().map(|byte| format!("{byte:02x}")).collect();
        format!("{:0<64.64}", uid + &name)
    }

    /// The control group of a container: the agent tells by it whose process it is.
    pub fn group(&self, container: &str) -> Result<PathBuf> {
        let group = self.group.join(self.container_id(container));
        fs::create_dir_all(&group).context("make a control group")?;
        Ok(group)
    }

    /// The number of a port of one of its containers.
    pub fn port(&self, name: &Value) -> Result<u16> {
        let mut ports = self
            .containers()
            .filter_map(|container| container["ports"].as_array())
            .flatten();
        let mut named = || Some(&ports.find(|port| port["name"] == *name)?["containerPort"]);
        let number = if name.is_u64() { Some(name) } else { named() };
        let number = number
            .and_then(Value::as_u64)
            .with_context(|| format!("no port {name}"))?;
        Ok(u16::try_from(number)?)
    }

    /// The directory of a volume.
    pub fn volume(&self, name: &str) -> PathBuf {
        self.dir.join("volumes").join(name)
    }

    /// Gives a directory or a file to the group of its volumes.
    pub fn give(&self, path: &Path, mode: u32) -> Result<()> {
        if let Some(group) = self.spec()["securityContext"]["fsGroup"].as_u64() {
            chown(path, None, Some(u32::try_from(group)?))?;
        }
        fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
        Ok(())
    }

    /// Lets its containers find a host by name, at the address of loopback.
    pub fn knows_host(&self, name: &str) {
        self.hosts.lock().unwrap().push(name.to_owned());
    }

    /// The file in which its containers look for hosts.
    pub fn hosts(&self) -> String {
        let known = self.hosts.lock().unwrap().join(" ");
        format!("127.0.0.1 localhost {known}\n")
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        for _ in 0..TRIES {
            let groups = fs::read_dir(&self.group).into_iter().flatten().flatten();
            groups.for_each(|group| drop(fs::remove_dir(group.path())));
            if fs::remove_dir(&self.group).is_ok() || !self.group.exists() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        drop(self.group.parent().map(fs::remove_dir));
    }
}
