//! The metrics of all controllers of a process.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use trustplane_plan::Classified;
use trustplane_process::metrics::Metrics;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    controller: &'static str,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ErrorLabels {
    controller: &'static str,
    class: &'static str,
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StepLabels {
    controller: &'static str,
    step: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    controller: &'static str,
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ControllerLabel {
    controller: &'static str,
}

/// The families that all controllers of a process share.
#[derive(Debug, Clone)]
pub(super) struct ControllerMetrics {
    seconds: Family<OutcomeLabels, Histogram>,
    errors: Family<ErrorLabels, Counter>,
    steps: Family<StepLabels, Counter>,
    stale: Family<ControllerLabel, Counter>,
    unseen: Family<ControllerLabel, Counter>,
    told: Family<ReasonLabels, Counter>,
    held: Family<ControllerLabel, Counter>,
}

impl ControllerMetrics {
    pub(super) fn shared(metrics: &Metrics) -> Self {
        metrics.shared(|registry| {
            let seconds = Family::new_with_constructor(
                (|| Histogram::new(exponential_buckets(0.001, 3.0, 10))) as fn() -> Histogram,
            );
            let families = Self {
                seconds,
                errors: Family::default(),
                steps: Family::default(),
                stale: Family::default(),
                unseen: Family::default(),
                told: Family::default(),
                held: Family::default(),
            };
            registry.register(
                "reconcile_seconds",
                "time of one piece of work",
                families.seconds.clone(),
            );
            registry.register(
                "reconcile_errors",
                "pieces of work that failed",
                families.errors.clone(),
            );
            registry.register(
                "reconcile_steps",
                "steps of plans carried out",
                families.steps.clone(),
            );
            let help = "plans made anew because the view they rested on was out of date";
            registry.register("reconcile_stale_views", help, families.stale.clone());
            let help = "looks that a store delayed or made live because it did not show our last write";
            registry.register("reconcile_unseen_writes", help, families.unseen.clone());
            let help = "what was told to users, by reason";
            registry.register("reconcile_told", help, families.told.clone());
            let help = "plans held back because they remove something and a store was not current";
            registry.register("reconcile_held_removals", help, families.held.clone());
            families
        })
    }

    pub(super) fn succeeded(&self, controller: &'static str, took: Duration) {
        self.observe(controller, "success", took);
    }

    pub(super) fn failed(&self, controller: &'static str, fault: &impl Classified, took: Duration) {
        let class = fault.class().as_str();
        self.observe(controller, class, took);
        self.errors
            .get_or_create(&ErrorLabels {
                controller,
                class,
                reason: fault.reason(),
            })
            .inc();
    }

    pub(super) fn step(&self, controller: &'static str, step: &'static str) {
        self.steps.get_or_create(&StepLabels { controller, step }).inc();
    }

    pub(super) fn stale(&self, controller: &'static str) {
        self.stale.get_or_create(&ControllerLabel { controller }).inc();
    }

    pub(super) fn unseen(&self, controller: &'static str) {
        self.unseen.get_or_create(&ControllerLabel { controller }).inc();
    }

    pub(super) fn told(&self, controller: &'static str, reason: &'static str) {
        self.told
            .get_or_create(&ReasonLabels { controller, reason })
            .inc();
    }

    pub(super) fn held(&self, controller: &'static str) {
        self.held.get_or_create(&ControllerLabel { controller }).inc();
    }

    fn observe(&self, controller: &'static str, outcome: &'static str, took: Duration) {
        self.seconds
            .get_or_create(&OutcomeLabels { controller, outcome })
            .observe(took.as_secs_f64());
    }
}
