//! What a capability gets to work with.

use std::{
    future::Future,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use trustplane_plan::Fingerprinter;
use trustplane_process::{
    admin::{Liveness, Readiness, StateSource},
    metrics::Metrics,
    shutdown::Shutdown,
    supervise::{Outcome, Supervisor, TaskName},
};

use crate::{
    admission::{Judge, Judges, Webhook},
    clients::Clients,
    events::Events,
    watch::Watches,
};

/// Everything a capability needs, made once for each process. A cheap clone.
#[derive(Clone)]
pub struct Context {
    /// How to reach the API server.
    pub clients: Clients,
    /// The watches that all capabilities share.
    pub watches: Watches,
    /// How to tell the user something.
    pub events: Events,
    /// Makes the fingerprints of this installation.
    pub fingerprinter: Fingerprinter,
    /// Whether this process leads.
    pub leading: watch::Receiver<bool>,
    /// The namespace of the installation.
    pub namespace: Arc<str>,
    /// Whether plans are printed instead of carried out.
    pub dry_run: bool,
    /// Metrics of the process.
    pub metrics: Metrics,
    /// What must be ready before the process takes work.
    pub readiness: Readiness,
    /// What must keep moving.
    pub liveness: Liveness,
    /// What parts of the process say of themselves.
    pub state: StateSource,
    pub(super) supervisor: Supervisor,
    pub(super) shutdown: Shutdown,
    /// Work that writes: the lease is given back when all of it has ended.
    pub(super) writers: TaskTracker,
    pub(super) judges: Arc<Mutex<Judges>>,
}

impl Context {
    /// Runs a task that writes, such as a controller, until the shutdown. Its end before that ends the process; the lease
    /// is kept until it has ended.
    pub fn spawn<F>(&self, name: impl Into<TaskName>, task: F)
    where
        F: Future<Output: Outcome> + Send + 'static,
    {
        self.supervisor.spawn(name, self.writers.track_future(task));
    }

    /// Cancelled when the process is asked to end.
    pub fn stop(&self) -> CancellationToken {
        self.shutdown.token()
    }

    /// Serves a webhook.
    pub fn admit(&self, webhook: Webhook, judge: impl Judge) {
        self.judges
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .add(webhook, judge);
    }
}
