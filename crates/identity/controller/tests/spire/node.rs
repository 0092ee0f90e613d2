//! A node without kubelet: the test runs containers as their pods say, on networks, mounts and control groups of their own.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use kube::api::{DynamicObject, PostParams};
use kube::{Api, Client};
use serde_json::Value;
use tempfile::TempDir;
use tokio::task::JoinSet;
use trustplane_cluster::cache::Cache;
use trustplane_cluster::tools::{Tool, Toolchain};
use trustplane_plan::Manifest;
use trustplane_plan::kinds::{CONFIG_MAP, NODE, POD};
use trustplane_testkit::{DEADLINE, Sandbox, wait_for_some};

use crate::kubelet;
use crate::network::{Network, Target};
use crate::pod::Pod;
use crate::stage::{api, applied};

const NAME: &str = "node-1";
/// Where pods find the API server.
pub const API_PORT: u16 = 6443;

/// The programs: which image has which file, and what its entrypoint says after it.
pub struct Images {
    spire: PathBuf,
    controller_manager: PathBuf,
}

impl Images {
    /// SPIRE and its controller-manager, which are built first if they have to be.
    pub async fn built() -> Result<Self> {
        let build = || {
            let tools = Toolchain::new(&Cache::locate()?);
            Ok(Self {
                spire: tools.ensure(Tool::Spire)?,
                controller_manager: tools.ensure(Tool::SpireControllerManager)?,
            })
        };
        tokio::task::spawn_blocking(build).await?
    }

    /// A program of SPIRE on the machine.
    pub fn program(&self, name: &str) -> PathBuf {
        self.spire.join(name)
    }

    /// The programs, and where they are in their images.
    pub fn files(&self) -> [(&Path, &'static str); 2] {
        [
            (&self.spire, "/opt/spire/bin"),
            (&self.controller_manager, "/opt/spire-controller-manager"),
        ]
    }

    /// The entrypoint of an image.
    pub fn entrypoint(&self, image: &str) -> Result<&'static [&'static str]> {
        let name = image.rsplit('/').next().unwrap_or_default();
        Ok(match name.split(':').next().unwrap_or_default() {
            "spire-server" => &["/opt/spire/bin/spire-server", "run"],
            "spire-agent" => &["/opt/spire/bin/spire-agent", "run"],
            "oidc-discovery-provider" => &["/opt/spire/bin/oidc-discovery-provider"],
            "spire-controller-manager" => &["/opt/spire-controller-manager/spire-controller-manager"],
            _ => anyhow::bail!("no image {image}"),
        })
    }
}

/// The node, and what runs on it.
pub struct Node {
    pub client: Client,
    pub images: Images,
    /// Its uid.
    pub uid: String,
    /// What pods in its network share with it.
    pub network: Arc<Network>,
    pub dir: TempDir,
    server: SocketAddr,
    pods: Arc<Mutex<Vec<Value>>>,
    tasks: Mutex<JoinSet<()>>,
}

impl Node {
    /// Makes the object, and serves the API of kubelet.
    pub async fn new(sandbox: &Sandbox) -> Result<Arc<Self>> {
        let client = sandbox.client();
        let made = applied(&client, &Manifest::new(NODE, None, NAME)).await?;
        let uid = made["metadata"]["uid"].as_str().context("a uid")?.to_owned();
        let server = &sandbox.plane().config().cluster_url;
        let server = server.authority().context("the address of the API server")?;
        let (network, pods) = (Network::new().await?, Arc::new(Mutex::new(Vec::new())));
        let node = Arc::new(Self {
            images: Images::built().await?,
            uid,
            dir: tempfile::tempdir()?,
            server: server.as_str().parse().context("the address of the API server")?,
            network: network.clone(),
            pods: pods.clone(),
            tasks: Mutex::new(JoinSet::new()),
            client: client.clone(),
        });
        node.lead(&network, API_PORT, Target::Machine(node.server))
            .await?;
        let serve = kubelet::serve(network.listen(kubelet::PORT).await?, client, NAME, pods)?;
        node.tasks.lock().unwrap().spawn(serve);
        Ok(node)
    }

    /// Leads what connects to a port of a network to a target.
    pub async fn lead(&self, network: &Network, port: u16, target: Target) -> Result<()> {
        let mut tasks = JoinSet::new();
        network.lead(&mut tasks, port, target).await?;
        self.tasks.lock().unwrap().spawn(async move {
            tasks.join_all().await;
        });
        Ok(())
    }

    /// A directory of the node.
    pub fn directory(&self, path: &str) -> PathBuf {
        self.dir.path().join("host").join(path.trim_start_matches('/'))
    }

    /// Makes a pod on this node. Its containers do not run yet.
    pub async fn admit(self: &Arc<Self>, mut pod: Value) -> Result<Pod> {
        let namespace = pod["metadata"]["namespace"]
            .as_str()
            .context("a namespace")?
            .to_owned();
        let roots: Api<DynamicObject> = api(&self.client, &CONFIG_MAP, &namespace);
        wait_for_some(&roots, "kube-root-ca.crt", DEADLINE, |_| true).await?;
        pod["spec"]["nodeName"] = NAME.into();
        let pods: Api<DynamicObject> = api(&self.client, &POD, &namespace);
        let made = pods
            .create(&PostParams::default(), &serde_json::from_value(pod)?)
            .await;
        let live = serde_json::to_value(made.context("make a pod")?)?;
        let network = match live["spec"]["hostNetwork"].as_bool() {
            Some(true) => self.network.clone(),
            _ => {
                let network = Network::new().await?;
                self.lead(&network, API_PORT, Target::Machine(self.server))
                    .await?;
                network
            }
        };
        let pod = Pod::new(self.clone(), live, network)?;
        self.pods.lock().unwrap().push(pod.told());
        Ok(pod)
    }
}
