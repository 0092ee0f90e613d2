//! What is counted about a target.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use tokio::time::Instant;

use super::fault::{Fault, OutsideError};
use crate::metrics::Metrics;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Target {
    target: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TargetOutcome {
    target: String,
    outcome: &'static str,
}

/// The families that all targets of a process share.
#[derive(Debug, Clone)]
struct Families {
    calls: Family<TargetOutcome, Counter>,
    attempts: Family<TargetOutcome, Counter>,
    seconds: Family<Target, Histogram, fn() -> Histogram>,
    in_flight: Family<Target, Gauge>,
    breaker: Family<Target, Gauge>,
}

impl Families {
    fn shared(metrics: &Metrics) -> Self {
        metrics.shared(|registry| {
            let families = Self {
                calls: Family::default(),
                attempts: Family::default(),
                seconds: Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.005, 2.0, 13))),
                in_flight: Family::default(),
                breaker: Family::default(),
            };
            registry.register(
                "outside_calls",
                "calls to outside targets",
                families.calls.clone(),
            );
            registry.register(
                "outside_attempts",
                "attempts made for these calls",
                families.attempts.clone(),
            );
            registry.register(
                "outside_call_seconds",
                "how long calls took, retries included",
                families.seconds.clone(),
            );
            registry.register(
                "outside_in_flight",
                "calls that run now",
                families.in_flight.clone(),
            );
            let breaker = families.breaker.clone();
            registry.register("outside_breaker_state", "0 closed, 1 probing, 2 open", breaker);
            families
        })
    }
}

#[derive(Debug)]
pub(super) struct Meters {
    families: Families,
    target: String,
    seconds: Histogram,
    in_flight: Gauge,
}

impl Meters {
    pub(super) fn new(metrics: &Metrics, target: &str) -> Self {
        let families = Families::shared(metrics);
        let labels = Target {
            target: target.to_owned(),
        };
        let seconds = families.seconds.get_or_create(&labels).clone();
        let in_flight = families.in_flight.get_or_create(&labels).clone();
        Self {
            families,
            target: labels.target,
            seconds,
            in_flight,
        }
    }

    pub(super) fn breaker(&self) -> Gauge {
        self.families
            .breaker
            .get_or_create(&Target {
                target: self.target.clone(),
            })
            .clone()
    }

    pub(super) fn start(&self) -> Running<'_> {
        self.in_flight.inc();
        Running {
            meters: self,
            start: Instant::now(),
            outcome: "cancelled",
        }
    }

    pub(super) fn attempt<T>(&self, result: &Result<T, Fault>) {
        let outcome = result.as_ref().err().map_or("ok", |fault| fault.kind().into());
        self.families.attempts.get_or_create(&self.labels(outcome)).inc();
    }

    fn labels(&self, outcome: &'static str) -> TargetOutcome {
        TargetOutcome {
            target: self.target.clone(),
            outcome,
        }
    }
}

/// A call that runs. Dropped without an end, it counts as cancelled.
pub(super) struct Running<'a> {
    meters: &'a Meters,
    start: Instant,
    outcome: &'static str,
}

impl Running<'_> {
    pub(super) fn end<T>(mut self, result: &Result<T, OutsideError>) {
        self.outcome = result.as_ref().err().map_or("ok", OutsideError::label);
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.meters.in_flight.dec();
        self.meters.seconds.observe(self.start.elapsed().as_secs_f64());
        self.meters
            .families
            .calls
            .get_or_create(&self.meters.labels(self.outcome))
            .inc();
    }
}
