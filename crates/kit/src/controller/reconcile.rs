//! Work on one key: look, decide, act; and what follows from how it went.

use std::hash::{DefaultHasher, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::time::Duration;

use futures::FutureExt;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;
use trustplane_plan::{Class, Classified, Ending, Plan};

use super::sight::{OWN_WRITES, OwnWrites, Stores};
use super::{Controller, Executor, Fault, Look, Options};
use crate::apply::Journal;
use crate::queue::{Key, Lane, Outcome, Queue, Work};

/// How often a plan is made anew at once because the view that it rested on was out of date.
const STALE_VIEWS: u32 = 2;

/// When a plan that was held back is made anew.
const HELD_BACK: Duration = Duration::from_secs(2);

/// When a failing key looks again because some of its notes were refused.
const UNTOLD: Duration = Duration::from_secs(2);

/// Everything that a worker needs.
pub(super) struct Reconciler<C: Controller> {
    pub(super) controller: C,
    pub(super) queue: Queue<C::Key>,
    pub(super) executor: Executor,
    pub(super) options: Options,
    /// Set when the runner starts.
    pub(super) stores: OnceLock<Stores>,
    pub(super) own_writes: OwnWrites<C::Key>,
}

/// How work that did not fail ended.
enum Settled {
    /// There is nothing to do for this key until something happens to it.
    Nothing,
    /// A plan was carried out, perhaps one without steps.
    Planned { look_again: Option<Duration> },
    /// The same, but what people want still cannot be had.
    StillFailing { look_again: Option<Duration> },
}

impl<C: Controller> Reconciler<C> {
    /// One worker: takes keys until `stop`, and ends the one it has.
    pub(super) async fn work(&self, stop: CancellationToken) {
        loop {
            let work = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                work = self.queue.next() => work,
            };
            let Some(work) = work else { return };
            let span =
                tracing::info_span!("reconcile", controller = self.controller.name(), key = %work.key());
            self.reconcile(work).instrument(span).await;
        }
    }

    async fn reconcile(&self, work: Work<C::Key>) {
        let started = Instant::now();
        let journal = Journal::default();
        let result = journal.keep(self.guarded(&work, &journal)).await;
        self.note(work.key(), &journal);
        let outcome = match result {
            Ok(settled) => {
                self.executor
                    .metrics
                    .succeeded(self.controller.name(), started.elapsed());
                self.settled(work.key(), &settled)
            }
            Err(fault) => {
                self.executor
                    .metrics
                    .failed(self.controller.name(), &fault, started.elapsed());
                let untold = self.failed(&work, &fault);
                Outcome::Failed {
                    // Whoever could mend it does not know yet, so it does not wait for them.
                    class: if untold { Class::Transient } else { fault.class() },
                    retry_after: fault.retry_after(),
                    retry_in: fault.retry_in(),
                }
            }
        };
        tracing::debug!(took = ?started.elapsed(), ?outcome, "done");
        work.done(outcome);
    }

    /// Neither a panic nor endless waiting reaches the worker.
    async fn guarded(&self, work: &Work<C::Key>, journal: &Journal) -> Result<Settled, Fault<C::Error>> {
        let deadline = self.options.deadline;
        match timeout(
            deadline,
            AssertUnwindSafe(self.attempts(work, journal)).catch_unwind(),
        )
        .await
        {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(Fault::Panic),
            Err(_) => Err(Fault::Deadline(deadline)),
        }
    }

    async fn attempts(&self, work: &Work<C::Key>, journal: &Journal) -> Result<Settled, Fault<C::Error>> {
        let (key, mut stale) = (work.key(), 0);
        let mut look = Look {
            failures: work.failures(),
            ..Look::default()
        };
        loop {
            if !self.sees_own_writes(key).await {
                if !self.controller.reads_live() {
                    let look_again = Some(OWN_WRITES);
                    return Ok(Settled::Planned { look_again });
                }
                look.again = true;
            }
            match self.attempt(key, &mut look).await {
                Err(fault) if self.is_stale(&fault) && stale < STALE_VIEWS => {
                    stale += 1;
                    look.again = true;
                    self.executor.metrics.stale(self.controller.name());
                    tracing::debug!(%fault, "looking again");
                    self.note(key, journal);
                }
                other => return other,
            }
        }
    }

    /// Whether another look can help at once. A controller that reads live then sees the object of somebody else that stands
    /// in the way, and decides about it.
    fn is_stale(&self, fault: &Fault<C::Error>) -> bool {
        fault.is_stale() || self.controller.reads_live() && fault.is_foreign()
    }

    /// Remembers what was written for a key, until the stores show it.
    fn note(&self, key: &C::Key, journal: &Journal) {
        if let Some(stores) = self.stores.get() {
            self.own_writes.note(key, journal.take(), stores);
        }
    }

    /// Waits until the stores show the last writes for a key; false if they do not in time.
    async fn sees_own_writes(&self, key: &C::Key) -> bool {
        let Some(stores) = self.stores.get() else {
            return true;
        };
        let seen = self.own_writes.are_seen(key, stores).await;
        if !seen {
            self.executor.metrics.unseen(self.controller.name());
            tracing::debug!("a store has not shown our last write");
        }
        seen
    }

    async fn attempt(&self, key: &C::Key, look: &mut Look<C::Held>) -> Result<Settled, Fault<C::Error>> {
        let gathered = self.controller.gather(key, look).await;
        let Some(input) = gathered.map_err(Fault::Controller)? else {
            return Ok(Settled::Nothing);
        };
        let plan = self.controller.decide(&input, self.options.clock.now());
        // It may be large or secret, and is of no further use.
        drop(input);
        if plan.removes() && !self.stores.get().is_none_or(Stores::allow_removals) {
            self.executor.metrics.held(self.controller.name());
            tracing::debug!("holding the plan back: it removes something, and a store is not current");
            let look_again = Some(HELD_BACK);
            return Ok(Settled::Planned { look_again });
        }
        let Plan {
            steps,
            look_again,
            ending,
        } = plan;
        let carried_out = self.executor.carry_out(&self.controller, steps).await;
        let untold = match carried_out {
            // Nothing else has to be done again, and to count this failure in place of the plan's would end its wait.
            Err(Fault::Untold { .. }) if ending != Ending::Done => Some(UNTOLD),
            other => other.map(|()| None)?,
        };
        let look_again = look_again.into_iter().chain(untold).min();
        match ending {
            Ending::Done => Ok(Settled::Planned { look_again }),
            Ending::StillFailing => Ok(Settled::StillFailing { look_again }),
            Ending::Failed(failure) => {
                if let Some(wait) = look_again {
                    self.queue.add_after(key.clone(), Lane::Bulk, wait);
                }
                Err(Fault::Planned(failure))
            }
        }
    }

    fn settled(&self, key: &C::Key, settled: &Settled) -> Outcome {
        let outcome = match *settled {
            Settled::Nothing => return Outcome::Success { look_again: None },
            Settled::Planned { look_again } => Outcome::Success {
                look_again: look_again.map(|wait| (wait, Lane::Normal)),
            },
            Settled::StillFailing { look_again } => Outcome::StillFailing { look_again },
        };
        if let Some(resync) = self.options.resync {
            self.queue.add_after(key.clone(), Lane::Bulk, spread(resync, key));
        }
        outcome
    }

    /// Logs and reports a failure. Answers whether people could not be told.
    fn failed(&self, work: &Work<C::Key>, fault: &Fault<C::Error>) -> bool {
        let (reason, failures) = (fault.reason(), work.failures() + 1);
        let error: &(dyn std::error::Error + 'static) = fault;
        match fault.class() {
            // Each of a flood of notes would make a line.
            Class::Transient if matches!(fault, Fault::Untold { .. }) => tracing::debug!(error, "untold"),
            // Whoever made the plan says what is told and logged of it, and how often.
            class if matches!(fault, Fault::Planned(_)) => {
                tracing::debug!(class = class.as_str(), reason, failures, error, "failed");
            }
            Class::Transient => tracing::warn!(class = "transient", reason, failures, error, "failed"),
            Class::User => tracing::info!(class = "user", reason, failures, error, "failed"),
            Class::Bug => tracing::error!(class = "bug", reason, failures, error, "failed"),
        }
        let report = || match fault.needs_no_report() {
            true => Vec::new(),
            false => self.controller.report(work.key(), fault),
        };
        match catch_unwind(AssertUnwindSafe(report)) {
            Ok(notes) => notes.iter().filter(|note| self.executor.tell(note)).count() > 0,
            Err(_) => {
                tracing::error!("the controller panicked while it reported a failure");
                false
            }
        }
    }
}

/// The time within a tenth of `interval` that belongs to this key: ten thousand objects do not wake together, and each
/// keeps its own beat.
fn spread(interval: Duration, key: &impl Key) -> Duration {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    let unit = f64::from((hasher.finish() >> 32) as u32) / f64::from(u32::MAX);
    interval.mul_f64(0.9 + 0.2 * unit)
}

#[cfg(test)]
mod tests {
    use trustplane_plan::ObjectRef;

    use super::*;

    #[test]
    fn the_beats_of_many_keys_fill_the_interval() {
        let interval = Duration::from_secs(1000);
        let mut tenths = [0; 10];
        for name in 0..1000 {
            let beat = spread(interval, &ObjectRef::new(Some("ns"), &name.to_string()));
            assert!(beat >= interval.mul_f64(0.9) && beat <= interval.mul_f64(1.1));
            tenths[(((beat.as_secs_f64() - 900.0) / 20.0) as usize).min(9)] += 1;
        }
        assert!(tenths.iter().all(|count| *count > 50), "{tenths:?}");
    }
}
