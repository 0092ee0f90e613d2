//! Calls to what is not ours: vaults, hubs, cloud APIs.
//!
//! Every call has a total deadline, exactly one layer of retries (turn off the client library's own), a circuit
//! breaker, a rate limit, and metrics. Calls with the same key that run at the same time are one call. A `Retry-After` of one
//! call (429 or 503) holds back all calls to the target, for 120 s at most: a call that meets the hold waits if its deadline
//! allows, and fails at once otherwise.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! use std::time::Duration;
//! use trustplane_process::{metrics::Metrics, outside::{Fault, Outside}};
//!
//! let vault = Outside::builder("vault").deadline(Duration::from_secs(10)).build(&Metrics::new());
//! let value = vault.call("kv/data/app", |_attempt| async { Ok::<_, Fault>("value") }).await?;
//! assert_eq!(value, "value");
//! # Ok::<(), trustplane_process::outside::OutsideError>(()) }).unwrap();
//! ```
//!
//! Not for calls to the Kubernetes API, which have a backoff per object.

mod breaker;
mod builder;
mod fault;
mod flight;
mod hold;
mod limit;
mod meters;
mod retry;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::time::{Instant, sleep, timeout_at};
use tracing::Instrument;

pub use breaker::BreakerPolicy;
pub use builder::OutsideBuilder;
pub use fault::{Fault, FaultKind, OutsideError, retry_after};
pub use limit::Limit;
pub use retry::Retry;

use breaker::Breaker;
use flight::Flights;
use hold::Hold;
use limit::Limiter;
use meters::Meters;

/// One try of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    /// 1 for the first.
    pub number: u32,
    /// When the try is given up.
    pub deadline: Instant,
}

/// A target outside the process, with everything that calls to it share; a cheap clone.
#[derive(Clone)]
pub struct Outside(Arc<Inner>);

struct Inner {
    target: Cow<'static, str>,
    deadline: Duration,
    attempt_deadline: Option<Duration>,
    retry: Retry,
    limiter: Option<Limiter>,
    breaker: Breaker,
    hold: Hold,
    flights: Arc<Flights>,
    meters: Meters,
    jitter: Box<dyn Fn() -> f64 + Send + Sync>,
}

impl Outside {
    /// Starts to describe a target. The name is text from code, since it is a metric label.
    pub fn builder(target: impl Into<Cow<'static, str>>) -> OutsideBuilder {
        OutsideBuilder::new(target.into())
    }

    /// Makes a call, or joins the running call of the same key and result type.
    ///
    /// Who joins shares the result and the deadline of the running call. The call goes on while anybody waits for it,
    /// also when the one who started it is gone. For reads; what has an effect goes through [`Outside::call_alone`].
    pub async fn call<T, F, Fut>(&self, key: impl Into<String>, op: F) -> Result<T, OutsideError>
    where
        T: Clone + Send + Sync + 'static,
        F: Fn(Attempt) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, Fault>> + Send + 'static,
    {
        let this = self.clone();
        let flight = self.0.flights.join(key.into(), move || {
            async move { this.call_alone(op).await }.in_current_span().boxed()
        });
        flight.await
    }

    /// Makes a call of its own.
    pub async fn call_alone<T, F, Fut>(&self, op: F) -> Result<T, OutsideError>
    where
        F: Fn(Attempt) -> Fut,
        Fut: Future<Output = Result<T, Fault>>,
    {
        let meter = self.0.meters.start();
        let result = self.0.attempts(op).await;
        meter.end(&result);
        result
    }
}

impl Inner {
    async fn attempts<T, F, Fut>(&self, op: F) -> Result<T, OutsideError>
    where
        F: Fn(Attempt) -> Fut,
        Fut: Future<Output = Result<T, Fault>>,
    {
        let until = Instant::now() + self.deadline;
        let mut last = None;
        let mut number = 1;
        loop {
            let fault = match self.attempt(&op, number, until).await {
                Ok(Ok(value)) => return Ok(value),
                Ok(Err(fault)) => fault,
                // The fault before tells more than "not tried again".
                Err(refused) => return Err(last.unwrap_or(refused)),
            };
            let wait = self.retry.wait(number, &fault, (self.jitter)());
            let error = OutsideError::failed(self.target.clone(), number, fault);
            match wait {
                Some(wait) if is_before(wait, until) => sleep(wait).await,
                _ => return Err(error),
            }
            last = Some(error);
            number += 1;
        }
    }

    /// One attempt; the outer error says that it was not made.
    async fn attempt<T, F, Fut>(
        &self,
        op: &F,
        number: u32,
        until: Instant,
    ) -> Result<Result<T, Fault>, OutsideError>
    where
        F: Fn(Attempt) -> Fut,
        Fut: Future<Output = Result<T, Fault>>,
    {
        self.released(until).await?;
        let pass = self
            .breaker
            .admit()
            .map_err(|wait| OutsideError::open(self.target.clone(), wait))?;
        if let Some(limiter) = &self.limiter {
            limiter
                .wait(until)
                .await
                .map_err(|()| OutsideError::saturated(self.target.clone()))?;
            // A hold may have begun while the call waited for its turn.
            self.released(until).await?;
        }
        let own = self.attempt_deadline.map(|deadline| Instant::now() + deadline);
        let deadline = own.map_or(until, |own| own.min(until));
        let result = timeout_at(deadline, op(Attempt { number, deadline })).await;
        let result = result.unwrap_or_else(|_| Err(Fault::timeout("the deadline passed")));
        pass.record(
            result
                .as_ref()
                .err()
                .is_some_and(|fault| fault.kind().speaks_against_target()),
        );
        if let Some(wait) = result.as_ref().err().and_then(Fault::hold) {
            self.hold.extend(wait);
        }
        self.meters.attempt(&result);
        Ok(result)
    }

    /// Waits until the target wants calls again.
    async fn released(&self, until: Instant) -> Result<(), OutsideError> {
        let spread = self.retry.backoff.delay(0, (self.jitter)());
        let waited = self.hold.wait(until, spread).await;
        waited.map_err(|left| OutsideError::held(self.target.clone(), left))
    }
}

/// Whether a wait from now ends before `until`. The wait may be longer than a clock can tell: the target names it.
fn is_before(wait: Duration, until: Instant) -> bool {
    let end = Instant::now().checked_add(wait);
    end.is_some_and(|end| end < until)
}

impl std::fmt::Debug for Outside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outside")
            .field("target", &self.0.target)
            .finish_non_exhaustive()
    }
}
