//! Clusters with nodes: pods run, Services and names resolve, logs and exec work.
//!
//! The whole cluster lives in a network namespace, each node in a mount namespace, all pods in control groups that
//! bear the cluster's name. So two nodes and several clusters stand side by side on one machine and never see each
//! other, and [`crate::site::down`] finds everything again: it ends the kubelets, the pods by their groups, the control
//! plane, the containerds with their shims, and with the last of them the kernel takes away mounts, bridge and filter.
//!
//! Images come from archives ([`crate::image_archive`]); nothing is pulled. Those of SPIRE are made and loaded on demand
//! ([`spire`]). The kubelet of a node that is alone also answers at 127.0.0.1, as SPIRE's agent expects. One kube-proxy speaks for all nodes, so a
//! Service with a `Local` traffic policy sees only the first as local. It needs root.
//!
//! ```no_run
//! use trustplane_cluster::node;
//!
//! let cluster = node::up("dev", &node::Options { nodes: node::Count::Two, owner: None })?;
//! node::load_image("dev", "manager.tar".as_ref())?;
//! cluster.kubectl().args(["get", "nodes"]).status()?;
//! trustplane_cluster::control_plane::down("dev")?;
//! # Ok::<(), anyhow::Error>(())
//! ```

mod assembly;
mod command;
pub(crate) mod control_group;
mod dns;
mod images;
mod member;
mod network;
mod settings;
pub mod spire;
mod volume;

use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::cache::Cache;
use crate::control_plane::ControlPlane;
use crate::identity::Identity;
use crate::site::Site;
use crate::tools::{Tool, Toolchain};

pub use images::PROBE as PROBE_IMAGE;
pub use member::Node;
use network::Network;
pub use volume::Claim;

/// How long a kubelet may take to end.
const KUBELET_GRACE: Duration = Duration::from_secs(10);

/// The name under which the nodes keep their record in the state file.
const NOTE: &str = "nodes";

/// How many nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Count {
    /// One.
    One,
    /// Two, between which pods move and talk.
    Two,
}

impl Count {
    /// The nodes of a cluster, whether they are there or not.
    fn of(self, cluster_dir: &Path) -> Vec<Node> {
        let last = match self {
            Self::One => 1,
            Self::Two => 2,
        };
        (1..=last)
            .map(|number| Node::new(cluster_dir, number, self == Self::One))
            .collect()
    }
}

impl FromStr for Count {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "1" => Ok(Self::One),
            "2" => Ok(Self::Two),
            _ => bail!("a cluster has 1 or 2 nodes, not {text}"),
        }
    }
}

/// How a cluster is to be.
#[derive(Debug, Clone)]
pub struct Options {
    /// How many nodes.
    pub nodes: Count,
    /// The process the cluster lives for; see [`crate::site::down_orphans`].
    pub owner: Option<Identity>,
}

/// What has to be known of the nodes to use them.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Record {
    nodes: Count,
    network: Network,
}

/// A cluster with nodes that is up.
#[derive(Debug, Clone)]
pub struct Cluster {
    site: Site,
    control_plane: ControlPlane,
    record: Record,
    timings: Vec<(&'static str, Duration)>,
}

/// Starts a cluster in the user's cache, or returns the one that runs already with the same options.
pub fn up(name: &str, options: &Options) -> Result<Cluster> {
    up_in(&Cache::locate()?, name, options)
}

/// The same in a cache of the caller's choice.
pub fn up_in(cache: &Cache, name: &str, options: &Options) -> Result<Cluster> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "a cluster with nodes needs root"
    );
    Toolchain::new(cache).ensure_all(&Tool::NODES)?;
    let archives = images::archives(cache)?;
    let site = Site::new(cache, name.parse()?);
    let locked = site.lock()?;
    if locked.running()?.is_some() {
        let running = open_in(cache, name)?;
        let same = running.record.nodes == options.nodes;
        ensure!(
            same,
            "cluster {name} runs with other options: end it first, or choose another name"
        );
        return Ok(running);
    }
    let construction = locked.build(options.owner.clone())?;
    assembly::build(construction, cache, options.nodes, &archives)
}

/// A cluster with nodes that is up in the user's cache.
pub fn open(name: &str) -> Result<Cluster> {
    open_in(&Cache::locate()?, name)
}

/// The same in a cache of the caller's choice.
pub fn open_in(cache: &Cache, name: &str) -> Result<Cluster> {
    let control_plane = ControlPlane::open_in(cache, name)?;
    let site = Site::new(cache, name.parse()?);
    let state = site
        .state()?
        .with_context(|| format!("cluster {name} does not exist"))?;
    let record = state
        .note(NOTE)?
        .with_context(|| format!("cluster {name} has no nodes"))?;
    let cluster = Cluster {
        site,
        control_plane,
        record,
        timings: Vec::new(),
    };
    let stands = cluster.record.network.verify();
    stands.with_context(|| format!("cluster {name} is gone, perhaps by a reboot: start it again"))?;
    Ok(cluster)
}

/// Loads an image archive into every node of a cluster in the user's cache.
pub fn load_image(name: &str, archive: &Path) -> Result<()> {
    open(name)?.load_image(archive)
}

impl Cluster {
    /// Its control plane.
    pub fn control_plane(&self) -> &ControlPlane {
        &self.control_plane
    }

    /// Its nodes.
    pub fn nodes(&self) -> Vec<Node> {
        self.record.nodes.of(&self.site.dir())
    }

    /// The machine's address on the link to the cluster: what listens there can be reached by pods and by the API
    /// server.
    pub fn machine_address(&self) -> Ipv4Addr {
        self.record.network.outer
    }

    /// How long each step of `up` took; nothing for a cluster that was up before.
    pub fn timings(&self) -> &[(&'static str, Duration)] {
        &self.timings
    }

    /// `kubectl` as a user who may do everything.
    pub fn kubectl(&self) -> Command {
        let mut command = Command::new(self.control_plane.kubernetes().join("kubectl"));
        command.arg("--kubeconfig").arg(self.control_plane.kubeconfig());
        // Its cache of discovery documents would go to the home directory.
        command.env("HOME", self.site.dir()).env_remove("KUBECONFIG");
        command
    }

    /// Ends the kubelet of a node, as an upgrade does. Its containers go on.
    pub fn stop_kubelet(&self, node: &Node) -> Result<()> {
        self.site.lock()?.reopen()?.stop(&node.kubelet(), KUBELET_GRACE)
    }

    /// Starts the kubelet of a node that was stopped. The API server may not have noticed that it was gone, so a test waits for
    /// what it wants of it.
    pub fn start_kubelet(&self, node: &Node) -> Result<()> {
        let mut construction = self.site.lock()?.reopen()?;
        assembly::start_kubelet_again(&mut construction, self, node)
    }

    /// Takes the calling thread into the network of the cluster, for good: from there it reaches pods by their addresses.
    pub fn enter_network(&self) -> Result<()> {
        self.record.network.enter()
    }

    /// Loads an image archive into every node. Pods use it with the pull policy `Never` or `IfNotPresent`.
    pub fn load_image(&self, archive: &Path) -> Result<()> {
        let state = self.site.state()?.context("the cluster is gone")?;
        for node in self.nodes() {
            let containerd = state
                .process(&node.containerd())
                .context("a node has a containerd")?;
            node.import(containerd, archive)?;
        }
        Ok(())
    }
}
