//! The metrics of all queues of a process.
//!
//! Depths and ages are read when somebody asks, so that a queue does no work for them and an age grows by itself.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use strum::IntoEnumIterator;
use trustplane_process::metrics::Metrics;

use super::{Depths, Lane};

/// Seconds: from "at once" to "something is wrong".
const WAITS: [f64; 10] = [0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0, 600.0];

/// A queue that can be asked how full it is.
pub(super) trait Probe: fmt::Debug + Send + Sync {
    fn name(&self) -> &'static str;
    fn depths(&self) -> Depths;
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QueueLabel {
    queue: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LaneLabels {
    queue: &'static str,
    lane: &'static str,
}

/// The families that all queues of a process share.
#[derive(Debug, Clone)]
pub(super) struct QueueMetrics {
    waits: Family<LaneLabels, Histogram>,
    probes: Arc<Probes>,
}

impl QueueMetrics {
    pub(super) fn shared(metrics: &Metrics) -> Self {
        metrics.shared(|registry| {
            let waits = Family::new_with_constructor((|| Histogram::new(WAITS)) as fn() -> Histogram);
            let help = "how long keys were due before a worker took them";
            registry.register("queue_wait_seconds", help, waits.clone());
            let probes = Arc::new(Probes::default());
            registry.register_collector(Box::new(probes.clone()));
            Self { waits, probes }
        })
    }

    pub(super) fn watch(&self, queue: Weak<dyn Probe>) {
        self.probes
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(queue);
    }

    pub(super) fn waited(&self, queue: &'static str, lane: Lane, wait: Duration) {
        self.waits
            .get_or_create(&LaneLabels {
                queue,
                lane: lane.as_str(),
            })
            .observe(wait.as_secs_f64());
    }
}

#[derive(Debug, Default)]
struct Probes(Mutex<Vec<Weak<dyn Probe>>>);

impl Collector for Probes {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut probes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        probes.retain(|probe| probe.strong_count() > 0);
        let queues: Vec<_> = probes
            .iter()
            .filter_map(Weak::upgrade)
            .map(|p| (p.name(), p.depths()))
            .collect();
        drop(probes);
        let mut metric =
            encoder.encode_descriptor("queue_depth", "keys that are due", None, MetricType::Gauge)?;
        for (queue, depths) in &queues {
            for lane in Lane::iter() {
                let depth = ConstGauge::new(depths.lane(lane) as f64);
                depth.encode(metric.encode_family(&LaneLabels {
                    queue,
                    lane: lane.as_str(),
                })?)?;
            }
        }
        for (name, help, value) in GAUGES {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (queue, depths) in &queues {
                ConstGauge::new(value(depths)).encode(metric.encode_family(&QueueLabel { queue })?)?;
            }
        }
        Ok(())
    }
}

type Gauge = (&'static str, &'static str, fn(&Depths) -> f64);

const GAUGES: [Gauge; 6] = [
    ("queue_keys", "keys that a queue knows", |depths| {
        depths.keys as f64
    }),
    ("queue_delayed", "keys whose time has not come", |depths| {
        depths.delayed as f64
    }),
    ("queue_running", "keys that are worked on", |depths| {
        depths.running as f64
    }),
    (
        "queue_failing",
        "keys that have failed since their last success",
        |depths| depths.failing as f64,
    ),
    (
        "queue_oldest_seconds",
        "how long the oldest key has been due",
        |depths| depths.oldest.as_secs_f64(),
    ),
    (
        "queue_longest_running_seconds",
        "how long the oldest piece of work has taken",
        |depths| depths.longest_running.as_secs_f64(),
    ),
];
