//! Events: what a controller tells the user about an object.
//!
//! [`Events::tell`] never waits: it puts the note into a bounded buffer, where equal notes become one with a count, and
//! says whether it was taken. One task, the [`Publisher`], writes them as events.k8s.io/v1 with series.
//!
//! **Guarantees.** A note that was taken is published, or counted as given up after several failures. A flood in one
//! namespace leaves room for the notes of every other. An object has a budget of different notes, so that a mad one cannot
//! flood the cluster.
//!
//! **Caveats.** A note that was refused is nowhere: [`Step::TellOnce`](trustplane_plan::Step) remembers it as told only when
//! it was taken, and the key looks again. The buffer is in memory: what must survive a crash belongs into a status.

mod budget;
mod publish;
mod series;
mod wire;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::Notify;
use tokio::time::Instant;
use trustplane_plan::Note;
use trustplane_process::metrics::Metrics;

pub use publish::Publisher;
use series::Buffer;
pub use series::Told;

use crate::rights::{Place, Rights};

/// Where notes go. One for each process, cloned to every controller; all clones are one.
///
/// ```no_run
/// # fn example(clients: trustplane_kit::clients::Clients, metrics: trustplane_process::metrics::Metrics,
/// #     supervisor: trustplane_process::supervise::Supervisor, stop: tokio_util::sync::CancellationToken) {
/// use trustplane_kit::events::Events;
///
/// let (events, publisher) =
///     Events::new(clients.call.clone(), "trustplane.io/manager", clients.identity.instance(), &metrics);
/// supervisor.spawn("events", publisher.run(stop));
/// # let _ = events;
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Events(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    buffer: Mutex<Buffer>,
    wake: Notify,
    metrics: EventMetrics,
    start: Instant,
}

impl Events {
    /// The place for notes, and the task that publishes them. `controller` and `instance` say who reports.
    pub fn new(client: Client, controller: &str, instance: &str, metrics: &Metrics) -> (Self, Publisher) {
        let events = Self(Arc::new(Shared {
            buffer: Mutex::default(),
            wake: Notify::new(),
            metrics: EventMetrics::shared(metrics),
            start: Instant::now(),
        }));
        let publisher = Publisher::new(events.clone(), client, controller, instance);
        (events, publisher)
    }

    /// What publishing needs on the API server, where objects with a namespace are served.
    pub fn rights() -> Rights {
        Self::rights_at(Place::Served)
    }

    /// What publishing needs for events about objects without a namespace, where the capability is kept to some
    /// namespaces.
    pub fn rights_about_cluster_objects() -> Rights {
        Self::rights_at(Place::Default)
    }

    /// What publishing needs for events about objects of this place.
    pub fn rights_at(place: Place) -> Rights {
        Rights::none().on(place, "events.k8s.io", &["events"], &["create", "get", "patch"])
    }

    /// Tells the user something soon, and answers whether the note was taken.
    #[must_use = "a note that was refused is never published"]
    pub fn tell(&self, note: &Note) -> Told {
        let name = wire::name(note);
        let told = {
            let mut buffer = self.buffer();
            let told = buffer.tell(&name, note, self.now(), Timestamp::now());
            self.0.metrics.depth(&buffer);
            told
        };
        self.0.metrics.count(told.into(), 1);
        if told.is_taken() {
            self.0.wake.notify_one();
        }
        told
    }

    fn buffer(&self) -> MutexGuard<'_, Buffer> {
        self.0.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Duration {
        self.0.start.elapsed()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: &'static str,
}

#[derive(Debug, Clone)]
struct EventMetrics {
    notes: Family<OutcomeLabels, Counter>,
    waiting: Gauge,
}

impl EventMetrics {
    fn shared(metrics: &Metrics) -> Self {
        metrics.shared(|registry| {
            let (notes, waiting) = (Family::default(), Gauge::default());
            registry.register(
                "events_notes",
                "notes to users by what became of them; over_budget and refused are not published",
                notes.clone(),
            );
            registry.register(
                "events_waiting",
                "series of notes that wait to be published",
                waiting.clone(),
            );
            Self { notes, waiting }
        })
    }

    fn count(&self, outcome: &'static str, notes: u64) {
        self.notes.get_or_create(&OutcomeLabels { outcome }).inc_by(notes);
    }

    fn depth(&self, buffer: &Buffer) {
        self.waiting
            .set(i64::try_from(buffer.depth()).unwrap_or(i64::MAX));
    }
}
