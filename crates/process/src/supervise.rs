//! Tasks that somebody watches.
//!
//! A task of ours runs until the shutdown. When it ends before, by a return, an error or a panic, that is never
//! silent: the process ends with an error that names the task, or the task starts again.
//!
//! ```
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! use std::time::Duration;
//! use trustplane_process::{metrics::Metrics, shutdown::Shutdown, supervise::Supervisor};
//!
//! let shutdown = Shutdown::new(Duration::from_secs(25));
//! let supervisor = Supervisor::new(&Metrics::new(), shutdown.clone());
//! supervisor.spawn("listener", async { Err::<(), _>("address in use") });
//! let error = supervisor.run_until_shutdown().await.unwrap_err();
//! assert_eq!(error.to_string(), "task `listener` failed: address in use");
//! # });
//! ```

mod ending;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::backoff::Backoff;
use crate::metrics::Metrics;
use crate::shutdown::Shutdown;
pub use ending::{BoxError, Outcome};
use ending::{Ending, TaskMetrics};

/// The name of a task: text from code, since it is a metric label.
pub type TaskName = Cow<'static, str>;

/// Watches the tasks of a process; a cheap clone.
#[derive(Debug, Clone)]
pub struct Supervisor(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    shutdown: Shutdown,
    metrics: TaskMetrics,
    workers: TaskTracker,
    attendants: TaskTracker,
    /// Asks the attendants to end.
    drained: CancellationToken,
    running: Mutex<Running>,
    failure: Mutex<Option<SupervisorError>>,
    failed: CancellationToken,
}

#[derive(Debug, Default)]
struct Running {
    next: u64,
    tasks: BTreeMap<u64, (TaskName, Option<AbortHandle>)>,
}

/// Why the process ends with an error.
#[derive(Debug, thiserror::Error)]
pub enum SupervisorError {
    /// A critical task returned.
    #[error("task `{0}` ended without being asked to")]
    Returned(TaskName),
    /// A critical task failed.
    #[error("task `{task}` failed: {source}")]
    Failed {
        /// Which.
        task: TaskName,
        /// Why.
        source: BoxError,
    },
    /// A critical task panicked.
    #[error("task `{task}` panicked: {message}")]
    Panicked {
        /// Which.
        task: TaskName,
        /// What it said.
        message: String,
    },
    /// Tasks were still running when the shutdown deadline passed.
    #[error("still running when the shutdown ended: {}", .0.join(", "))]
    Stuck(Vec<TaskName>),
}

impl Supervisor {
    /// A supervisor without tasks.
    pub fn new(metrics: &Metrics, shutdown: Shutdown) -> Self {
        Self(Arc::new(Inner {
            shutdown,
            metrics: TaskMetrics::shared(metrics),
            workers: TaskTracker::new(),
            attendants: TaskTracker::new(),
            drained: CancellationToken::new(),
            running: Mutex::default(),
            failure: Mutex::default(),
            failed: CancellationToken::new(),
        }))
    }

    /// Starts a critical task: when it ends before the shutdown, so does the process, with an error.
    pub fn spawn<F>(&self, name: impl Into<TaskName>, task: F)
    where
        F: Future<Output: Outcome> + Send + 'static,
    {
        let stop = self.0.shutdown.token();
        self.watch(&self.0.workers, name.into(), |name| {
            self.clone().critical(name, task, stop)
        });
    }

    /// Starts a critical task that outlives the others: it is asked to end once they have, by the token it gets.
    ///
    /// For what is of use while the rest drains, such as probes and metrics.
    pub fn spawn_attendant<F>(&self, name: impl Into<TaskName>, task: impl FnOnce(CancellationToken) -> F)
    where
        F: Future<Output: Outcome> + Send + 'static,
    {
        let (stop, task) = (self.0.drained.clone(), task(self.0.drained.child_token()));
        self.watch(&self.0.attendants, name.into(), |name| {
            self.clone().critical(name, task, stop)
        });
    }

    /// Starts a task that is made anew when it ends before the shutdown.
    ///
    /// The backoff starts over when the task has run for longer than its longest wait.
    pub fn spawn_restarting<F>(
        &self,
        name: impl Into<TaskName>,
        backoff: Backoff,
        mut task: impl FnMut() -> F + Send + 'static,
    ) where
        F: Future<Output: Outcome> + Send + 'static,
    {
        let supervisor = self.clone();
        let stop = self.0.shutdown.token();
        self.watch(&self.0.workers, name.into(), |name| async move {
            let mut failures = 0;
            while !stop.is_cancelled() {
                let start = Instant::now();
                // Making the future may panic too.
                let ending = Ending::of(AssertUnwindSafe(async { task().await }).catch_unwind().await);
                supervisor.note(&name, &ending, &stop);
                if start.elapsed() > backoff.max {
                    failures = 0;
                }
                let wait = backoff.jittered(failures);
                failures = failures.saturating_add(1);
                tokio::select! {
                    () = tokio::time::sleep(wait) => {}
                    () = stop.cancelled() => {}
                }
            }
        });
    }

    /// The names of the tasks that run now.
    pub fn running(&self) -> Vec<TaskName> {
        self.running_tasks()
            .tasks
            .values()
            .map(|(name, _)| name.clone())
            .collect()
    }

    /// Waits for the shutdown or a fatal end of a task, then lets all tasks drain until the deadline.
    ///
    /// Tasks that do not end by then are aborted and named.
    pub async fn run_until_shutdown(&self) -> Result<(), SupervisorError> {
        let (shutdown, workers, attendants) = (&self.0.shutdown, &self.0.workers, &self.0.attendants);
        tokio::select! {
            () = shutdown.requested() => {}
            () = self.0.failed.cancelled() => {}
        }
        // After a failure the others drain as they would for a signal.
        shutdown.request();
        workers.close();
        attendants.close();
        let worked = shutdown.drain(workers.wait()).await;
        self.0.drained.cancel();
        let drained = worked.and(shutdown.drain(attendants.wait()).await);
        let stuck = self.abort_all();
        if let Err(error) = &drained {
            tracing::error!(tasks = stuck.join(", "), %error, "tasks are still running");
        }
        let failure = self
            .0
            .failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        match (failure, drained) {
            (Some(failure), _) => Err(failure),
            (None, Err(_)) if !stuck.is_empty() => Err(SupervisorError::Stuck(stuck)),
            _ => Ok(()),
        }
    }

    async fn critical<F>(self, name: TaskName, task: F, stop: CancellationToken)
    where
        F: Future<Output: Outcome>,
    {
        let ending = Ending::of(AssertUnwindSafe(task).catch_unwind().await);
        self.note(&name, &ending, &stop);
        if !stop.is_cancelled() {
            self.fail(ending.into_error(name));
        }
    }

    fn watch<F>(&self, tracker: &TaskTracker, name: TaskName, task: impl FnOnce(TaskName) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let id = {
            let mut running = self.running_tasks();
            running.next += 1;
            let id = running.next;
            running.tasks.insert(id, (name.clone(), None));
            id
        };
        let guard = RunningGuard {
            supervisor: self.clone(),
            id,
        };
        let task = task(name);
        let handle = tracker.spawn(async move {
            let _guard = guard;
            task.await;
        });
        // The task may have ended already; then there is nothing left to abort.
        if let Some((_, abort)) = self.running_tasks().tasks.get_mut(&id) {
            *abort = Some(handle.abort_handle());
        }
    }

    fn note(&self, name: &TaskName, ending: &Ending, stop: &CancellationToken) {
        let asked = stop.is_cancelled();
        match ending {
            Ending::Returned if asked => tracing::debug!(task = %name, "task ended"),
            Ending::Returned => tracing::error!(task = %name, "task ended without being asked to"),
            Ending::Failed(error) => {
                tracing::error!(task = %name, error = %chain(error.as_ref()), "task failed");
            }
            Ending::Panicked(message) => tracing::error!(task = %name, panic = message, "task panicked"),
        }
        if !(asked && matches!(ending, Ending::Returned)) {
            self.0.metrics.count(name.clone(), ending);
        }
    }

    fn fail(&self, error: SupervisorError) {
        let mut failure = self.0.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.get_or_insert(error);
        self.0.failed.cancel();
    }

    fn abort_all(&self) -> Vec<TaskName> {
        let running = self.running_tasks();
        running
            .tasks
            .values()
            .filter_map(|(_, abort)| abort.as_ref())
            .for_each(AbortHandle::abort);
        running.tasks.values().map(|(name, _)| name.clone()).collect()
    }

    fn running_tasks(&self) -> MutexGuard<'_, Running> {
        self.0.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes a task off the list however it ends.
struct RunningGuard {
    supervisor: Supervisor,
    id: u64,
}

impl Drop for RunningGuard {
    fn drop(&mut self) {
        self.supervisor.running_tasks().tasks.remove(&self.id);
    }
}

/// An error with its causes, on one line.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
