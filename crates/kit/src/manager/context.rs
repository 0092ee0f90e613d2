//! What a capability gets to work with.

use std::{
    future::Future,
    ops::Deref,
    sync::{Arc, Mutex, PoisonError},
};

use kube::Config;
use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use trustplane_plan::Fingerprinter;
use trustplane_process::{
    admin::{Liveness, Readiness, StateSource},
    metrics::Metrics,
    shutdown::Shutdown,
    supervise::{Outcome, Supervisor, TaskName},
};

use super::StartError;
use crate::{
    admission::{Judge, Judges, Webhook},
    apply::{Writer, installation_key},
    clients::Clients,
    controller::Executor,
    events::{Events, Publisher},
    lease::{Fence, Identity},
    queue::{Key, Policy, Queue},
    watch::{Tuning, Watches},
};

/// What controllers are made with. A cheap clone.
#[derive(Clone)]
pub struct Workbench {
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
}

impl Workbench {
    /// For controllers that run without a manager, in the namespace of the configuration: no lease, no rival. The task that
    /// publishes events comes with it.
    pub async fn alone(
        config: Config,
        component: &'static str,
        tuning: Tuning,
    ) -> Result<(Self, Publisher), StartError> {
        let namespace = config.default_namespace.clone();
        let identity = Identity::new(component, env!("CARGO_PKG_VERSION"), None);
        let clients = Clients::new(config, identity, Fence::always())?;
        let metrics = Metrics::new();
        let fingerprinter = installation_key(&clients.unfenced, &namespace).await?;
        let instance = clients.identity.instance().to_owned();
        let (events, publisher) = Events::new(clients.call.clone(), "trustplane", &instance, &metrics);
        let bench = Self {
            watches: Watches::new(clients.watch.clone(), tuning, &metrics),
            events,
            fingerprinter,
            leading: watch::Sender::new(true).subscribe(),
            namespace: namespace.into(),
            dry_run: false,
            metrics,
            clients,
        };
        Ok((bench, publisher))
    }

    /// Writes under this field manager.
    pub fn writer(&self, manager: &'static str) -> Writer {
        Writer::new(self.clients.call.clone(), manager, &self.metrics)
    }

    /// Carries plans out by this writer.
    pub fn executor(&self, writer: Writer) -> Executor {
        Executor::new(writer, self.events.clone(), &self.metrics).dry_run(self.dry_run)
    }

    /// A queue with the usual rules.
    pub fn queue<K: Key>(&self, name: &'static str) -> Queue<K> {
        Queue::new(name, Policy::default(), rand::random(), &self.metrics)
    }
}

/// Everything a capability needs, made once for each process. A cheap clone.
#[derive(Clone)]
pub struct Context {
    /// What its controllers are made with.
    pub bench: Workbench,
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

impl Deref for Context {
    type Target = Workbench;

    fn deref(&self) -> &Workbench {
        &self.bench
    }
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
