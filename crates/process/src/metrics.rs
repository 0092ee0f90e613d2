//! The metrics of a process: one registry, handed round as a cheap clone.
//!
//! Label sets are fixed types, and label values come from code: never the name of a secret, a pod or a path.
//!
//! ```
//! use prometheus_client::metrics::counter::Counter;
//! use trustplane_process::metrics::Metrics;
//!
//! let metrics = Metrics::new();
//! let served = Counter::<u64>::default();
//! metrics.register(|registry| registry.register("requests", "requests served", served.clone()));
//! served.inc();
//! assert!(metrics.encode().contains("trustplane_requests_total 1"));
//! ```

mod process;

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::registry::Registry;

/// The content type of [`Metrics::encode`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A handle on the registry of a process.
#[derive(Clone)]
pub struct Metrics(Arc<Mutex<Registries>>);

struct Registries {
    /// Ours, prefixed `trustplane`.
    own: Registry,
    /// Names that every Prometheus dashboard knows: `process_*`.
    process: Registry,
    /// Families that several parts of the process share, by their type.
    shared: HashMap<TypeId, Box<dyn Any + Send>>,
}

impl Metrics {
    /// An empty registry that reports on the process itself.
    pub fn new() -> Self {
        let mut process = Registry::default();
        process.register_collector(Box::new(process::ProcessCollector::new()));
        let own = Registry::with_prefix("trustplane");
        Self(Arc::new(Mutex::new(Registries {
            own,
            process,
            shared: HashMap::new(),
        })))
    }

    /// Adds metrics; their names get the prefix `trustplane`.
    pub fn register<R>(&self, register: impl FnOnce(&mut Registry) -> R) -> R {
        register(&mut self.lock().own)
    }

    /// The one instance of `F` in this registry, made at the first call.
    ///
    /// A family may be registered only once, but every outside target and every supervisor counts into it.
    pub fn shared<F: Clone + Send + 'static>(&self, make: impl FnOnce(&mut Registry) -> F) -> F {
        let mut registries = self.lock();
        if let Some(family) = registries
            .shared
            .get(&TypeId::of::<F>())
            .and_then(|any| any.downcast_ref::<F>())
        {
            return family.clone();
        }
        let family = make(&mut registries.own);
        registries
            .shared
            .insert(TypeId::of::<F>(), Box::new(family.clone()));
        family
    }

    /// All metrics as OpenMetrics text.
    pub fn encode(&self) -> String {
        let registries = self.lock();
        let mut text = String::new();
        // Writing to a string cannot fail; a collector that fails leaves its own lines out.
        for registry in [&registries.own, &registries.process] {
            if encode_registry(&mut text, registry).is_err() {
                tracing::warn!("a metric could not be encoded");
            }
        }
        let _ = encode_eof(&mut text);
        text
    }

    fn lock(&self) -> MutexGuard<'_, Registries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::counter::Counter;

    use super::*;

    #[derive(Clone)]
    struct Calls(Counter);

    fn calls(metrics: &Metrics) -> Calls {
        metrics.shared(|registry| {
            let calls = Counter::default();
            registry.register("calls", "calls made", calls.clone());
            Calls(calls)
        })
    }

    #[test]
    fn a_shared_family_is_registered_once_and_counts_together() {
        let metrics = Metrics::new();
        calls(&metrics).0.inc();
        calls(&metrics.clone()).0.inc();
        let text = metrics.encode();
        assert!(text.contains("trustplane_calls_total 2\n"), "{text}");
        assert_eq!(text.matches("# TYPE trustplane_calls ").count(), 1, "{text}");
    }

    #[test]
    fn two_registries_do_not_meet() {
        let (one, other) = (Metrics::new(), Metrics::new());
        calls(&one).0.inc();
        assert!(!other.encode().contains("trustplane_calls"));
    }

    #[test]
    fn the_process_reports_on_itself() {
        let text = Metrics::new().encode();
        let value = |name: &str| -> f64 {
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix(&format!("{name} ")));
            line.unwrap_or_else(|| panic!("{name} is missing in {text}"))
                .parse()
                .unwrap()
        };
        assert!(value("process_resident_memory_bytes") > 100_000.0);
        assert!(value("process_open_fds") >= 3.0);
        assert!(value("process_max_fds") >= value("process_open_fds"));
        assert!(value("process_cpu_seconds_total") > 0.0);
        assert!(value("process_start_time_seconds") > 1_700_000_000.0);
        assert!(text.ends_with("# EOF\n"));
    }
}
