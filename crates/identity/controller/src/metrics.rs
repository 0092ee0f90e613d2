//! What the capability tells of itself, besides what every controller and every review does.

use std::sync::atomic::AtomicI64;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use trustplane_api::identity::OperandKind;
use trustplane_process::metrics::Metrics;

/// Why an operand rolls out, and which.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Rollout {
    kind: &'static str,
    cause: &'static str,
}

/// The rule that a request broke.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Denial {
    rule: &'static str,
}

/// The metrics of the capability. A cheap clone.
#[derive(Clone)]
pub(crate) struct IdentityMetrics {
    synchronised: Histogram,
    unowned: Gauge<i64, AtomicI64>,
    rollouts: Family<Rollout, Counter>,
    denials: Family<Denial, Counter>,
}

impl IdentityMetrics {
    /// The metrics of the process: the controllers and the webhooks count into the same ones.
    pub fn shared(metrics: &Metrics) -> Self {
        metrics.shared(|registry| {
            let own = Self {
                // From 5 ms to about 80 seconds.
                synchronised: Histogram::new(exponential_buckets(0.005, 2.0, 15)),
                unowned: Gauge::default(),
                rollouts: Family::default(),
                denials: Family::default(),
            };
            registry.register(
                "identity_config_sync_seconds",
                "time from a change of the ZeroTrustWorkloadIdentityManager until every operand has it",
                own.synchronised.clone(),
            );
            registry.register(
                "identity_operands_missing_owner",
                "operands without an owner reference to the ZeroTrustWorkloadIdentityManager",
                own.unowned.clone(),
            );
            registry.register(
                "identity_operand_rollouts",
                "changes of the workload of an operand by kind and cause",
                own.rollouts.clone(),
            );
            registry.register(
                "identity_webhook_denials",
                "requests that the webhooks refused, by rule",
                own.denials.clone(),
            );
            own
        })
    }

    /// Every operand has a change of ZTWIM, so long after it was seen.
    pub fn synchronised(&self, time: Duration) {
        self.synchronised.observe(time.as_secs_f64());
    }

    /// So many operands have no owner reference.
    pub fn unowned(&self, operands: usize) {
        self.unowned.set(i64::try_from(operands).unwrap_or(i64::MAX));
    }

    /// The workload of an operand was changed.
    pub fn rolled_out(&self, operand: OperandKind, cause: &'static str) {
        let kind = operand.as_str();
        self.rollouts.get_or_create(&Rollout { kind, cause }).inc();
    }

    /// A request was refused.
    pub fn denied(&self, rule: &'static str) {
        self.denials.get_or_create(&Denial { rule }).inc();
    }
}
