//! The steps from nothing to a cluster with nodes, in the order that also makes the way back safe: what is recorded later
//! is removed earlier, so kubelets end before pods, pods before the API server, and that before the containerds.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use super::images::Archives;
use super::member::{Node, REPLACED};
use super::network::{self, Network};
use super::{Cluster, Count, NOTE, Record, command, control_group, dns, settings};
use crate::cache::Cache;
use crate::control_plane::{self, ControlPlane};
use crate::daemon::Daemon;
use crate::identity::Identity;
use crate::kubeconfig;
use crate::pki::Authority;
use crate::resource::Resource;
use crate::site::{Construction, Site};

const REQUEST_LIMIT: Duration = Duration::from_secs(60);

/// Makes a cluster. When it fails, dropping the construction removes what was made.
pub(super) fn build(
    mut construction: Construction,
    cache: &Cache,
    nodes: Count,
    archives: &Archives,
) -> Result<Cluster> {
    let dir = construction.dir();
    refuse_hidden(&fs::canonicalize(&dir).context("find the cluster's directory")?)?;
    let id = identifier(&dir, construction.name().as_str());
    let mut clock = Clock::start();

    let network = Network::build(&mut construction, &id)?;
    construction.note(
        NOTE,
        &Record {
            nodes,
            network: network.clone(),
        },
    )?;
    clock.lap("network");

    let members = nodes.of(&dir);
    start_containerds(&mut construction, &network, &members, archives)?;
    clock.lap("containerd");

    let control_plane = ControlPlane::build(&mut construction, cache, &control_plane_options(&network))?;
    // From here on the machine itself sends to the cluster.
    network.verify()?;
    clock.lap("control plane");

    let group = group(&id);
    let kubelets = start_kubelets(&mut construction, &network, &control_plane, &members, &group)?;
    start_kube_proxy(&mut construction, &network, &control_plane, &members)?;
    let mut cluster = Cluster {
        site: Site::new(cache, construction.name().clone()),
        control_plane,
        record: Record { nodes, network },
        timings: Vec::new(),
    };
    // Loading takes about as long as kubelet needs to register.
    load_all(&construction, &members, &archives.coredns)?;
    for (node, kubelet) in members.iter().zip(&kubelets) {
        node.await_kubelet(&construction, kubelet, || is_ready(&cluster, node))?;
    }
    clock.lap("nodes");

    dns::start(&cluster, &archives.probe_binary)?;
    clock.lap("dns");
    cluster.timings = clock.laps;
    construction.finish()?;
    Ok(cluster)
}

/// A node sees its own directories in these places, and would not see the cluster's below them.
fn refuse_hidden(dir: &Path) -> Result<()> {
    if let Some(hidden) = REPLACED.iter().find(|hidden| dir.starts_with(hidden)) {
        bail!(
            "{} lies below {hidden}, which nodes cannot see: set TRUSTPLANE_CACHE to another place",
            dir.display()
        );
    }
    Ok(())
}

/// A name that no other cluster on the machine has, also when caches hold clusters of the same name.
fn identifier(dir: &Path, name: &str) -> String {
    let hash = Sha256::digest(dir.as_os_str().as_encoded_bytes());
    let suffix: String = hash.iter().take(3).map(|byte| format!("{byte:02x}")).collect();
    format!("{name}-{suffix}")
}

/// The control group of all pods of a cluster.
fn group(id: &str) -> String {
    format!("trustplane-{id}")
}

/// Starts the kubelet of a node once more, with the directories that it had.
pub(super) fn start_kubelet_again(
    construction: &mut Construction,
    cluster: &Cluster,
    node: &Node,
) -> Result<()> {
    let id = identifier(&construction.dir(), construction.name().as_str());
    let network = &cluster.record.network;
    node.start_kubelet(construction, network, &cluster.control_plane, &group(&id))
        .map(drop)
}

fn start_containerds(
    construction: &mut Construction,
    network: &Network,
    nodes: &[Node],
    archives: &Archives,
) -> Result<()> {
    // Shims leave their containerd, but not the marker that they inherit from it.
    construction.record(Resource::Descendants)?;
    let mut containerds = Vec::new();
    for node in nodes {
        containerds.push(node.start_containerd(construction, network)?);
    }
    for (node, containerd) in nodes.iter().zip(&containerds) {
        node.await_containerd(construction, containerd)?;
        node.import(containerd, &archives.probe)?;
    }
    Ok(())
}

/// The API server listens on the inner end of the link, which is one and the same for the machine, nodes and pods.
fn control_plane_options(network: &Network) -> control_plane::Options {
    control_plane::Options {
        bind: network.inner.into(),
        advertise: network.inner.into(),
        wrapper: network.wrapper(),
        service_range: network::SERVICE_RANGE.into(),
        ..control_plane::Options::default()
    }
}

fn start_kubelets(
    construction: &mut Construction,
    network: &Network,
    control_plane: &ControlPlane,
    nodes: &[Node],
    group: &str,
) -> Result<Vec<Identity>> {
    for path in control_group::directories(group)? {
        construction.record(Resource::ControlGroup { path: path.clone() })?;
        for node in nodes {
            control_group::create(&path.join(node.name()))?;
        }
    }
    nodes
        .iter()
        .map(|node| node.start_kubelet(construction, network, control_plane, group))
        .collect()
}

fn start_kube_proxy(
    construction: &mut Construction,
    network: &Network,
    control_plane: &ControlPlane,
    nodes: &[Node],
) -> Result<()> {
    let dir = construction.dir();
    let user =
        Authority::open(&control_plane.pki(), "ca")?.client("kube-proxy", "system:kube-proxy", None)?;
    let kubeconfig = dir.join("kube-proxy.kubeconfig");
    let name = construction.name().as_str();
    kubeconfig::write(
        &kubeconfig,
        name,
        &control_plane.url(),
        &control_plane.ca(),
        &user,
    )?;
    let first = nodes.first().context("a cluster has a node")?;
    let configuration = dir.join("kube-proxy.json");
    fs::write(
        &configuration,
        settings::kube_proxy(&first.name(), &kubeconfig).to_string(),
    )
    .context("write the configuration of kube-proxy")?;
    let daemon = Daemon::new("kube-proxy", control_plane.kubernetes().join("kube-proxy"))
        .wrapper(network.wrapper())
        .arg("--config")
        .arg(configuration);
    construction.start(&daemon).map(drop)
}

fn load_all(construction: &Construction, nodes: &[Node], archive: &Path) -> Result<()> {
    for node in nodes {
        let containerd = construction
            .state()
            .process(&node.containerd())
            .context("a node has a containerd")?;
        node.import(containerd, archive)?;
    }
    Ok(())
}

fn is_ready(cluster: &Cluster, node: &Node) -> Result<bool> {
    let path = "-o=jsonpath={.status.conditions[?(@.type=='Ready')].status}";
    let mut get = cluster.kubectl();
    get.args(["get", "node", &node.name(), "--ignore-not-found", path]);
    Ok(command::run(&mut get, REQUEST_LIMIT)? == "True")
}

/// Takes the time between steps.
struct Clock {
    last: Instant,
    laps: Vec<(&'static str, Duration)>,
}

impl Clock {
    fn start() -> Self {
        Self {
            last: Instant::now(),
            laps: Vec::new(),
        }
    }

    fn lap(&mut self, step: &'static str) {
        let now = Instant::now();
        self.laps.push((step, now - self.last));
        self.last = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_that_nodes_cannot_see_is_refused_and_equal_names_stay_apart() {
        assert!(refuse_hidden(Path::new("/run/user/0/trustplane/clusters/dev")).is_err());
        refuse_hidden(Path::new("/var/libraries/dev")).unwrap();
        assert_ne!(
            identifier(Path::new("/a/dev"), "dev"),
            identifier(Path::new("/b/dev"), "dev")
        );
    }
}
