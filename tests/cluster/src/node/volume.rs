//! Volumes for claims. A cluster of ours has no storage provisioner: whoever expects a claim makes its volume.

use std::fs;
use std::io::Write;
use std::os::unix::fs::chown;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{Cluster, Node};

/// A claim that is about to be made.
#[derive(Debug, Clone, Copy)]
pub struct Claim<'a> {
    /// Its namespace, which need not exist yet.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// The user of the program that writes to the volume: kubelet gives no directory of a node away.
    pub user: u32,
}

impl Claim<'_> {
    /// The volume: a directory of one node, for this claim and no other.
    fn volume(&self, node: &Node) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": { "name": self.name },
            "spec": {
                "capacity": { "storage": "1Gi" },
                "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain",
                "claimRef": { "namespace": self.namespace, "name": self.name },
                "hostPath": { "path": format!("/var/lib/volumes/{}", self.name), "type": "Directory" },
                "nodeAffinity": { "required": { "nodeSelectorTerms": [{ "matchExpressions": [
                    { "key": "kubernetes.io/hostname", "operator": "In", "values": [node.name()] },
                ] }] } },
            },
        })
    }
}

impl Cluster {
    /// Makes a volume for a claim, empty, on the first node. One of the same name is replaced, with what it holds.
    pub fn make_volume(&self, claim: &Claim<'_>) -> Result<()> {
        let nodes = self.nodes();
        let node = nodes.first().context("a cluster without a node")?;
        self.remove_volume(claim.name)?;
        let directory = node.state_directory().join("volumes").join(claim.name);
        fs::create_dir_all(&directory).with_context(|| format!("create {}", directory.display()))?;
        chown(&directory, Some(claim.user), Some(claim.user))
            .with_context(|| format!("give away {}", directory.display()))?;
        let mut create = self
            .kubectl()
            .args(["create", "--filename", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .context("start kubectl")?;
        let mut input = create.stdin.take().context("speak to kubectl")?;
        input.write_all(claim.volume(node).to_string().as_bytes())?;
        drop(input);
        ensure!(create.wait()?.success(), "the volume {} was not made", claim.name);
        Ok(())
    }

    /// Removes a volume, with what it holds. Its claim must be gone. One that is not there is no error.
    pub fn remove_volume(&self, name: &str) -> Result<()> {
        let mut delete = self.kubectl();
        delete.args([
            "delete",
            "persistentvolume",
            name,
            "--ignore-not-found",
            "--timeout=60s",
        ]);
        let status = delete.stdout(Stdio::null()).status().context("start kubectl")?;
        ensure!(status.success(), "the volume {name} was not removed");
        for node in self.nodes() {
            let directory = node.state_directory().join("volumes").join(name);
            if directory.exists() {
                fs::remove_dir_all(&directory).with_context(|| format!("remove {}", directory.display()))?;
            }
        }
        Ok(())
    }
}
