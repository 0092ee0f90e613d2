//! What the capability tells of itself, besides what every controller and every outside call does.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use trustplane_process::clock::Clock;
use trustplane_process::metrics::Metrics;

use crate::ledger::Ledger;

/// The metrics of the capability. A cheap clone.
#[derive(Clone)]
pub(crate) struct SyncMetrics {
    wait: Histogram,
}

impl SyncMetrics {
    pub fn new(metrics: &Metrics, ledger: &Ledger, clock: Arc<dyn Clock>) -> Self {
        metrics.register(|registry| {
            // From 5 ms to about three minutes.
            let wait = Histogram::new(exponential_buckets(0.005, 2.0, 16));
            let help = "time from the creation of a pod until its Secret is there for the first time";
            registry.register("sync_pod_to_secret_seconds", help, wait.clone());
            registry.register_collector(Box::new(Staleness {
                ledger: ledger.clone(),
                clock,
            }));
            Self { wait }
        })
    }

    /// A pod has its Secret for the first time, so long after it was created.
    pub fn waited(&self, wait: Duration) {
        self.wait.observe(wait.as_secs_f64());
    }
}

/// Secrets that cannot be brought up to date, looked up when somebody wants to know.
struct Staleness {
    ledger: Ledger,
    clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for Staleness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Staleness")
    }
}

impl Collector for Staleness {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let (failing, oldest) = self.ledger.failing();
        let age = oldest.map_or(0.0, |since| self.clock.now().duration_since(since).as_secs_f64());
        let mut gauge = |name, help, value: f64| {
            let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(value).encode(metric)
        };
        #[allow(clippy::cast_precision_loss, reason = "nobody has 2^52 Secrets")]
        gauge(
            "sync_failing_secrets",
            "Secrets that are wanted and cannot be brought up to date",
            failing as f64,
        )?;
        gauge(
            "sync_staleness_seconds",
            "time since the first of them began to fail",
            age.max(0.0),
        )
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use trustplane_plan::ObjectRef;
    use trustplane_process::clock::SystemClock;
    use trustplane_sync_core::situation::Record;

    use super::*;

    #[test]
    fn what_fails_shows_with_its_age() {
        let (metrics, ledger) = (Metrics::new(), Ledger::default());
        let own = SyncMetrics::new(&metrics, &ledger, Arc::new(SystemClock));
        own.waited(Duration::from_millis(20));
        let text = metrics.encode();
        for line in [
            "trustplane_sync_failing_secrets 0.0",
            "trustplane_sync_staleness_seconds 0.0",
            "trustplane_sync_pod_to_secret_seconds_count 1",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        let mut record = Record::new(Timestamp::UNIX_EPOCH);
        record.failing_since = Some(Timestamp::UNIX_EPOCH);
        ledger.put(ObjectRef::new(Some("n"), "s"), record);
        let text = metrics.encode();
        assert!(text.contains("trustplane_sync_failing_secrets 1.0"), "{text}");
        assert!(!text.contains("trustplane_sync_staleness_seconds 0.0"), "{text}");
    }
}
