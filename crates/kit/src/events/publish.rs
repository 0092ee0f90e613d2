//! The one task that writes events, several at a time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
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
/// How many events are written at a time. Those of one series are written one after the other.
const SENDERS: usize = 8;
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
        let mut sending = FuturesUnordered::new();
        while !shutdown.is_cancelled() {
            let due = self.hand_out(sending.len(), self.events.now());
            sending.extend(due.into_iter().map(|due| self.send(due)));
            let is_busy = sending.len() >= SENDERS;
            let next = self.events.buffer().next_due();
            let wait = next.map_or(Duration::MAX, |due| due.saturating_sub(self.events.now()));
            tokio::select! {
                () = shutdown.cancelled() => {}
                Some(()) = sending.next() => {}
                () = self.events.0.wake.notified(), if !is_busy => {}
                () = tokio::time::sleep(wait), if !is_busy => {}
            }
        }
        let rest = async {
            loop {
                let due = self.hand_out(sending.len(), Duration::MAX);
                sending.extend(due.into_iter().map(|due| self.send(due)));
                if sending.next().await.is_none() {
                    return;
                }
            }
        };
        if tokio::time::timeout(FLUSH, rest).await.is_err() {
            let left = self.events.buffer().notes();
            self.events.0.metrics.count("given_up", left);
            tracing::warn!(left, "ended before all events were published");
        }
    }

    /// What is due by `until`, as much as can be sent beside what is being sent.
    fn hand_out(&self, sending: usize, until: Duration) -> Vec<Due> {
        let mut buffer = self.events.buffer();
        (sending..SENDERS).map_while(|_| buffer.due(until)).collect()
    }

    async fn send(&self, due: Due) {
        let outcome = self.publish(&due).await;
        self.report(&due, outcome);
    }

    fn report(&self, due: &Due, outcome: Result<Option<Stored>, WriteError>) {
        let (now, metrics) = (self.events.now(), &self.events.0.metrics);
        let mut buffer = self.events.buffer();
        match outcome {
            Ok(stored) => {
                buffer.published(due, stored, now);
                metrics.count("published", due.pending.into());
            }
            Err(error) => {
                // What only a person can mend, and what is held back by the fence, is not worth another try.
                let worth = error.class() == Class::Transient && !matches!(error, WriteError::Fenced(_));
                let wait = error.retry_after().unwrap_or(AGAIN);
                let given_up = buffer.failed(due, now, worth.then_some(wait));
                if given_up > 0 {
                    tracing::debug!(%error, given_up, "gave up an event");
                    metrics.count("given_up", given_up.into());
                }
            }
        }
        metrics.depth(&buffer);
    }

    /// Starts a series, or goes on with one that is there: from this process, or from one before it.
    async fn publish(&self, due: &Due) -> Result<Option<Stored>, WriteError> {
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

    /// One call if this process knows the event, or if there is none yet. Otherwise the event is read first. Gives what is known
    /// of the event then.
    async fn publish_as(&self, due: &Due, dialect: Dialect) -> Result<Option<Stored>, WriteError> {
        let first = match &due.stored {
            Some(stored) => self.go_on(due, dialect, stored).await,
            None => self.create(due, dialect).await,
        };
        match first {
            Err(WriteError::Stale(_)) => {}
            outcome => return outcome,
        }
        match self.stored(due, dialect).await {
            Ok(stored) => self.go_on(due, dialect, &stored).await,
            // The API server forgets events after a while.
            Err(WriteError::Stale(_)) => self.create(due, dialect).await,
            Err(error) => Err(error),
        }
    }

    async fn create(&self, due: &Due, dialect: Dialect) -> Result<Option<Stored>, WriteError> {
        let target = wire::target(due, dialect);
        let attempt = Attempt::new("create", &target);
        let path = target.kind.collection_path(target.object.namespace());
        let event = wire::event(due, dialect, &self.reporter);
        let call = Call::write(Method::POST, path, JSON, &event);
        let answer = judge(&attempt, call.send(&self.client).await)?;
        Ok(Stored::written(&answer, due.pending))
    }

    async fn stored(&self, due: &Due, dialect: Dialect) -> Result<Stored, WriteError> {
        let target = wire::target(due, dialect);
        let attempt = Attempt::new("read", &target);
        let call = Call::get(target.kind.object_path(&target.object), JSON);
        let answer = judge(&attempt, call.send(&self.client).await)?;
        Stored::read(&answer).ok_or_else(|| WriteError::Invalid {
            attempt,
            problem: "this is no event".into(),
        })
    }

    async fn go_on(
        &self,
        due: &Due,
        dialect: Dialect,
        stored: &Stored,
    ) -> Result<Option<Stored>, WriteError> {
        let target = wire::target(due, dialect);
        let attempt = Attempt::new("update", &target);
        let path = target.kind.object_path(&target.object);
        let call = Call::write(Method::PATCH, path, MERGE_PATCH, &wire::continuation(due, stored));
        let answer = judge(&attempt, call.send(&self.client).await)?;
        Ok(Stored::written(&answer, wire::continued(due, stored)))
    }
}
