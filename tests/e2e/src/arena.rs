//! The cluster that the tests share, one test at a time: they install cluster-wide objects.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;
use trustplane_cluster::cache::{Cache, Lock};
use trustplane_cluster::node::{self, Cluster, Count, Options};

use crate::chart::helm;
use crate::{program, say, xtask};

/// Names the clusters of a test run; without it a cluster is started that stays for the next run.
const VARIABLE: &str = "TRUSTPLANE_TEST_CLUSTER";
const SHARED: &str = "test-shared";

/// A cluster with one node and the sample's image, for one test alone.
#[derive(Debug)]
pub struct Arena {
    cluster: Cluster,
    plugin: PathBuf,
    _turn: Lock,
}

impl Arena {
    /// Waits for its turn; starts the cluster and makes the image if nobody did before.
    pub fn enter() -> Result<Self> {
        let run = std::env::var(VARIABLE).ok().filter(|name| !name.is_empty());
        let name = format!("{}-e2e", run.as_deref().unwrap_or(SHARED));
        let cache = Cache::locate()?;
        let turn = Lock::wait(&cache.clusters().join(format!(".{name}.turn")), "the e2e cluster")?;
        let cluster = node::up(
            &name,
            &Options {
                nodes: Count::One,
                owner: None,
            },
        )?;
        // The cluster of a run sees one image. One that stays would keep an old one.
        let loaded = cluster.control_plane().dir().join("sample-loaded");
        if run.is_none() || !loaded.exists() {
            say(xtask().args(["image", "sample-manager", "--load", &name]))
                .context("make the sample's image")?;
            fs::write(&loaded, "").context("remember that the image is loaded")?;
        }
        let arena = Self {
            cluster,
            plugin: program("kubectl-trustplane")?,
            _turn: turn,
        };
        arena
            .remove_definitions()
            .context("clear away what an interrupted test left")?;
        Ok(arena)
    }

    /// `kubectl` as a user who may do everything.
    pub fn kubectl(&self, arguments: &[&str]) -> Command {
        let mut command = self.cluster.kubectl();
        command.args(arguments);
        command
    }

    /// What `kubectl` answers as JSON.
    pub fn read(&self, arguments: &[&str]) -> Result<Value> {
        let text = say(self.kubectl(arguments).args(["--output", "json"]))?;
        serde_json::from_str(&text).context("understand what kubectl said")
    }

    /// `helm` on this cluster.
    pub fn helm(&self, arguments: &[&str]) -> Result<Command> {
        let mut command = helm()?;
        let home = self.cluster.control_plane().dir();
        command
            .args(arguments)
            .arg("--kubeconfig")
            .arg(self.kubeconfig())
            .env("HOME", home);
        Ok(command)
    }

    /// `kubectl trustplane` on this cluster, as a user who may do everything.
    pub fn plugin(&self, arguments: &[&str]) -> Command {
        self.plugin_as(&self.kubeconfig(), arguments)
    }

    /// `kubectl trustplane` as the user of a kubeconfig.
    pub fn plugin_as(&self, kubeconfig: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.plugin);
        command
            .args(arguments)
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .env("NO_COLOR", "1");
        command
    }

    /// The kubeconfig of a user who may do everything.
    pub fn kubeconfig(&self) -> PathBuf {
        self.cluster.control_plane().kubeconfig()
    }

    /// Removes the CRDs of ours, which no uninstall does, and with them their objects: also those that an interrupted test
    /// left with a finalizer and without a controller to take it off.
    pub fn remove_definitions(&self) -> Result<()> {
        let selector = "--selector=app.kubernetes.io/part-of=trustplane";
        let definitions = self.read(&["get", "crd", selector])?;
        for definition in definitions["items"].as_array().into_iter().flatten() {
            let kind = definition["metadata"]["name"]
                .as_str()
                .context("a CRD has a name")?;
            self.release_all(kind)?;
        }
        say(&mut self.kubectl(&["delete", "crd", selector, "--timeout=60s"])).map(drop)
    }

    fn release_all(&self, kind: &str) -> Result<()> {
        let objects = self.read(&["get", kind, "--all-namespaces"])?;
        for object in objects["items"].as_array().into_iter().flatten() {
            let name = object["metadata"]["name"]
                .as_str()
                .context("an object has a name")?;
            let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
            let bare = r#"--patch={"metadata":{"finalizers":null}}"#;
            say(&mut self.kubectl(&[
                "--namespace",
                namespace,
                "patch",
                kind,
                name,
                "--type=merge",
                bare,
            ]))?;
        }
        Ok(())
    }
}
