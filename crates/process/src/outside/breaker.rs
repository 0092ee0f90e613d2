//! The circuit breaker: a target that fails is left alone, but for one probe at a time.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus_client::metrics::gauge::Gauge;
use tokio::time::Instant;

/// The longest time between two probes of a target that fails.
const LONGEST_PROBE_WAIT: Duration = Duration::from_secs(10);

/// When a target counts as failing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerPolicy {
    /// After so many faults in a row that speak against the target.
    pub faults: u32,
    /// Then one call is let through after this time, at most 10 s.
    pub probe_after: Duration,
}

impl Default for BreakerPolicy {
    fn default() -> Self {
        Self {
            faults: 5,
            probe_after: Duration::from_secs(5),
        }
    }
}

#[derive(Debug)]
pub(super) struct Breaker {
    policy: BreakerPolicy,
    inner: Mutex<Inner>,
    /// 0 closed, 1 probing, 2 open.
    gauge: Gauge,
}

#[derive(Debug)]
struct Inner {
    state: State,
    /// Grows with each change of state: a call that was let through before tells nothing about the state after.
    epoch: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Closed { faults: u32 },
    Open { probe_at: Instant },
    Probing,
}

impl Breaker {
    pub(super) fn new(policy: BreakerPolicy, gauge: Gauge) -> Self {
        let policy = BreakerPolicy {
            faults: policy.faults.max(1),
            probe_after: policy.probe_after.min(LONGEST_PROBE_WAIT),
        };
        gauge.set(0);
        let inner = Mutex::new(Inner {
            state: State::Closed { faults: 0 },
            epoch: 0,
        });
        Self { policy, inner, gauge }
    }

    /// Lets a call through, or says how long to wait.
    pub(super) fn admit(&self) -> Result<Pass<'_>, Duration> {
        let mut inner = self.lock();
        match inner.state {
            State::Closed { .. } => {}
            State::Open { probe_at } => {
                let wait = probe_at.saturating_duration_since(Instant::now());
                if !wait.is_zero() {
                    return Err(wait);
                }
                self.change(&mut inner, State::Probing);
            }
            // The probe will tell soon; its own deadline is not known here.
            State::Probing => return Err(self.policy.probe_after),
        }
        Ok(Pass {
            breaker: self,
            epoch: inner.epoch,
            recorded: false,
        })
    }

    fn record(&self, epoch: u64, against: bool) {
        let mut inner = self.lock();
        if inner.epoch != epoch {
            return;
        }
        let open = State::Open {
            probe_at: Instant::now() + self.policy.probe_after,
        };
        match (inner.state, against) {
            (State::Closed { faults }, true) if faults + 1 >= self.policy.faults => {
                self.change(&mut inner, open);
            }
            // Not a change of state: calls that run meanwhile still count.
            (State::Closed { faults }, true) => inner.state = State::Closed { faults: faults + 1 },
            (State::Closed { .. }, false) => inner.state = State::Closed { faults: 0 },
            (State::Probing, true) => self.change(&mut inner, open),
            (State::Probing, false) => self.change(&mut inner, State::Closed { faults: 0 }),
            (State::Open { .. }, _) => {}
        }
    }

    /// A probe that was dropped has told nothing: the next call may probe at once.
    fn abandon(&self, epoch: u64) {
        let mut inner = self.lock();
        if inner.epoch == epoch && inner.state == State::Probing {
            self.change(
                &mut inner,
                State::Open {
                    probe_at: Instant::now(),
                },
            );
        }
    }

    fn change(&self, inner: &mut Inner, state: State) {
        inner.state = state;
        inner.epoch += 1;
        self.gauge.set(match state {
            State::Closed { .. } => 0,
            State::Probing => 1,
            State::Open { .. } => 2,
        });
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Leave to make one attempt.
#[derive(Debug)]
pub(super) struct Pass<'a> {
    breaker: &'a Breaker,
    epoch: u64,
    recorded: bool,
}

impl Pass<'_> {
    /// Tells whether the attempt spoke against the target.
    pub(super) fn record(mut self, against: bool) {
        self.recorded = true;
        self.breaker.record(self.epoch, against);
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        if !self.recorded {
            self.breaker.abandon(self.epoch);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: BreakerPolicy = BreakerPolicy {
        faults: 3,
        probe_after: Duration::from_secs(60),
    };

    fn breaker() -> Breaker {
        Breaker::new(POLICY, Gauge::default())
    }

    fn fail(breaker: &Breaker, times: u32) {
        (0..times).for_each(|_| breaker.admit().unwrap().record(true));
    }

    #[tokio::test(start_paused = true)]
    async fn opens_after_faults_in_a_row_alone() {
        let breaker = breaker();
        fail(&breaker, 2);
        breaker.admit().unwrap().record(false);
        fail(&breaker, 2);
        assert!(breaker.admit().is_ok());
        fail(&breaker, 1);
        assert_eq!(
            breaker.admit().unwrap_err(),
            LONGEST_PROBE_WAIT,
            "never longer, whatever the policy says"
        );
        assert_eq!(breaker.gauge.get(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn lets_one_probe_through_and_closes_or_opens_by_it() {
        let breaker = breaker();
        fail(&breaker, 3);
        tokio::time::advance(LONGEST_PROBE_WAIT).await;
        let probe = breaker.admit().unwrap();
        assert!(breaker.admit().is_err(), "one probe at a time");
        probe.record(true);
        assert_eq!(breaker.admit().unwrap_err(), LONGEST_PROBE_WAIT);
        tokio::time::advance(LONGEST_PROBE_WAIT).await;
        breaker.admit().unwrap().record(false);
        assert_eq!(breaker.gauge.get(), 0);
        fail(&breaker, 2);
        assert!(breaker.admit().is_ok(), "the count starts over");
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_probe_makes_room_for_the_next() {
        let breaker = breaker();
        fail(&breaker, 3);
        tokio::time::advance(LONGEST_PROBE_WAIT).await;
        drop(breaker.admit().unwrap());
        breaker.admit().unwrap().record(false);
        assert!(breaker.admit().is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_answer_from_before_tells_nothing() {
        let breaker = breaker();
        let slow = breaker.admit().unwrap();
        fail(&breaker, 3);
        slow.record(false);
        assert!(breaker.admit().is_err(), "an old success does not close it");
        tokio::time::advance(LONGEST_PROBE_WAIT).await;
        breaker.admit().unwrap().record(false);
        assert!(breaker.admit().is_ok());
    }
}
