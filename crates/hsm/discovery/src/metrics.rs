//! What the process counts.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use trustplane_process::metrics::Metrics;

/// One label, with values from code.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Result {
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct State {
    state: &'static str,
}

/// The counters of the process; a cheap clone.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    looks: Family<Result, Counter>,
    events: Family<Result, Counter>,
    devices: Family<State, Gauge>,
    reports: Family<Result, Counter>,
    registrations: Family<Result, Counter>,
    allocations: Family<Result, Counter>,
}

impl Counts {
    /// Adds the counters to those of the process.
    pub fn register(metrics: &Metrics) -> Self {
        let counts = Self::default();
        metrics.register(|registry| {
            let registry = registry.sub_registry_with_prefix("hsm_discovery");
            registry.register("looks", "looks at the node", counts.looks.clone());
            registry.register("events", "events of the kernel", counts.events.clone());
            registry.register("devices", "devices that are wanted", counts.devices.clone());
            registry.register("reports", "reports written", counts.reports.clone());
            let registrations = counts.registrations.clone();
            registry.register("registrations", "registrations with kubelet", registrations);
            let allocations = counts.allocations.clone();
            registry.register("allocations", "allocations that kubelet asked for", allocations);
        });
        counts
    }

    pub(crate) fn look(&self, result: &'static str) {
        self.looks.get_or_create(&Result { result }).inc();
    }

    pub(crate) fn event(&self, result: &'static str) {
        self.events.get_or_create(&Result { result }).inc();
    }

    pub(crate) fn devices(&self, available: usize, lost: usize) {
        for (state, count) in [("available", available), ("lost", lost)] {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            self.devices.get_or_create(&State { state }).set(count);
        }
    }

    pub(crate) fn report(&self, result: &'static str) {
        self.reports.get_or_create(&Result { result }).inc();
    }

    pub(crate) fn registration(&self, result: &'static str) {
        self.registrations.get_or_create(&Result { result }).inc();
    }

    pub(crate) fn allocation(&self, result: &'static str) {
        self.allocations.get_or_create(&Result { result }).inc();
    }
}
