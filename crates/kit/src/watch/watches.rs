//! All watches of a process: who shares which.

use std::{
    any::TypeId,
    collections::{BTreeSet, HashMap},
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use serde_json::Value;
use tokio_util::sync::CancellationToken;
use trustplane_plan::Kind;
use trustplane_process::metrics::Metrics;

use super::{
    Project, Sink, SinkWatch, Subscription, Tuning, WatchSpec,
    destination::{Destination, IntoStore},
    drive::Drive,
    hub::{Hub, Running},
    metrics::WatchMetrics,
    request::Selection,
    sink::IntoSink,
};

/// Makes watches and shares them. Cheap to clone.
#[derive(Clone)]
pub struct Watches(Arc<Registry>);

pub(super) struct Registry {
    client: kube::Client,
    tuning: Arc<Tuning>,
    metrics: WatchMetrics,
    stop: CancellationToken,
    running: Mutex<HashMap<Key, Arc<dyn Running>>>,
    /// Counts the watches into sinks: no two share a key.
    poured: AtomicU64,
}

/// Subscriptions with equal keys share a watch.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    kind: Kind,
    collections: BTreeSet<Arc<str>>,
    labels: Option<String>,
    fields: Option<String>,
    projection: TypeId,
    identity: String,
}

impl Registry {
    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Arc<dyn Running>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watches {
    /// Watches through this client. See the module on how to configure it.
    pub fn new(client: kube::Client, tuning: Tuning, metrics: &Metrics) -> Self {
        Self(Arc::new(Registry {
            client,
            tuning: Arc::new(tuning),
            metrics: WatchMetrics::new(metrics),
            stop: CancellationToken::new(),
            running: Mutex::new(HashMap::new()),
            poured: AtomicU64::new(0),
        }))
    }

    /// Subscribes to what the spec says, and starts a watch for it unless one runs already. Must be called on a runtime.
    pub fn subscribe<P: Project>(&self, spec: WatchSpec<P>) -> Subscription<P::Out> {
        let key = Key {
            kind: spec.kind.clone(),
            collections: spec.collections(),
            labels: spec.labels.clone(),
            fields: spec.fields.clone(),
            projection: TypeId::of::<P>(),
            identity: spec.project.identity(),
        };
        let mut running = self.0.lock();
        let shared = running
            .get(&key)
            .and_then(|hub| hub.clone().into_any().downcast::<Hub<P::Out>>().ok());
        let (hub, resume) = match shared {
            Some(hub) => (hub, spec.resume),
            None => {
                let resume = spec.resume.clone();
                let hub = self.start(spec, key.collections.clone());
                running.insert(key.clone(), hub.clone());
                (hub, resume)
            }
        };
        let (id, wake) = hub.join(resume);
        drop(running);
        let registration = Registration {
            registry: self.0.clone(),
            key,
        };
        Subscription {
            hub,
            id,
            wake,
            registration,
        }
    }

    fn start<P: Project>(&self, spec: WatchSpec<P>, collections: BTreeSet<Arc<str>>) -> Arc<Hub<P::Out>> {
        let metrics = self.0.metrics.of(&spec.kind);
        let selection = Selection {
            payload: spec.project.payload(),
            kind: spec.kind,
            labels: spec.labels,
            fields: spec.fields,
        };
        let versions = spec.resume.as_ref().map(|resume| &resume.versions);
        let stop = self.0.stop.child_token();
        let hub = Arc::new(Hub::new(
            selection,
            collections,
            versions,
            metrics,
            stop,
            P::names,
        ));
        let (project, kept) = (Arc::new(spec.project), hub.clone());
        self.drive(hub.clone(), move |collection| {
            IntoStore::new(kept.clone(), collection, project.clone())
        });
        hub
    }

    /// Starts a watch that hands each object to a sink and keeps none. Must be called on a runtime.
    ///
    /// The sink hears of one collection: the spec names no namespace or one, or its standing says `Rejected`. Nothing is
    /// shared, and a resume in the spec is not used: a sink first hears a list.
    pub fn pour<S: Sink>(&self, spec: WatchSpec<()>, sink: Arc<S>) -> SinkWatch {
        let collections = spec.collections();
        let key = Key {
            kind: spec.kind.clone(),
            collections: collections.clone(),
            labels: spec.labels.clone(),
            fields: spec.fields.clone(),
            projection: TypeId::of::<IntoSink<S>>(),
            identity: self.0.poured.fetch_add(1, Ordering::Relaxed).to_string(),
        };
        let metrics = self.0.metrics.of(&spec.kind);
        let selection = Selection {
            payload: sink.payload(),
            kind: spec.kind,
            labels: spec.labels,
            fields: spec.fields,
        };
        let is_one = collections.len() == 1;
        let stop = self.0.stop.child_token();
        let hub = Arc::new(Hub::poured(selection, collections, metrics, stop));
        self.0.lock().insert(key.clone(), hub.clone());
        if is_one {
            let kept = hub.clone();
            self.drive(hub.clone(), move |collection| {
                IntoSink::new(kept.clone(), collection, sink.clone())
            });
        } else {
            hub.refuse("a sink cannot tell namespaces apart: pour once for each");
        }
        let registration = Registration {
            registry: self.0.clone(),
            key,
        };
        SinkWatch { hub, registration }
    }

    /// Runs a watch until its hub is stopped.
    fn drive<D: Destination>(
        &self,
        hub: Arc<Hub<D::Kept>>,
        destination: impl Fn(Arc<str>) -> D + Send + Sync + 'static,
    ) {
        let drive = Drive {
            client: self.0.client.clone(),
            tuning: self.0.tuning.clone(),
            hub,
            destination: Box::new(destination),
        };
        // Nobody waits for the task: whatever ends it closes the hub, and those who listen see the end.
        tokio::spawn(drive.run());
    }

    /// Stops all watches. Subscribers are handed what is still pending, then the end.
    pub fn stop(&self) {
        self.0.stop.cancel();
    }

    /// What runs and how it is doing, for people who ask why.
    pub fn debug_state(&self) -> Value {
        self.0.lock().values().map(|watch| watch.debug_state()).collect()
    }
}

impl fmt::Debug for Watches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watches")
            .field("running", &self.0.lock().len())
            .finish_non_exhaustive()
    }
}

/// A subscriber's entry in the register.
pub(super) struct Registration {
    registry: Arc<Registry>,
    key: Key,
}

impl Registration {
    pub(super) fn leave(&self, subscriber: u64) {
        // Under the lock of the register, so that nobody joins a watch that is being stopped.
        let mut running = self.registry.lock();
        let last = running
            .get(&self.key)
            .is_some_and(|watch| watch.leave(subscriber));
        if last && let Some(watch) = running.remove(&self.key) {
            watch.stop();
        }
    }
}
