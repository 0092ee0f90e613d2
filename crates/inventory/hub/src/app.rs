//! What all requests share.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sqlx::SqlitePool;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use trustplane_process::clock::Clock;

use crate::ingest::body::BodyLimits;
use crate::live::Live;
use crate::metrics::HubMetrics;
use crate::rate::{Buckets, Rate};
use crate::store::IdentityReaders;
use crate::store::apply::ClusterLimits;
use crate::store::writer::Writer;
use crate::time::Millis;

/// Snapshots that are taken in at a time; a further one is asked to come back.
pub const SNAPSHOTS_AT_ONCE: usize = 8;
/// Of these, of one client. The second is there for an agent that has given up the first without the hub knowing.
pub const SNAPSHOTS_OF_CLIENT: usize = 2;
/// Other bodies that are read at a time; a further one waits.
pub const BODIES_AT_ONCE: usize = 64;
/// Of these, of one client, those that wait included; a further one is asked to come back. A slow client leaves room for others.
pub const BODIES_OF_CLIENT: usize = 24;

/// Token requests of one address. Many agents may be behind one.
pub const TOKENS_BY_ADDRESS: Rate = Rate {
    burst: 100.0,
    per_second: 10.0,
};
/// Tokens of one client, counted after its signature was checked.
pub const TOKENS_BY_CLIENT: Rate = Rate {
    burst: 10.0,
    per_second: 0.2,
};
/// Changes and heartbeats of one client. The original sends at most 1,000 a second.
pub const EVENTS_BY_CLIENT: Rate = Rate {
    burst: 3_000.0,
    per_second: 1_500.0,
};
/// Snapshots of one client.
pub const SNAPSHOTS_BY_CLIENT: Rate = Rate {
    burst: 10.0,
    per_second: 0.2,
};

/// What agents may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IngestLimits {
    /// The bytes of a snapshot, also when inflated.
    pub snapshot_bytes: u64,
    /// The bytes of a change or a heartbeat, and of one object of a snapshot.
    pub event_bytes: u64,
    /// The objects of a snapshot, those that are `null` included.
    pub snapshot_objects: usize,
    /// What a cluster may have in the database.
    pub cluster: ClusterLimits,
}

impl IngestLimits {
    /// The longest pause within a body.
    const PAUSE: Duration = Duration::from_secs(30);
    /// The time for a whole snapshot.
    const SNAPSHOT_TIME: Duration = Duration::from_secs(30 * 60);
    /// The time for any other body.
    const EVENT_TIME: Duration = Duration::from_secs(60);

    /// For the body of a snapshot.
    pub fn snapshot(&self) -> BodyLimits {
        BodyLimits {
            bytes: self.snapshot_bytes,
            pause: Self::PAUSE,
            whole: Self::SNAPSHOT_TIME,
        }
    }

    /// For any other body.
    pub fn event(&self) -> BodyLimits {
        BodyLimits {
            bytes: self.event_bytes,
            pause: Self::PAUSE,
            whole: Self::EVENT_TIME,
        }
    }

    /// For one object of a snapshot.
    pub fn object_bytes(&self) -> usize {
        usize::try_from(self.event_bytes).unwrap_or(usize::MAX)
    }
}

/// How often agents may send requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// Token requests of one address.
    pub token_address: Rate,
    /// Tokens of one client.
    pub token_client: Rate,
    /// Changes and heartbeats of one client.
    pub events: Rate,
    /// Snapshots of one client.
    pub snapshots: Rate,
}

impl Default for Rates {
    fn default() -> Self {
        Self {
            token_address: TOKENS_BY_ADDRESS,
            token_client: TOKENS_BY_CLIENT,
            events: EVENTS_BY_CLIENT,
            snapshots: SNAPSHOTS_BY_CLIENT,
        }
    }
}

/// Counts the requests of agents and refuses those above a rate or a number at a time.
#[derive(Debug)]
pub struct Throttles {
    /// Token requests by address.
    pub token_address: Buckets<IpAddr>,
    /// Tokens by client.
    pub token_client: Buckets<String>,
    /// Changes and heartbeats by client.
    pub events: Buckets<String>,
    /// Snapshots by client.
    pub snapshots: Buckets<String>,
    /// Snapshots at a time.
    large: Semaphore,
    /// Snapshots under way, by client.
    large_by_client: ClientCounts,
    /// Other bodies at a time.
    small: Semaphore,
    /// Other bodies that are read or wait, by client.
    small_by_client: ClientCounts,
}

impl Throttles {
    /// Throttles with these rates.
    pub fn new(rates: Rates) -> Self {
        Self {
            token_address: Buckets::new(rates.token_address),
            token_client: Buckets::new(rates.token_client),
            events: Buckets::new(rates.events),
            snapshots: Buckets::new(rates.snapshots),
            large: Semaphore::new(SNAPSHOTS_AT_ONCE),
            large_by_client: ClientCounts::default(),
            small: Semaphore::new(BODIES_AT_ONCE),
            small_by_client: ClientCounts::default(),
        }
    }

    /// Room for a snapshot of a client, until it is dropped; `None` if there is none.
    pub fn room_for_snapshot(&self, client: &str) -> Option<Room<'_>> {
        let own = self.large_by_client.enter(client, SNAPSHOTS_OF_CLIENT)?;
        let room = self.large.try_acquire().ok()?;
        Some(Room {
            _own: own,
            _room: room,
        })
    }

    /// Room for any other body of a client, until it is dropped. It waits up to `wait` for other clients, and not for its own.
    pub async fn room_for_body(&self, client: &str, wait: Duration) -> Result<Room<'_>, NoRoom> {
        let own = self.small_by_client.enter(client, BODIES_OF_CLIENT);
        let own = own.ok_or(NoRoom::Client)?;
        match timeout(wait, self.small.acquire()).await {
            Ok(Ok(room)) => Ok(Room {
                _own: own,
                _room: room,
            }),
            _ => Err(NoRoom::Hub),
        }
    }
}

/// Why there is no room for a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoRoom {
    /// The client has [`BODIES_OF_CLIENT`] bodies under way.
    Client,
    /// All clients together have [`BODIES_AT_ONCE`] bodies under way.
    Hub,
}

/// Room for one body.
#[derive(Debug)]
pub struct Room<'a> {
    _own: ClientCount<'a>,
    _room: SemaphorePermit<'a>,
}

/// How many requests of each client are under way.
#[derive(Debug, Default)]
struct ClientCounts(Mutex<HashMap<String, usize>>);

impl ClientCounts {
    /// Counts one more request of a client until it is dropped; `None` if the client has as many as `most`.
    fn enter(&self, client: &str, most: usize) -> Option<ClientCount<'_>> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = counts.get(client).copied().unwrap_or_default();
        if own >= most {
            return None;
        }
        counts.insert(client.to_owned(), own + 1);
        Some(ClientCount {
            counts: self,
            client: client.to_owned(),
        })
    }
}

/// One request of a client.
#[derive(Debug)]
struct ClientCount<'a> {
    counts: &'a ClientCounts,
    client: String,
}

impl Drop for ClientCount<'_> {
    fn drop(&mut self) {
        let mut counts = self.counts.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = counts.get_mut(&self.client) {
            *own -= 1;
            if *own == 0 {
                counts.remove(&self.client);
            }
        }
    }
}

/// What all requests share.
#[derive(Debug)]
pub struct App {
    /// Queues what is to be written.
    pub writer: Writer,
    /// Connections that read what the API shows.
    pub readers: SqlitePool,
    /// Connections that read who an agent or a person is: slow searches do not hold them up.
    pub identities: IdentityReaders,
    /// The time of day.
    pub clock: Arc<dyn Clock>,
    /// Who wants to hear of changes.
    pub live: Arc<Live>,
    /// What is counted.
    pub metrics: HubMetrics,
    /// What agents may send.
    pub limits: IngestLimits,
    /// Refuses requests of agents above a rate or a number at a time.
    pub throttles: Throttles,
    /// The URLs under which agents reach the hub.
    pub audiences: Vec<String>,
    /// How often the session of an open page is checked.
    pub session_check: Duration,
    /// The end of the process.
    pub stop: CancellationToken,
}

impl App {
    /// The time now.
    pub fn now(&self) -> Millis {
        self.clock.now().as_millisecond()
    }

    /// An app with an empty database and without tasks: nothing that is queued for its writer is done.
    #[cfg(test)]
    pub async fn for_tests(folder: &std::path::Path) -> Self {
        use trustplane_process::clock::SystemClock;
        use trustplane_process::metrics::Metrics;

        let connection = crate::store::open(folder).await.unwrap();
        let live = Arc::new(Live::default());
        let cluster = ClusterLimits::default();
        let (writer, _) =
            crate::store::writer::writer(connection, Arc::new(SystemClock), live.clone(), cluster);
        Self {
            writer,
            readers: crate::store::readers(folder).await.unwrap(),
            identities: IdentityReaders::open(folder).await.unwrap(),
            clock: Arc::new(SystemClock),
            live,
            metrics: HubMetrics::register(&Metrics::new()),
            limits: IngestLimits {
                snapshot_bytes: 1 << 20,
                event_bytes: 1 << 20,
                snapshot_objects: 1_000,
                cluster,
            },
            throttles: Throttles::new(Rates::default()),
            audiences: Vec::new(),
            session_check: crate::api::stream::SESSION_CHECK,
            stop: CancellationToken::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_client_cannot_take_all_room_for_snapshots() {
        let throttles = Throttles::new(Rates::default());
        let own: Vec<_> = (0..SNAPSHOTS_OF_CLIENT)
            .map(|_| throttles.room_for_snapshot("a").unwrap())
            .collect();
        assert!(throttles.room_for_snapshot("a").is_none());
        let others: Vec<_> = (SNAPSHOTS_OF_CLIENT..SNAPSHOTS_AT_ONCE)
            .map(|number| throttles.room_for_snapshot(&format!("b{number}")).unwrap())
            .collect();
        assert!(throttles.room_for_snapshot("c").is_none(), "all room is taken");
        drop(own);
        assert!(throttles.room_for_snapshot("a").is_some());
        drop(others);
        assert!(
            throttles.large_by_client.0.lock().unwrap().is_empty(),
            "nothing is remembered of who is done"
        );
    }

    #[tokio::test]
    async fn throttles_refuse_bodies_of_a_client_that_has_many() {
        let throttles = Throttles::new(Rates::default());
        let mut own = Vec::new();
        for _ in 0..BODIES_OF_CLIENT {
            own.push(throttles.room_for_body("a", Duration::ZERO).await.unwrap());
        }
        let refused = throttles.room_for_body("a", Duration::MAX).await;
        assert_eq!(refused.err(), Some(NoRoom::Client), "without a wait");
        let mut others = Vec::new();
        for number in BODIES_OF_CLIENT..BODIES_AT_ONCE {
            let client = format!("b{number}");
            others.push(throttles.room_for_body(&client, Duration::ZERO).await.unwrap());
        }
        let full = throttles.room_for_body("c", Duration::ZERO).await;
        assert_eq!(full.err(), Some(NoRoom::Hub));
        drop(own);
        throttles.room_for_body("a", Duration::ZERO).await.unwrap();
        drop(others);
        assert!(throttles.small_by_client.0.lock().unwrap().is_empty());
    }
}
