//! The control planes that tests run on.

mod lent;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use trustplane_cluster::cache::{Cache, Lock};
use trustplane_cluster::control_plane::{self, Component, Options};
use trustplane_cluster::identity::Identity;

pub use lent::Leftovers;

use crate::{DEADLINE, wait_for_some};

/// Names the cluster of the test run; without it the first test that needs one starts one.
const VARIABLE: &str = "TRUSTPLANE_TEST_CLUSTER";

/// The cluster of tests that nobody prepared a cluster for. It stays for the next run;
/// `cargo xtask cluster down --name test-shared` ends it.
const SHARED: &str = "test-shared";

/// How many control planes of their own tests may have at once, over all processes: each takes half a gigabyte.
const POOL: usize = 2;

/// A real control plane, reached with all rights: etcd, API server and controller manager.
#[derive(Debug)]
pub struct ControlPlane {
    cluster: control_plane::ControlPlane,
    config: Config,
    audit_log: PathBuf,
    _hold: Hold,
}

/// What its user holds of a control plane, and gives back with the value.
#[derive(Debug)]
#[allow(dead_code, reason = "held for the sake of what happens when it is dropped")]
enum Hold {
    Shared,
    Own(Tenancy),
    Lent(Lock),
}

impl ControlPlane {
    /// The control plane of this test run. Tests share it, each in a namespace of its own, and leave cluster-scoped
    /// objects alone.
    pub async fn shared() -> Result<Arc<Self>> {
        let cluster = blocking(|| match std::env::var(VARIABLE) {
            Ok(name) if !name.is_empty() => control_plane::ControlPlane::open(&name),
            // `up` gives back the one that runs; its lock makes all but the first of several tests wait.
            _ => control_plane::ControlPlane::up(SHARED, &options()),
        })
        .await
        .context("reach the shared control plane")?;
        Ok(Arc::new(Self::reach(cluster, Hold::Shared).await?))
    }

    /// A fresh control plane for one test that touches what all tests share: cluster-scoped objects, or the API server
    /// itself. It ends with the value; after a kill, `cargo xtask` finds it by its owner and ends it.
    pub async fn own() -> Result<Arc<Self>> {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let (cluster, tenancy) = blocking(move || {
            let (_, slot) = take_slot(&Cache::locate()?, "pool", POOL)?;
            let name = format!("test-{}-{number}", std::process::id());
            let options = Options {
                owner: Some(Identity::own()?),
                ..options()
            };
            let cluster = control_plane::ControlPlane::up(&name, &options)?;
            Ok((cluster, Tenancy { name, _slot: slot }))
        })
        .await
        .context("start a control plane for one test")?;
        Ok(Arc::new(Self::reach(cluster, Hold::Own(tenancy)).await?))
    }

    async fn reach(cluster: control_plane::ControlPlane, hold: Hold) -> Result<Self> {
        let kubeconfig =
            Kubeconfig::read_from(cluster.kubeconfig()).context("read the kubeconfig of the cluster")?;
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .context("understand the kubeconfig of the cluster")?;
        // A retry that the test does not see could hide what it looks for.
        config.default_retry = false;
        Ok(Self {
            audit_log: cluster.audit_log(),
            cluster,
            config,
            _hold: hold,
        })
    }

    /// How clients with all rights reach it.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// A client with all rights. It belongs to the runtime that makes it.
    pub fn client(&self) -> Result<Client> {
        Client::try_from(self.config.clone()).context("make a client")
    }

    /// Its audit log.
    pub fn audit_log(&self) -> &Path {
        &self.audit_log
    }

    /// The cluster behind it.
    pub fn cluster(&self) -> &control_plane::ControlPlane {
        &self.cluster
    }

    /// Installs kinds, and returns when they are served. Every test that needs them does this; the first makes them.
    pub async fn install(&self, kinds: &[CustomResourceDefinition]) -> Result<()> {
        let api: Api<CustomResourceDefinition> = Api::all(self.client()?);
        for kind in kinds {
            let name = kind
                .metadata
                .name
                .as_deref()
                .context("install a kind without a name")?;
            let manager = PatchParams::apply("trustplane-testkit").force();
            api.patch(name, &manager, &Patch::Apply(kind))
                .await
                .with_context(|| format!("install {name}"))?;
            wait_for_some(&api, name, DEADLINE, is_established).await?;
        }
        Ok(())
    }

    /// Ends a component at once, as a crash would. Only on a control plane of one's own.
    pub async fn kill(&self, component: Component) -> Result<()> {
        let cluster = self.cluster.clone();
        blocking(move || cluster.stop(component, Duration::ZERO)).await
    }

    /// Starts a component again, and returns when it is ready. Only on a control plane of one's own.
    pub async fn restart(&self, component: Component) -> Result<()> {
        let cluster = self.cluster.clone();
        blocking(move || cluster.restart(component)).await
    }
}

fn is_established(kind: &CustomResourceDefinition) -> bool {
    let conditions = kind
        .status
        .iter()
        .filter_map(|status| status.conditions.as_ref())
        .flatten();
    conditions
        .into_iter()
        .any(|condition| condition.type_ == "Established" && condition.status == "True")
}

/// The scheduler has nothing to do where there is no node.
fn options() -> Options {
    Options {
        scheduler: false,
        ..Options::default()
    }
}

/// The right to a place in the pool, and the duty to leave it empty.
#[derive(Debug)]
struct Tenancy {
    name: String,
    _slot: Lock,
}

impl Drop for Tenancy {
    fn drop(&mut self) {
        if let Err(error) = control_plane::down(&self.name) {
            tracing::warn!(cluster = self.name, "could not end a control plane: {error:#}");
        }
    }
}

/// Waits for one of so many places, the first that is free, and gives its number.
fn take_slot(cache: &Cache, places: &str, many: usize) -> Result<(usize, Lock)> {
    loop {
        for slot in 0..many {
            let path = cache.clusters().join(format!(".test-{places}-{slot}.lock"));
            if let Some(lock) = Lock::try_take(&path)? {
                return Ok((slot, lock));
            }
        }
        // The test runner's limit for a slow test is the deadline of this wait.
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Does what would keep other tasks of the test waiting on a thread of its own.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .context("a task of the testkit failed")?
}
