//! Which platforms are served, and the tasks that serve them.

mod binding;
mod pool;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use trustplane_api::inventory::wire::SnapshotHead;
use trustplane_api::inventory::{DEFAULT_SYNC_INTERVAL, ObsykAgentSpec};
use trustplane_inventory_core::pending::MAX_PENDING;
use trustplane_inventory_core::sender::{Report, Settings};
use trustplane_inventory_core::world::SenderId;
use trustplane_kit::queue::{Lane, Queue};
use trustplane_plan::ObjectRef;
use trustplane_process::metrics::Metrics;

use crate::credentials::Credentials;
use crate::metrics::StreamMetrics;
use crate::peer::{Peer, steady};
use crate::platform::Platform;
use crate::shared::Shared;

use binding::Binding;
use pool::{Job, pool};

/// The version that platforms are told.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// So many tasks may wait to be begun.
const JOBS: usize = 16;
/// How long after a panic the stream of an agent is started again.
const RESTART: Duration = Duration::from_secs(30);

struct Running {
    /// What the agent runs with, as the decision compares it.
    key: String,
    binding: Binding,
    id: SenderId,
    platform: watch::Sender<Arc<Platform>>,
    /// What people were told last.
    told: Report,
    stop: CancellationToken,
}

/// What an agent is to run with.
pub(crate) struct Wanted {
    /// Changes with each setting and each credential.
    pub key: String,
    pub spec: ObsykAgentSpec,
    pub credentials: Arc<Credentials>,
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
    jobs: mpsc::Sender<Job>,
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

    /// What an agent's sender says of itself, in the words that people were told before as long as they hold.
    pub fn steady(&self, agent: &ObjectRef, report: Report) -> Report {
        match self.lock().get_mut(agent) {
            Some(running) => {
                running.told = steady(&running.told, report);
                running.told.clone()
            }
            None => report,
        }
    }

    /// Lets an agent run with these settings and credentials. An error names the field and the rule.
    pub async fn run(&self, agent: &ObjectRef, wanted: &Wanted) -> Result<(), String> {
        if self.go_on(agent, wanted)? {
            return Ok(());
        }
        self.stop(agent);
        let platform = self.platform(wanted)?;
        let head = SnapshotHead {
            kubernetes_version: self.kubernetes_version().await,
            agent_version: Some(VERSION.to_owned()),
            ..SnapshotHead::default()
        };
        let (id, wake) = self.0.shared.add(settings(&wanted.spec));
        let stop = self.0.stop.child_token();
        let (queue, key) = (self.0.queue.clone(), agent.clone());
        let (platform, current) = watch::channel(platform);
        let peer = Peer {
            id,
            wake,
            shared: self.0.shared.clone(),
            platform: current,
            head,
            metrics: self.0.metrics.clone(),
            changed: Arc::new(move || queue.add(key.clone(), Lane::Normal)),
        };
        let running = Running {
            key: wanted.key.clone(),
            binding: wanted.binding(),
            id,
            platform,
            told: Report::default(),
            stop: stop.clone(),
        };
        self.lock().insert(agent.clone(), running);
        let (inner, key) = (Arc::downgrade(&self.0), agent.clone());
        let job = Job {
            work: peer.run(stop).boxed(),
            panicked: Box::new(move || {
                if let Some(inner) = inner.upgrade() {
                    Self(inner).panicked(&key, id);
                }
            }),
        };
        // The pool that receives tasks runs for as long as the process does.
        let _ = self.0.jobs.send(job).await;
        Ok(())
    }

    /// Lets the stream of an agent go on with other settings and credentials. Answers `false` if none runs to that platform.
    fn go_on(&self, agent: &ObjectRef, wanted: &Wanted) -> Result<bool, String> {
        let mut all = self.lock();
        let running = all.get_mut(agent);
        let Some(running) = running.filter(|running| running.binding.is_same_platform(wanted)) else {
            return Ok(false);
        };
        let (id, settings) = (running.id, settings(&wanted.spec));
        if !running.binding.is_same_connection(wanted) {
            running.platform.send_replace(self.platform(wanted)?);
            running.told = Report::default();
            self.0.shared.change(|world| {
                world.reopen(id);
                true
            });
        }
        self.0.shared.configure(id, settings);
        if !running.binding.is_same_cluster(wanted) {
            self.0.shared.change(|world| {
                world.owe_snapshot(id);
                true
            });
        }
        running.key.clone_from(&wanted.key);
        running.binding = wanted.binding();
        Ok(true)
    }

    fn platform(&self, wanted: &Wanted) -> Result<Arc<Platform>, String> {
        let platform = Platform::new(&wanted.spec, wanted.credentials.clone(), &self.0.process_metrics);
        platform.map(Arc::new)
    }

    /// The task of a platform has panicked: its stream is started again, with a new sender and a new snapshot.
    fn panicked(&self, agent: &ObjectRef, id: SenderId) {
        tracing::error!(
            agent = %agent,
            "the stream of an ObsykAgent has panicked; it starts again in {RESTART:?}, with a snapshot"
        );
        let mut all = self.lock();
        if all.get(agent).is_some_and(|running| running.id == id) {
            all.remove(agent);
        }
        drop(all);
        self.0.shared.remove(id);
        self.0.metrics.forget(id);
        self.0.queue.add_after(agent.clone(), Lane::Normal, RESTART);
    }

    /// For people who look at the platform; it is left out if the API server does not say.
    async fn kubernetes_version(&self) -> Option<String> {
        let version = self.0.client.apiserver_version().await.ok()?;
        Some(version.git_version)
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

#[cfg(test)]
mod tests;
