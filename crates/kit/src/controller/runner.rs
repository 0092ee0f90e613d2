//! The life of a controller: wait for the stores, wait for leadership, work, drain.

use std::convert::Infallible;
use std::future::Future;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use serde_json::Value;
use strum::IntoStaticStr;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{interval, timeout};
use tokio_util::sync::CancellationToken;
use trustplane_process::admin::{Check, Heartbeat, Liveness, Readiness, StateEntry, StateSource};
use trustplane_process::clock::{Clock, SystemClock};

use super::gate::Gate;
use super::reconcile::Reconciler;
use super::sight::{OwnWrites, Stores};
use super::{Controller, Executor};
use crate::queue::Queue;
use crate::watch::{Stopped, Store};

/// How often the heart beats, and how old the last beat may be.
const BEAT: Duration = Duration::from_secs(10);
const LOST: Duration = Duration::from_secs(60);
/// How far beyond its deadline a key may be before the worker counts as stuck: it holds a thread and cannot be stopped.
const STUCK: Duration = Duration::from_secs(30);

/// How a controller runs.
#[derive(Debug, Clone)]
pub struct Options {
    /// How many keys are worked on at once.
    pub workers: usize,
    /// How long work on one key may take.
    pub deadline: Duration,
    /// How often every key is looked at even if nothing happens, give or take a tenth.
    pub resync: Option<Duration>,
    /// How long running work may take to end when the process shuts down or no longer leads.
    pub drain: Duration,
    /// Tells `decide` the time.
    pub clock: Arc<dyn Clock>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            workers: 4,
            deadline: Duration::from_secs(30),
            resync: Some(Duration::from_secs(10 * 3600)),
            drain: Duration::from_secs(20),
            clock: Arc::new(SystemClock),
        }
    }
}

/// Why a controller ended.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum RunError {
    /// Another process leads.
    #[error("controller {0} stopped: this process no longer leads")]
    LeadershipLost(&'static str),
    /// A watch that it needs was stopped.
    #[error("controller {controller} could not start: {source}")]
    Stopped {
        /// Which controller.
        controller: &'static str,
        /// Why.
        source: Stopped,
    },
    /// Its workers ended, though nobody asked them to.
    #[error("the workers of controller {0} ended")]
    Ended(&'static str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
enum Phase {
    Starting,
    Standby,
    Running,
    Draining,
}

/// Runs a controller.
#[must_use = "a runner does nothing until it is run"]
pub struct Runner<C: Controller> {
    reconciler: Arc<Reconciler<C>>,
    stores: Stores,
    phase: Arc<Mutex<Phase>>,
    gate: Gate,
    check: Option<Check>,
    heartbeat: Option<Heartbeat>,
    _entry: Option<StateEntry>,
}

impl<C: Controller> Runner<C> {
    /// A runner that takes keys from this queue and carries plans out with this executor.
    pub fn new(controller: C, queue: Queue<C::Key>, executor: Executor, options: Options) -> Self {
        Self {
            reconciler: Arc::new(Reconciler {
                controller,
                queue,
                executor,
                options,
                stores: OnceLock::new(),
                own_writes: OwnWrites::new(),
            }),
            stores: Stores::default(),
            phase: Arc::new(Mutex::new(Phase::Starting)),
            gate: Gate::open(),
            check: None,
            heartbeat: None,
            _entry: None,
        }
    }

    /// The name of its controller.
    pub fn name(&self) -> &'static str {
        self.reconciler.controller.name()
    }

    /// Works only after this: a decision on half of the world would be wrong.
    pub fn after(mut self, ready: impl Future<Output = Result<(), Stopped>> + Send + 'static) -> Self {
        self.gate.stores.push(Box::pin(ready));
        self
    }

    /// Works only after the first list of this store is complete. Before each look at a key the store has shown what the last
    /// look at that key wrote, or [`super::Look::again`] says that it has not.
    pub fn after_store<T: Send + Sync + 'static>(mut self, store: &Store<T>) -> Self {
        self.stores.follow(store);
        let store = store.clone();
        self.after(async move { store.ready().await })
    }

    /// The same for a store without which the controller can work: also if it is known that there is nothing to see for us.
    pub fn after_store_if_any<T: Send + Sync + 'static>(mut self, store: &Store<T>) -> Self {
        self.stores.follow(store);
        let store = store.clone();
        self.after(async move { store.ready_or_refused().await })
    }

    /// Removes nothing while this store is not current ([`Store::currency`]): after an outage a store may still show the
    /// past, and lack what has long been there. A plan that deletes something is held back as a whole, and its key is looked
    /// at again until the store has caught up.
    ///
    /// Name every store from whose silence or gaps a plan concludes that something has to go.
    pub fn removals_rest_on<T: Send + Sync + 'static>(mut self, store: &Store<T>) -> Self {
        self.stores.require(store);
        self
    }

    /// Works only while this says that the process leads.
    pub fn while_leading(mut self, leading: watch::Receiver<bool>) -> Self {
        self.gate.leading = leading;
        self
    }

    /// Tells the admin port whether it is ready, whether it is alive, and what it does.
    pub fn report_to(mut self, readiness: &Readiness, liveness: &Liveness, state: &StateSource) -> Self {
        let name = format!("controller/{}", self.reconciler.controller.name());
        self.check = Some(readiness.check(name.clone()));
        self.heartbeat = Some(liveness.heartbeat(name.clone(), LOST));
        let (reconciler, phase) = (self.reconciler.clone(), self.phase.clone());
        self._entry = Some(state.register(name, move || describe(&reconciler, &phase)));
        self
    }

    /// What it does now, for people to look at. It names keys, never values.
    pub fn state(&self) -> Value {
        describe(&self.reconciler, &self.phase)
    }

    /// Runs until `shutdown`, or until leadership is lost, which is an error: then the process must end.
    ///
    /// Either way no new key is taken, and running work is waited for within [`Options::drain`].
    pub async fn run(mut self, shutdown: CancellationToken) -> Result<(), RunError> {
        let heartbeat = self.heartbeat.take();
        let reconciler = self.reconciler.clone();
        tokio::select! {
            end = self.live(&shutdown) => end,
            never = pulse(&reconciler, heartbeat.as_ref()) => match never {},
        }
    }

    async fn live(&mut self, shutdown: &CancellationToken) -> Result<(), RunError> {
        let controller = self.reconciler.controller.name();
        self.reconciler
            .stores
            .get_or_init(|| std::mem::take(&mut self.stores));
        if let Some(check) = &self.check {
            check.not_ready("waiting for the first lists");
        }
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return Ok(()),
            ready = self.gate.stores() => ready.map_err(|source| RunError::Stopped { controller, source })?,
        }
        self.check.iter().for_each(Check::ready);
        self.enter(Phase::Standby);
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return Ok(()),
            () = self.gate.leads() => {}
        }
        self.enter(Phase::Running);
        let (stop, mut workers) = (CancellationToken::new(), JoinSet::new());
        for _ in 0..self.reconciler.options.workers.max(1) {
            let (reconciler, stop) = (self.reconciler.clone(), stop.clone());
            workers.spawn(async move { reconciler.work(stop).await });
        }
        let end = tokio::select! {
            biased;
            () = shutdown.cancelled() => Ok(()),
            () = self.gate.lost() => Err(RunError::LeadershipLost(controller)),
            _ = workers.join_next() => Err(RunError::Ended(controller)),
        };
        self.enter(Phase::Draining);
        stop.cancel();
        drain(&self.reconciler, workers).await;
        end
    }

    fn enter(&self, phase: Phase) {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner) = phase;
        let phase: &'static str = phase.into();
        tracing::debug!(
            controller = self.reconciler.controller.name(),
            phase,
            "controller"
        );
    }
}

/// Waits for running work. What does not end in time is dropped where it waits: every write is safe there.
async fn drain<C: Controller>(reconciler: &Reconciler<C>, mut workers: JoinSet<()>) {
    let all = async { while workers.join_next().await.is_some() {} };
    if timeout(reconciler.options.drain, all).await.is_err() {
        let keys = reconciler.queue.state().running_keys;
        let keys: Vec<_> = keys.into_iter().map(|running| running.key).collect();
        tracing::warn!(
            controller = reconciler.controller.name(),
            ?keys,
            "did not wait for running work"
        );
    }
}

fn describe<C: Controller>(reconciler: &Reconciler<C>, phase: &Mutex<Phase>) -> Value {
    let phase: &'static str = (*phase.lock().unwrap_or_else(PoisonError::into_inner)).into();
    // Numbers and names always have a JSON form.
    let mut state = serde_json::to_value(reconciler.queue.state()).unwrap_or_default();
    state["phase"] = phase.into();
    state["workers"] = reconciler.options.workers.into();
    state
}

/// Beats while no worker is stuck. An idle controller is alive, and so is one that waits for its turn to lead.
async fn pulse<C: Controller>(reconciler: &Reconciler<C>, heartbeat: Option<&Heartbeat>) -> Infallible {
    let mut beats = interval(BEAT);
    loop {
        beats.tick().await;
        if reconciler.queue.depths().longest_running <= reconciler.options.deadline + STUCK {
            heartbeat.iter().for_each(|heartbeat| heartbeat.beat());
        }
    }
}
