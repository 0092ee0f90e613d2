//! The one task that writes events.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::Method;
use kube::Client;
use tokio_util::sync::CancellationToken;
use trustplane_plan::{Class, Classified as _};

use super::Events;
use super::series::Due;
use super::wire::{self, Dialect, Reporter, Stored};
use crate::apply::{Attempt, Call, JSON, MERGE_PATCH, WriteError, judge};

/// How long the last notes may take when the process ends.
const FLUSH: Duration = Duration::from_secs(2);
/// How long after a failure the same note is tried again, if the API server did not say.
const AGAIN: Duration = Duration::from_secs(5);

/// Publishes what [`Events`] was told. See [`Publisher::run`].
pub struct Publisher {
    events: Events,
    client: Client,
    reporter: Reporter,
    /// Whether the names of today are not for us.
    speaks_core: AtomicBool,
}

impl std::fmt::Debug for Publisher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Publisher")
            .field("reporter", &self.reporter)
            .finish_non_exhaustive()
    }
}

impl Publisher {
    pub(super) fn new(events: Events, client: Client, controller: &str, instance: &str) -> Self {
        let reporter = Reporter {
            controller: controller.to_owned(),
            instance: instance.to_owned(),
        };
        Self {
            events,
            client,
            reporter,
            speaks_core: AtomicBool::new(false),
        }
    }

    /// Publishes until `shutdown`, then what is left, within two seconds. Cancel `shutdown` when running work has drained
    /// and nobody tells anything more.
    pub async fn run(self, shutdown: CancellationToken) {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => {}
            never = self.publish_for_ever() => match never {},
        }
        if tokio::time::timeout(FLUSH, self.publish_all(Duration::MAX))
            .await
            .is_err()
        {
            let left = self.events.buffer().depth();
            tracing::warn!(left, "ended before all events were published");
        }
    }

    async fn publish_for_ever(&self) -> std::convert::Infallible {
        loop {
            self.publish_all(self.events.now()).await;
            let next = self.events.buffer().next_due();
            let wait = next.map_or(Duration::MAX, |due| due.saturating_sub(self.events.now()));
            tokio::select! {
                () = self.events.0.wake.notified() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Publishes what is due by `until`, each series once.
    async fn publish_all(&self, until: Duration) {
        loop {
            let Some(due) = self.events.buffer().due(until) else {
                return;
            };
            let outcome = self.publish(&due).await;
            self.report(&due, outcome);
        }
    }

    fn report(&self, due: &Due, outcome: Result<(), WriteError>) {
        let (now, metrics) = (self.events.now(), &self.events.0.metrics);
        let mut buffer = self.events.buffer();
        match outcome {
            Ok(()) => {
                buffer.published(due, now);
                metrics.count("published");
            }
            Err(error) => {
                // What only a person can mend, and what is held back by the fence, is not worth another try.
                let worth = error.class() == Class::Transient && !matches!(error, WriteError::Fenced(_));
                let wait = error.retry_after().unwrap_or(AGAIN);
                if !buffer.failed(due, now, worth.then_some(wait)) {
                    tracing::debug!(%error, "gave up an event");
                    metrics.count("given_up");
                }
            }
        }
        metrics.depth(&buffer);
    }

    /// Starts a series, or goes on with one that is there: from this process, or from one before it.
    async fn publish(&self, due: &Due) -> Result<(), WriteError> {
        let core = self.speaks_core.load(Ordering::Relaxed);
        if !core {
            match self.publish_as(due, Dialect::Events).await {
                Err(WriteError::Forbidden { .. }) => {}
                outcome => return outcome,
            }
        }
        let outcome = self.publish_as(due, Dialect::Core).await;
        if outcome.is_ok() {
            self.speaks_core.store(true, Ordering::Relaxed);
        }
        outcome
    }

    async fn publish_as(&self, due: &Due, dialect: Dialect) -> Result<(), WriteError> {
        if !due.known {
            match self.create(due, dialect).await {
                Err(WriteError::Stale(_)) => {}
                outcome => return outcome,
            }
        }
        match self.stored(due, dialect).await {
            Ok(stored) => self.go_on(due, dialect, &stored).await,
            // The API server forgets events after a while.
            Err(WriteError::Stale(_)) => self.create(due, dialect).await,
            Err(error) => Err(error),
        }
    }

    async fn create(&self, due: &Due, dialect: Dialect) -> Result<(), WriteError> {
        let target = wire::target(due, dialect);
        let attempt = Attempt::new("create", &target);
        let path = target.kind.collection_path(target.object.namespace());
        let event = wire::event(due, dialect, &self.reporter);
        let call = Call::write(Method::POST, path, JSON, &event);
        judge(&attempt, call.send(&self.client).await).map(drop)
    }

    async fn stored(&self, due: &Due, dialect: Dialect) -> Result<Stored, WriteError> {
        let target = wire::target(due, dialect);
        let attempt = Attempt::new("read", &target);
        let call = Call::get(target.kind.object_path(&target.object), JSON);
        let text = judge(&attempt, call.send(&self.client).await)?;
        serde_json::from_str(&text).map_err(|_| WriteError::Invalid {
            attempt,
            problem: "this is no event".into(),
        })
    }

    async fn go_on(&self, due: &Due, dialect: Dialect, stored: &Stored) -> Result<(), WriteError> {
        let target = wire::target(due, dialect);
        let attempt = Attempt::new("update", &target);
        let path = target.kind.object_path(&target.object);
        let call = Call::write(Method::PATCH, path, MERGE_PATCH, &wire::continuation(due, stored));
        judge(&attempt, call.send(&self.client).await).map(drop)
    }
}
