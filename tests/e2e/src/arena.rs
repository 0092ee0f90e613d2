//! The cluster that the tests share, one test at a time: they install cluster-wide objects.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;
use tempfile::TempDir;
use trustplane_cluster::cache::{Cache, Lock};
use trustplane_cluster::control_plane;
use trustplane_cluster::node::{self, Cluster, Count, Options};
use trustplane_cluster::tools::{Tool, Toolchain};

use crate::chart::helm;
use crate::scenario::DEFINITION;
use crate::{program, say, xtask};

/// Names the clusters of a test run; without it a cluster is started that stays for the next run.
const VARIABLE: &str = "TRUSTPLANE_TEST_CLUSTER";
const SHARED: &str = "test-shared";

/// Names the kubeconfig of a cluster that is there already; its nodes have the images.
const KUBECONFIG: &str = "TRUSTPLANE_E2E_KUBECONFIG";

/// The kubeconfig of the cluster that somebody lends us, if so.
pub fn borrowed() -> Option<PathBuf> {
    std::env::var_os(KUBECONFIG)
        .filter(|path| !path.is_empty())
        .map(PathBuf::from)
}

/// A cluster with one node and the sample's image, for one test alone.
#[derive(Debug)]
pub struct Arena {
    /// None where somebody lends us a cluster.
    own: Option<Own>,
    kubectl: PathBuf,
    kubeconfig: PathBuf,
    plugin: PathBuf,
    home: TempDir,
    _turn: Lock,
}

impl Arena {
    /// Waits for its turn; starts the cluster and makes the image if nobody did before.
    pub fn enter() -> Result<Self> {
        Self::with("e2e", Count::One)
    }

    /// The same with a cluster of two nodes, which goes with the value: it would take time from the others.
    pub fn of_two_nodes() -> Result<Self> {
        Self::with("e2e-two", Count::Two)
    }

    fn with(kind: &str, nodes: Count) -> Result<Self> {
        let cache = Cache::locate()?;
        let run = std::env::var(VARIABLE).ok().filter(|name| !name.is_empty());
        let name = format!("{}-{kind}", run.as_deref().unwrap_or(SHARED));
        let turn = Lock::wait(&cache.clusters().join(format!(".{name}.turn")), "the e2e cluster")?;
        let (own, kubeconfig) = match borrowed() {
            Some(kubeconfig) => (None, kubeconfig),
            None => {
                let own = Own::up(name, nodes, run.is_some())?;
                let kubeconfig = own.cluster.control_plane().kubeconfig();
                (Some(own), kubeconfig)
            }
        };
        let arena = Self {
            own,
            kubectl: Toolchain::new(&cache).ensure(Tool::Kubernetes)?.join("kubectl"),
            kubeconfig,
            plugin: program("kubectl-trustplane")?,
            home: tempfile::tempdir().context("make a home for helm")?,
            _turn: turn,
        };
        if nodes == Count::One {
            arena.load("sample-manager")?;
        }
        arena
            .remove_definitions()
            .context("clear away what an interrupted test left")?;
        Ok(arena)
    }

    /// Makes an image and loads it into the node. The nodes of a cluster that somebody lends us have the images.
    pub fn load(&self, image: &str) -> Result<()> {
        match &self.own {
            Some(own) => own.load(image).with_context(|| format!("make the image {image}")),
            None => Ok(()),
        }
    }

    /// The address of this machine that pods reach; none where somebody lends us a cluster, which may be anywhere.
    pub fn machine_address(&self) -> Option<Ipv4Addr> {
        self.own.as_ref().map(|own| own.cluster.machine_address())
    }

    /// The cluster with its nodes; none where somebody lends us one.
    pub fn cluster(&self) -> Option<&Cluster> {
        self.own.as_ref().map(|own| &own.cluster)
    }

    /// `kubectl` as a user who may do everything.
    pub fn kubectl(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.kubectl);
        command.arg("--kubeconfig").arg(&self.kubeconfig).args(arguments);
        command
    }

    /// Makes an object in a namespace, or changes it.
    pub fn apply(&self, namespace: &str, object: &Value) -> Result<()> {
        let file = tempfile::NamedTempFile::new().context("make a file for a manifest")?;
        fs::write(file.path(), object.to_string()).context("write a manifest")?;
        let mut apply = self.kubectl(&["--namespace", namespace, "apply", "--server-side", "--filename"]);
        say(apply.arg(file.path())).map(drop)
    }

    /// What `kubectl` answers as JSON.
    pub fn read(&self, arguments: &[&str]) -> Result<Value> {
        let text = say(self.kubectl(arguments).args(["--output", "json"]))?;
        serde_json::from_str(&text).context("understand what kubectl said")
    }

    /// `helm` on this cluster.
    pub fn helm(&self, arguments: &[&str]) -> Result<Command> {
        let mut command = helm()?;
        command
            .args(arguments)
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .env("HOME", self.home.path());
        Ok(command)
    }

    /// `kubectl trustplane` on this cluster, as a user who may do everything.
    pub fn plugin(&self, arguments: &[&str]) -> Command {
        self.plugin_as(&self.kubeconfig, arguments)
    }

    /// `kubectl trustplane` as the user of a kubeconfig.
    pub fn plugin_as(&self, kubeconfig: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.plugin);
        command
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args(arguments)
            .env("NO_COLOR", "1");
        command
    }

    /// The kubeconfig of a user who may do everything.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Removes the sample's CRD, which no uninstall does, and with it its objects: also those that an interrupted test left
    /// with a finalizer and without a controller to take it off.
    pub fn remove_definitions(&self) -> Result<()> {
        let definition = ["get", "crd", DEFINITION, "--ignore-not-found", "--output=name"];
        if say(&mut self.kubectl(&definition))?.is_empty() {
            return Ok(());
        }
        let objects = self.read(&["get", DEFINITION, "--all-namespaces"])?;
        for object in objects["items"].as_array().into_iter().flatten() {
            let name = object["metadata"]["name"].as_str().context("a name")?;
            let namespace = object["metadata"]["namespace"].as_str().context("a namespace")?;
            let bare = r#"--patch={"metadata":{"finalizers":null}}"#;
            let patch = ["patch", DEFINITION, name, "--type=merge", bare];
            say(self.kubectl(&["--namespace", namespace]).args(patch))?;
        }
        say(&mut self.kubectl(&["delete", "crd", DEFINITION, "--timeout=60s"])).map(drop)
    }
}

/// A cluster of our own.
#[derive(Debug)]
struct Own {
    name: String,
    cluster: Cluster,
    /// Whether it lives for one run. It then sees one image of each name; a cluster that stays would keep an old one.
    of_a_run: bool,
    /// Whether it goes with the value.
    goes: bool,
}

impl Drop for Own {
    fn drop(&mut self) {
        if !self.goes {
            return;
        }
        if let Err(error) = control_plane::down(&self.name) {
            #[expect(
                clippy::print_stderr,
                reason = "a destructor has nobody to return an error to"
            )]
            {
                eprintln!("could not end cluster {}: {error:#}", self.name);
            }
        }
    }
}

impl Own {
    fn up(name: String, nodes: Count, of_a_run: bool) -> Result<Self> {
        let options = Options { nodes, owner: None };
        let cluster = node::up(&name, &options)?;
        Ok(Self {
            name,
            cluster,
            of_a_run,
            goes: nodes == Count::Two,
        })
    }

    fn load(&self, image: &str) -> Result<()> {
        let loaded = self.cluster.control_plane().dir().join(format!("{image}-loaded"));
        if self.of_a_run && loaded.exists() {
            return Ok(());
        }
        say(xtask().args(["image", image, "--load", &self.name]))?;
        fs::write(&loaded, "").context("remember that the image is loaded")
    }
}
