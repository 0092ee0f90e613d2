//! How a target is described.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use super::breaker::{Breaker, BreakerPolicy};
use super::flight::Flights;
use super::hold::Hold;
use super::limit::{Limit, Limiter};
use super::meters::Meters;
use super::retry::Retry;
use super::{Inner, Outside};
use crate::metrics::Metrics;

/// A target under description: 30 s for a call, four attempts, no rate limit, the usual breaker.
#[must_use]
pub struct OutsideBuilder {
    target: Cow<'static, str>,
    deadline: Duration,
    attempt_deadline: Option<Duration>,
    retry: Retry,
    limit: Option<Limit>,
    breaker: BreakerPolicy,
    jitter: Box<dyn Fn() -> f64 + Send + Sync>,
}

impl OutsideBuilder {
    pub(super) fn new(target: Cow<'static, str>) -> Self {
        Self {
            target,
            deadline: Duration::from_secs(30),
            attempt_deadline: None,
            retry: Retry::default(),
            limit: None,
            breaker: BreakerPolicy::default(),
            jitter: Box::new(rand::random),
        }
    }

    /// How long a call may take in all: waiting for the limit, attempts, and waits between them.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// How long one attempt may take, so that a hanging one leaves time for another.
    pub fn attempt_deadline(mut self, deadline: Duration) -> Self {
        self.attempt_deadline = Some(deadline);
        self
    }

    /// How often and when a call is tried again.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// How many attempts the target gets.
    pub fn limit(mut self, limit: Limit) -> Self {
        self.limit = Some(limit);
        self
    }

    /// When the target counts as failing.
    pub fn breaker(mut self, policy: BreakerPolicy) -> Self {
        self.breaker = policy;
        self
    }

    /// Another source of numbers from [0, 1) for the jitter, so that a test knows the waits.
    pub fn jitter(mut self, jitter: impl Fn() -> f64 + Send + Sync + 'static) -> Self {
        self.jitter = Box::new(jitter);
        self
    }

    /// The target.
    pub fn build(self, metrics: &Metrics) -> Outside {
        let meters = Meters::new(metrics, &self.target);
        Outside(Arc::new(Inner {
            target: self.target,
            deadline: self.deadline,
            attempt_deadline: self.attempt_deadline,
            retry: self.retry,
            limiter: self.limit.map(Limiter::new),
            breaker: Breaker::new(self.breaker, meters.breaker()),
            hold: Hold::default(),
            flights: Arc::new(Flights::default()),
            meters,
            jitter: self.jitter,
        }))
    }
}

impl std::fmt::Debug for OutsideBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OutsideBuilder")
            .field("target", &self.target)
            .finish_non_exhaustive()
    }
}
