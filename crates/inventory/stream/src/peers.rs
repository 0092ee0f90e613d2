//! Which platforms are served, and the tasks that serve them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use trustplane_api::inventory::wire::SnapshotHead;
use trustplane_api::inventory::{DEFAULT_SYNC_INTERVAL, ObsykAgentSpec};
use trustplane_inventory_core::pending::MAX_PENDING;
use trustplane_inventory_core::sender::Settings;
use trustplane_inventory_core::world::SenderId;
use trustplane_kit::queue::{Lane, Queue};
use trustplane_plan::ObjectRef;
use trustplane_process::metrics::Metrics;

use crate::credentials::Credentials;
use crate::metrics::StreamMetrics;
use crate::peer::Peer;
use crate::platform::Platform;
use crate::shared::Shared;

/// The version that platforms are told.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// So many tasks may wait to be begun.
const JOBS: usize = 16;

/// What a platform's task was begun with. What differs here needs a new task; anything else changes while it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Binding {
    platform_url: String,
    cluster_name: String,
    ca_bundle: Option<String>,
    proxy_url: Option<String>,
    /// The uid and the version of the Secret.
    credentials: String,
}

struct Running {
    /// What the agent runs with, as the decision compares it.
    key: String,
    binding: Binding,
    id: SenderId,
    stop: CancellationToken,
}

/// What an agent is to run with.
pub(crate) struct Wanted {
    /// Changes with each setting and each credential.
    pub key: String,
    pub spec: ObsykAgentSpec,
    pub credentials: Arc<Credentials>,
    /// The uid and the version of the Secret.
    pub credentials_version: String,
}

/// The platforms that are served. A cheap clone.
#[derive(Clone)]
pub(crate) struct Peers(Arc<Inner>);

struct Inner {
    shared: Shared,
    client: kube::Client,
    queue: Queue<ObjectRef>,
    process_metrics: Metrics,
    metrics: StreamMetrics,
    jobs: mpsc::Sender<BoxFuture<'static, ()>>,
    stop: CancellationToken,
    running: Mutex<BTreeMap<ObjectRef, Running>>,
}

impl Peers {
    /// Nothing is served yet. The future runs the tasks; after `stop` it ends when all of them have.
    pub fn new(
        shared: Shared,
        client: kube::Client,
        queue: Queue<ObjectRef>,
        metrics: &Metrics,
        stop: CancellationToken,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (jobs, received) = mpsc::channel(JOBS);
        let inner = Inner {
            shared,
            client,
            queue,
            process_metrics: metrics.clone(),
            metrics: StreamMetrics::new(metrics),
            jobs,
            stop: stop.clone(),
            running: Mutex::default(),
        };
        (Self(Arc::new(inner)), pool(received, stop))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ObjectRef, Running>> {
        self.0.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What an agent runs with, if it runs.
    pub fn running(&self, agent: &ObjectRef) -> Option<(String, SenderId)> {
        self.lock()
            .get(agent)
            .map(|running| (running.key.clone(), running.id))
    }

    /// Ends the stream of an agent.
    pub fn stop(&self, agent: &ObjectRef) {
        if let Some(running) = self.lock().remove(agent) {
            running.stop.cancel();
            // At once, so that the platform hears nothing more.
            self.0.shared.remove(running.id);
        }
    }

    /// Lets an agent run with these settings and credentials. An error names the field and the rule.
    pub async fn run(&self, agent: &ObjectRef, wanted: &Wanted) -> Result<(), String> {
        let (spec, settings) = (&wanted.spec, settings(&wanted.spec));
        let binding = Binding {
            platform_url: spec.platform_url.clone(),
            cluster_name: spec.cluster_name.clone(),
            ca_bundle: spec.ca_bundle.clone(),
            proxy_url: spec.proxy_url.clone(),
            credentials: wanted.credentials_version.clone(),
        };
        if let Some(running) = self.lock().get_mut(agent)
            && running.binding == binding
        {
            running.key = wanted.key.clone();
            self.0.shared.configure(running.id, settings);
            return Ok(());
        }
        self.stop(agent);
        let platform = Platform::new(spec, wanted.credentials.clone(), &self.0.process_metrics)?;
        let head = SnapshotHead {
            cluster_name: spec.cluster_name.clone(),
            kubernetes_version: self.kubernetes_version().await,
            agent_version: Some(VERSION.to_owned()),
            ..SnapshotHead::default()
        };
        let (id, wake) = self.0.shared.add(settings);
        let stop = self.0.stop.child_token();
        let (queue, key) = (self.0.queue.clone(), agent.clone());
        let peer = Peer {
            id,
            wake,
            shared: self.0.shared.clone(),
            platform: Arc::new(platform),
            head,
            metrics: self.0.metrics.clone(),
            changed: Arc::new(move || queue.add(key.clone(), Lane::Normal)),
        };
        let running = Running {
            key: wanted.key.clone(),
            binding,
            id,
            stop: stop.clone(),
        };
        self.lock().insert(agent.clone(), running);
        // The pool that receives tasks runs for as long as the process does.
        let _ = self.0.jobs.send(peer.run(stop).boxed()).await;
        Ok(())
    }

    /// For people who look at the platform; it is left out if the API server does not say.
    async fn kubernetes_version(&self) -> Option<String> {
        let version = self.0.client.apiserver_version().await.ok()?;
        Some(version.git_version)
    }
}

/// Runs the tasks of all platforms.
async fn pool(mut jobs: mpsc::Receiver<BoxFuture<'static, ()>>, stop: CancellationToken) {
    let mut running = FuturesUnordered::new();
    loop {
        tokio::select! {
            () = stop.cancelled(), if running.is_empty() => return,
            Some(()) = running.next() => {}
            job = jobs.recv() => match job {
                Some(job) => running.push(job),
                None if running.is_empty() => return,
                None => {}
            },
        }
    }
}

fn settings(spec: &ObsykAgentSpec) -> Settings {
    let rate = spec.rate_limit.unwrap_or_default();
    let positive = |number: i32| u32::try_from(number).unwrap_or(1).max(1);
    Settings {
        per_second: positive(rate.events_per_second),
        burst: positive(rate.burst_size),
        heartbeat: spec.heartbeat().unwrap_or(DEFAULT_SYNC_INTERVAL),
        full_sync: spec.full_sync(),
        excluded: spec
            .exclude_namespaces
            .iter()
            .map(|name| name.as_str().into())
            .collect(),
        max_pending: MAX_PENDING,
    }
}
