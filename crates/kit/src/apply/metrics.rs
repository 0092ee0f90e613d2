//! How many writes there were, of what kind, how they ended and how long they took.

use std::time::Instant;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use trustplane_process::metrics::Metrics;

use super::error::{Attempt, WriteError};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    manager: &'static str,
    verb: &'static str,
    kind: String,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VerbLabels {
    verb: &'static str,
}

#[derive(Debug, Clone)]
pub(super) struct WriteMetrics {
    writes: Family<Labels, Counter>,
    seconds: Family<VerbLabels, Histogram>,
}

impl WriteMetrics {
    pub fn shared(metrics: &Metrics) -> Self {
        metrics.shared(|registry| {
            let writes = Family::default();
            registry.register("writes", "writes to the API server by outcome", writes.clone());
            let make: fn() -> Histogram = || Histogram::new(exponential_buckets(0.002, 2.0, 14));
            let seconds = Family::new_with_constructor(make);
            registry.register(
                "write_seconds",
                "time of one write to the API server",
                seconds.clone(),
            );
            Self { writes, seconds }
        })
    }

    pub fn note<T>(
        &self,
        manager: &'static str,
        attempt: &Attempt,
        started: Instant,
        outcome: &Result<T, WriteError>,
    ) {
        let labels = Labels {
            manager,
            verb: attempt.verb(),
            kind: attempt.target().kind.to_string(),
            outcome: outcome
                .as_ref()
                .map_or_else(trustplane_plan::Classified::reason, |_| "ok"),
        };
        self.writes.get_or_create(&labels).inc();
        let verb = VerbLabels { verb: attempt.verb() };
        self.seconds
            .get_or_create(&verb)
            .observe(started.elapsed().as_secs_f64());
    }
}
