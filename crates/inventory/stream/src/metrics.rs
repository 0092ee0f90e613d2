//! What the capability tells of itself, besides what watches, controllers and outside calls do.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use trustplane_inventory_core::sender::{Call, Outcome, Report};
use trustplane_inventory_core::world::SenderId;
use trustplane_process::metrics::Metrics;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Request {
    request: &'static str,
    outcome: &'static str,
}

/// The metrics of the capability. A cheap clone.
#[derive(Debug, Clone)]
pub(crate) struct StreamMetrics {
    requests: Family<Request, Counter>,
    snapshots: Histogram,
    pending: Gauge,
    pending_bytes: Gauge,
    refused: Gauge,
    lost: Gauge,
    reports: Arc<Mutex<BTreeMap<SenderId, Report>>>,
}

impl StreamMetrics {
    pub fn new(metrics: &Metrics) -> Self {
        metrics.register(|registry| {
            let own = Self {
                requests: Family::default(),
                // From 10 ms to about five minutes.
                snapshots: Histogram::new(exponential_buckets(0.01, 2.0, 15)),
                pending: Gauge::default(),
                pending_bytes: Gauge::default(),
                refused: Gauge::default(),
                lost: Gauge::default(),
                reports: Arc::default(),
            };
            registry.register(
                "inventory_requests",
                "requests to platforms",
                own.requests.clone(),
            );
            registry.register(
                "inventory_snapshot_seconds",
                "how long snapshots took to send",
                own.snapshots.clone(),
            );
            registry.register(
                "inventory_pending",
                "changes that wait to be sent, of all platforms",
                own.pending.clone(),
            );
            registry.register(
                "inventory_pending_bytes",
                "memory of the changes that wait, of all platforms",
                own.pending_bytes.clone(),
            );
            registry.register(
                "inventory_refused_objects",
                "objects that a platform refused and that have not changed since",
                own.refused.clone(),
            );
            registry.register(
                "inventory_lost_deletions",
                "deletions that found no room or were refused; only platforms that sweep learn of them",
                own.lost.clone(),
            );
            own
        })
    }

    /// A request was answered.
    pub fn sent(&self, call: &Call, outcome: &Outcome, took: Duration) {
        let request = match call {
            Call::Heartbeat => "heartbeat",
            Call::Snapshot(_) => "snapshot",
            Call::Event(_) => "event",
        };
        let outcome = match outcome {
            Outcome::Accepted => "accepted",
            Outcome::Unreachable(_) => "unreachable",
            Outcome::Throttled(_) => "throttled",
            Outcome::Unauthorized(_) => "unauthorized",
            Outcome::Forbidden(_) => "forbidden",
            Outcome::Refused(..) => "refused",
        };
        self.requests.get_or_create(&Request { request, outcome }).inc();
        if request == "snapshot" && outcome == "accepted" {
            self.snapshots.observe(took.as_secs_f64());
        }
    }

    /// A platform's sender says this of itself.
    pub fn pending(&self, id: SenderId, report: &Report) {
        self.change(|reports| drop(reports.insert(id, report.clone())));
    }

    /// A platform is served no longer.
    pub fn forget(&self, id: SenderId) {
        self.change(|reports| drop(reports.remove(&id)));
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<SenderId, Report>)) {
        let mut reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut reports);
        let sum = |of: fn(&Report) -> usize| {
            i64::try_from(reports.values().map(of).sum::<usize>()).unwrap_or(i64::MAX)
        };
        self.pending.set(sum(|report| report.pending));
        self.pending_bytes.set(sum(|report| report.pending_bytes));
        self.refused.set(sum(|report| report.refused));
        self.lost.set(sum(|report| {
            usize::try_from(report.lost_deletions).unwrap_or(usize::MAX)
        }));
    }
}
