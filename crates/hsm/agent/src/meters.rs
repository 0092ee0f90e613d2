//! What the agent counts. No label is a path, a serial number or a PIN.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use trustplane_hsm_token::Capacity;
use trustplane_process::metrics::Metrics;

use crate::health::{Health, Phase};

/// From a read of what is known to a write on a slow card.
const BUCKETS: [f64; 12] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 20.0,
];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Call {
    method: &'static str,
    code: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Method {
    method: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Named {
    phase: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Event {
    event: &'static str,
}

/// The meters of an agent; a cheap clone.
#[derive(Debug, Clone)]
pub struct Meters {
    calls: Family<Call, Counter>,
    durations: Family<Method, Histogram>,
    waiting: Gauge,
    phases: Family<Named, Gauge>,
    events: Family<Event, Counter>,
    objects: Family<Room, Gauge>,
    bytes: Family<Room, Gauge>,
    seen: Arc<Mutex<[u64; 5]>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Room {
    state: &'static str,
}

impl Meters {
    /// Registers them.
    pub fn new(metrics: &Metrics) -> Self {
        let meters = Self {
            calls: Family::default(),
            durations: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            waiting: Gauge::default(),
            phases: Family::default(),
            events: Family::default(),
            objects: Family::default(),
            bytes: Family::default(),
            seen: Arc::default(),
        };
        metrics.register(|registry| {
            let registry = registry.sub_registry_with_prefix("hsm_agent");
            registry.register("requests", "requests by method and code", meters.calls.clone());
            registry.register(
                "request_duration_seconds",
                "how long requests took",
                meters.durations.clone(),
            );
            registry.register(
                "queue_depth",
                "requests that wait for the token",
                meters.waiting.clone(),
            );
            registry.register(
                "phase",
                "1 for the phase that the token is in",
                meters.phases.clone(),
            );
            registry.register(
                "module_events",
                "starts, crashes and hangs of the module's process, losses of the token, and interrupted changes that were ended",
                meters.events.clone(),
            );
            registry.register(
                "token_objects",
                "data objects on the token",
                meters.objects.clone(),
            );
            registry.register(
                "token_bytes",
                "bytes of labels and values on the token",
                meters.bytes.clone(),
            );
        });
        meters
    }

    /// Begins to watch a call. If it is dropped before its end, the client has gone away.
    pub(crate) fn call(&self, method: &'static str) -> Watched<'_> {
        Watched {
            meters: self,
            method,
            begun: Instant::now(),
            code: "CANCELLED",
        }
    }

    fn served(&self, method: &'static str, code: &'static str, took: Duration) {
        self.calls.get_or_create(&Call { method, code }).inc();
        self.durations
            .get_or_create(&Method { method })
            .observe(took.as_secs_f64());
    }

    /// Takes over how things are, before somebody looks.
    pub fn observe(&self, health: &Health, waiting: usize, capacity: Option<&Capacity>) {
        self.waiting.set(number(waiting));
        for phase in Phase::ALL {
            let is = i64::from(health.phase == phase);
            self.phases.get_or_create(&Named { phase: phase.word() }).set(is);
        }
        let events = ["start", "crash", "hang", "loss", "recovery"];
        let now = [
            health.starts,
            health.crashes,
            health.hangs,
            health.losses,
            health.recoveries,
        ];
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        for ((event, now), seen) in events.into_iter().zip(now).zip(seen.iter_mut()) {
            let counter = self.events.get_or_create_owned(&Event { event });
            counter.inc_by(now.saturating_sub(*seen));
            *seen = now.max(*seen);
        }
        if let Some(capacity) = capacity {
            let set = |family: &Family<Room, Gauge>, state, value| {
                family.get_or_create(&Room { state }).set(number(value));
            };
            set(&self.objects, "used", capacity.usage.objects);
            set(&self.bytes, "used", capacity.usage.bytes);
            if let Some(free) = capacity.room.objects {
                set(&self.objects, "free", free);
            }
            if let Some(free) = free_bytes(capacity) {
                set(&self.bytes, "free", free);
            }
        }
    }
}

/// The bytes that are free: by the limits, or by what the token says.
pub(crate) fn free_bytes(capacity: &Capacity) -> Option<usize> {
    [capacity.room.bytes, capacity.memory.private_free]
        .into_iter()
        .flatten()
        .min()
}

fn number(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// A call that is under way.
pub(crate) struct Watched<'a> {
    meters: &'a Meters,
    method: &'static str,
    begun: Instant,
    code: &'static str,
}

impl Watched<'_> {
    /// It has ended so.
    pub fn end(mut self, code: &'static str) {
        self.code = code;
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        self.meters.served(self.method, self.code, self.begun.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use trustplane_hsm_core::layout::Usage;
    use trustplane_hsm_core::limits::Room;
    use trustplane_hsm_token::Memory;

    use super::*;
    use crate::error::PinProblem;

    #[test]
    fn calls_are_counted_by_how_they_end_and_those_that_are_left_as_cancelled() {
        let metrics = Metrics::new();
        let meters = Meters::new(&metrics);
        meters.call("ReadSecret").end("OK");
        drop(meters.call("ReadSecret"));
        let text = metrics.encode();
        for line in [
            r#"trustplane_hsm_agent_requests_total{method="ReadSecret",code="OK"} 1"#,
            r#"trustplane_hsm_agent_requests_total{method="ReadSecret",code="CANCELLED"} 1"#,
            r#"trustplane_hsm_agent_request_duration_seconds_count{method="ReadSecret"} 2"#,
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
    }

    #[test]
    fn what_has_happened_is_counted_once_however_often_one_looks() {
        let metrics = Metrics::new();
        let meters = Meters::new(&metrics);
        let mut health = Health {
            crashes: 2,
            phase: Phase::PinRefused(PinProblem::Locked),
            ..Health::default()
        };
        meters.observe(&health, 3, None);
        meters.observe(&health, 3, None);
        health.crashes = 3;
        meters.observe(&health, 3, None);
        let text = metrics.encode();
        for line in [
            r#"trustplane_hsm_agent_module_events_total{event="crash"} 3"#,
            r#"trustplane_hsm_agent_phase{phase="PinLocked"} 1"#,
            r#"trustplane_hsm_agent_phase{phase="Serving"} 0"#,
            "trustplane_hsm_agent_queue_depth 3",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
    }

    /// What is told of a token's room.
    fn told(room: Room, private_free: Option<usize>) -> Vec<String> {
        let usage = Usage {
            objects: 5,
            bytes: 700,
            foreign: 1,
        };
        let memory = Memory {
            private_free,
            ..Memory::default()
        };
        let metrics = Metrics::new();
        let capacity = Capacity { usage, room, memory };
        Meters::new(&metrics).observe(&Health::default(), 0, Some(&capacity));
        let text = metrics.encode();
        let lines = text
            .lines()
            .filter_map(|line| line.strip_prefix("trustplane_hsm_agent_token_"));
        lines.map(str::to_owned).collect()
    }

    #[test]
    fn what_is_used_and_what_is_free_are_told_of_objects_and_bytes() {
        let limited = Room {
            objects: Some(122),
            bytes: Some(3000),
        };
        let used = [r#"objects{state="used"} 5"#, r#"bytes{state="used"} 700"#];
        // Of two that know how much is free, the one who knows of less counts.
        for (private_free, free) in [(None, 3000), (Some(9000), 3000), (Some(20), 20)] {
            let bytes = format!(r#"bytes{{state="free"}} {free}"#);
            let mut wanted = vec![used[0], used[1], r#"objects{state="free"} 122"#, &bytes];
            let mut told = told(limited, private_free);
            wanted.sort_unstable();
            told.sort_unstable();
            assert_eq!(told, wanted);
        }
        let unlimited = Room {
            objects: None,
            bytes: None,
        };
        let mut told = told(unlimited, None);
        told.sort_unstable();
        assert_eq!(told, [used[1], used[0]], "what nobody knows is not told");
    }
}
