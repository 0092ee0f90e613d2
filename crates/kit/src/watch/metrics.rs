//! The metrics of watches.

use std::{sync::atomic::AtomicU64, time::SystemTime};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
};
use trustplane_plan::Kind;
use trustplane_process::metrics::Metrics;

use super::{Reason, wire::EventKind};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfKind {
    kind: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfEvent {
    kind: String,
    event: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfFailure {
    kind: String,
    reason: &'static str,
}

/// The metrics of all watches of a process.
#[derive(Debug, Clone, Default)]
pub(super) struct WatchMetrics {
    events: Family<OfEvent, Counter>,
    lists: Family<OfKind, Counter>,
    failures: Family<OfFailure, Counter>,
    objects: Family<OfKind, Gauge>,
    pending: Family<OfKind, Gauge>,
    heard: Family<OfKind, Gauge<f64, AtomicU64>>,
}

impl WatchMetrics {
    pub(super) fn new(metrics: &Metrics) -> Self {
        metrics.shared(|registry| {
            let own = Self::default();
            registry.register("watch_events", "Events taken from watches", own.events.clone());
            registry.register(
                "watch_lists",
                "Lists that were put in place, the first included",
                own.lists.clone(),
            );
            registry.register(
                "watch_failures",
                "Requests, objects and connections that failed",
                own.failures.clone(),
            );
            registry.register("watch_objects", "Objects in stores", own.objects.clone());
            registry.register(
                "watch_pending",
                "Changes that subscribers have yet to take",
                own.pending.clone(),
            );
            let help = "When the API server was last heard, in seconds since 1970";
            registry.register("watch_last_heard_timestamp_seconds", help, own.heard.clone());
            own
        })
    }

    /// The metrics of one watch. Watches of one kind count together.
    pub(super) fn of(&self, kind: &Kind) -> KindMetrics {
        let label = OfKind {
            kind: kind.to_string(),
        };
        KindMetrics {
            all: self.clone(),
            objects: self.objects.get_or_create_owned(&label),
            pending: self.pending.get_or_create_owned(&label),
            heard: self.heard.get_or_create_owned(&label),
            lists: self.lists.get_or_create_owned(&label),
            kind: label.kind,
        }
    }
}

/// The metrics of one watch.
#[derive(Debug)]
pub(super) struct KindMetrics {
    all: WatchMetrics,
    kind: String,
    pub(super) objects: Gauge,
    pub(super) pending: Gauge,
    pub(super) lists: Counter,
    heard: Gauge<f64, AtomicU64>,
}

impl KindMetrics {
    pub(super) fn event(&self, event: EventKind) {
        let (kind, event) = (self.kind.clone(), event.as_str());
        self.all.events.get_or_create(&OfEvent { kind, event }).inc();
    }

    pub(super) fn failure(&self, reason: Reason) {
        let (kind, reason) = (self.kind.clone(), reason.as_str());
        self.all.failures.get_or_create(&OfFailure { kind, reason }).inc();
    }

    pub(super) fn heard(&self) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        self.heard.set(now.unwrap_or_default().as_secs_f64());
    }
}
