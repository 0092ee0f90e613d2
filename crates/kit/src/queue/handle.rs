//! The schedule with a lock and an alarm clock: what feeds and workers hold.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};
use trustplane_plan::Class;
use trustplane_process::metrics::Metrics;

use super::metrics::{Probe, QueueMetrics};
use super::{Depths, Key, Lane, Outcome, Policy, QueueState, Schedule, Turn};

/// The queue of one controller; a cheap clone. See the [module](super).
pub struct Queue<K: Key>(Arc<Inner<K>>);

struct Inner<K: Key> {
    name: &'static str,
    state: Mutex<State<K>>,
    /// At least one idle worker has looked at the schedule since the last change: whoever changes it, and whoever stops
    /// looking, wakes another.
    changed: Notify,
    metrics: QueueMetrics,
}

struct State<K> {
    schedule: Schedule<K>,
    closed: bool,
}

impl<K: Key> Queue<K> {
    /// An empty queue. The name is its label in metrics; the seed rolls the dice of its jitter.
    pub fn new(name: &'static str, policy: Policy, seed: u64, metrics: &Metrics) -> Self {
        let metrics = QueueMetrics::shared(metrics);
        let state = Mutex::new(State {
            schedule: Schedule::new(policy, seed),
            closed: false,
        });
        let inner = Arc::new(Inner {
            name,
            state,
            changed: Notify::new(),
            metrics,
        });
        let weak = Arc::downgrade(&inner);
        inner.metrics.watch(weak);
        Self(inner)
    }

    /// Something happened to a key: it is worked on once more, beginning after this call.
    pub fn add(&self, key: K, lane: Lane) {
        self.change(|schedule, now| schedule.add(key, lane, now));
    }

    /// A key is worked on after some time, or sooner if something else asks for that.
    pub fn add_after(&self, key: K, lane: Lane, wait: Duration) {
        self.change(|schedule, now| schedule.add_after(key, lane, wait, now));
    }

    /// Drops all that is known of a key that nobody cares for any more. Work on it that has begun still ends as usual.
    pub fn forget(&self, key: &K) {
        self.0.lock().schedule.forget(key);
    }

    /// The next piece of work: waits for one, and answers `None` once the queue is closed.
    ///
    /// Safe to cancel: a key leaves the queue only together with the answer.
    pub async fn next(&self) -> Option<Work<K>> {
        let _relay = Relay(&self.0.changed);
        loop {
            let changed = self.0.changed.notified();
            let (turn, due) = {
                let mut state = self.0.lock();
                if state.closed {
                    return None;
                }
                let turn = state.schedule.take(Instant::now().into_std());
                (turn, state.schedule.next_due())
            };
            match (turn, due) {
                (Some(turn), _) => return Some(self.work(turn)),
                // Whether the time has come or something has changed: look again.
                (None, Some(due)) => drop(timeout_at(due.into(), changed).await),
                (None, None) => changed.await,
            }
        }
    }

    /// Ends the queue: no more work is handed out, now or later. Work that has begun may end.
    pub fn close(&self) {
        self.0.lock().closed = true;
        self.0.changed.notify_waiters();
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.0.name
    }

    /// How full it is.
    pub fn depths(&self) -> Depths {
        self.0.depths()
    }

    /// Its state, for people to look at.
    pub fn state(&self) -> QueueState {
        self.0.lock().schedule.state(Instant::now().into_std())
    }

    fn work(&self, turn: Turn<K>) -> Work<K> {
        self.0.metrics.waited(self.0.name, turn.lane, turn.waited);
        Work {
            queue: self.clone(),
            turn,
            outcome: None,
        }
    }

    fn change(&self, change: impl FnOnce(&mut Schedule<K>, std::time::Instant)) {
        let mut state = self.0.lock();
        let before = state.schedule.next_due();
        change(&mut state.schedule, Instant::now().into_std());
        let wake = state.schedule.has_ready() || state.schedule.next_due() != before;
        drop(state);
        if wake {
            self.0.changed.notify_one();
        }
    }
}

impl<K: Key> Inner<K> {
    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Key> Probe for Inner<K> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn depths(&self) -> Depths {
        self.lock().schedule.depths(Instant::now().into_std())
    }
}

impl<K: Key> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K: Key> fmt::Debug for Queue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Queue").field(&self.0.name).finish()
    }
}

impl<K: Key> fmt::Debug for Inner<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Wakes the next worker when one stops looking, be it with a key in hand or because it was cancelled: there may be more
/// keys than wake-ups, and the alarm clock of the next delayed key must be in somebody's hands.
struct Relay<'a>(&'a Notify);

impl Drop for Relay<'_> {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

/// A key in the hands of one worker. No other worker gets it until this is done.
///
/// Dropped without an outcome, it counts as a failure of the class [`Class::Bug`].
#[derive(Debug)]
#[must_use = "a dropped piece of work counts as failed"]
pub struct Work<K: Key> {
    queue: Queue<K>,
    turn: Turn<K>,
    outcome: Option<Outcome>,
}

impl<K: Key> Work<K> {
    /// The key.
    pub fn key(&self) -> &K {
        &self.turn.key
    }

    /// How often it has failed since its last success.
    pub fn failures(&self) -> u32 {
        self.turn.failures
    }

    /// Ends the work.
    pub fn done(mut self, outcome: Outcome) {
        self.outcome = Some(outcome);
    }
}

impl<K: Key> Drop for Work<K> {
    fn drop(&mut self) {
        let outcome = self.outcome.unwrap_or(Outcome::Failed {
            class: Class::Bug,
            retry_after: None,
            retry_in: None,
        });
        self.queue
            .change(|schedule, now| schedule.finish(&self.turn.key, outcome, now));
    }
}
