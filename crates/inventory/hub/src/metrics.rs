//! What the hub counts.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use trustplane_process::metrics::Metrics;

use crate::record::Reason;

/// How long snapshots take, in seconds.
const SNAPSHOT_BUCKETS: [f64; 9] = [0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 180.0, 600.0, 1800.0];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Request {
    path: &'static str,
    status: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Rejected {
    reason: &'static str,
}

/// The counters of the hub; a cheap clone.
#[derive(Debug, Clone)]
pub struct HubMetrics {
    requests: Family<Request, Counter>,
    objects: Gauge,
    snapshots: Histogram,
    rejected: Family<Rejected, Counter>,
    ignored: Counter,
}

impl HubMetrics {
    /// Adds the counters to those of the process.
    pub fn register(metrics: &Metrics) -> Self {
        let counts = Self {
            requests: Family::default(),
            objects: Gauge::default(),
            snapshots: Histogram::new(SNAPSHOT_BUCKETS),
            rejected: Family::default(),
            ignored: Counter::default(),
        };
        metrics.register(|registry| {
            let registry = registry.sub_registry_with_prefix("hub");
            registry.register(
                "requests",
                "requests by path and class of status",
                counts.requests.clone(),
            );
            registry.register("objects", "live objects of all clusters", counts.objects.clone());
            let snapshots = counts.snapshots.clone();
            registry.register(
                "snapshot_duration_seconds",
                "time to take in a snapshot",
                snapshots,
            );
            let rejected = counts.rejected.clone();
            registry.register(
                "rejected_records",
                "requests refused for what they hold",
                rejected,
            );
            let ignored = counts.ignored.clone();
            registry.register(
                "ignored_records",
                "records of deleted or replaced objects",
                ignored,
            );
        });
        counts
    }

    /// Counts an answer.
    pub fn request(&self, path: &'static str, status: http::StatusCode) {
        let status = match status.as_u16() / 100 {
            2 => "2xx",
            3 => "3xx",
            4 => "4xx",
            5 => "5xx",
            _ => "1xx",
        };
        self.requests.get_or_create(&Request { path, status }).inc();
    }

    /// Tells how many live objects there are.
    pub fn objects(&self, objects: i64) {
        self.objects.set(objects);
    }

    /// Notes how long a snapshot took.
    pub fn snapshot(&self, took: Duration) {
        self.snapshots.observe(took.as_secs_f64());
    }

    /// Counts a request that was refused for what it holds.
    pub fn rejected(&self, reason: Reason) {
        let reason = reason.into();
        self.rejected.get_or_create(&Rejected { reason }).inc();
    }

    /// Counts records that changed nothing because their object is gone.
    pub fn ignored(&self, records: usize) {
        self.ignored.inc_by(records as u64);
    }
}
