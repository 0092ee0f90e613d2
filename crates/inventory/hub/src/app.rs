//! What all requests share.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sqlx::SqlitePool;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;
use trustplane_process::clock::Clock;

use crate::ingest::body::BodyLimits;
use crate::live::Live;
use crate::metrics::HubMetrics;
use crate::rate::{Buckets, Rate};
use crate::store::writer::Writer;
use crate::time::Millis;

/// Snapshots that are taken in at a time; a further one is asked to come back.
pub const SNAPSHOTS_AT_ONCE: usize = 8;
/// Of these, of one client. The second is there for an agent that has given up the first without the hub knowing.
pub const SNAPSHOTS_OF_CLIENT: usize = 2;
/// Other bodies that are read at a time; a further one waits.
pub const BODIES_AT_ONCE: usize = 64;

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

/// How often somebody may ask.
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

/// Who may ask how often.
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
    pub large: Semaphore,
    /// Snapshots under way, by client.
    under_way: Mutex<HashMap<String, usize>>,
    /// Other bodies at a time.
    pub small: Semaphore,
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
            under_way: Mutex::default(),
            small: Semaphore::new(BODIES_AT_ONCE),
        }
    }

    /// Room for a snapshot of a client, until it is dropped; `None` if there is none.
    pub fn room_for_snapshot(&self, client: &str) -> Option<SnapshotRoom<'_>> {
        let room = self.large.try_acquire().ok()?;
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        let own = under_way.entry(client.to_owned()).or_default();
        if *own >= SNAPSHOTS_OF_CLIENT {
            return None;
        }
        *own += 1;
        Some(SnapshotRoom {
            throttles: self,
            client: client.to_owned(),
            _room: room,
        })
    }
}

/// Room for one snapshot.
#[derive(Debug)]
pub struct SnapshotRoom<'a> {
    throttles: &'a Throttles,
    client: String,
    _room: SemaphorePermit<'a>,
}

impl Drop for SnapshotRoom<'_> {
    fn drop(&mut self) {
        let mut under_way = self
            .throttles
            .under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = under_way.get_mut(&self.client) {
            *own -= 1;
            if *own == 0 {
                under_way.remove(&self.client);
            }
        }
    }
}

/// What all requests share.
#[derive(Debug)]
pub struct App {
    /// Queues what is to be written.
    pub writer: Writer,
    /// Connections that read.
    pub readers: SqlitePool,
    /// The time of day.
    pub clock: Arc<dyn Clock>,
    /// Who wants to hear of changes.
    pub live: Arc<Live>,
    /// What is counted.
    pub metrics: HubMetrics,
    /// What agents may send.
    pub limits: IngestLimits,
    /// Who may ask how often.
    pub throttles: Throttles,
    /// The URLs under which agents reach the hub.
    pub audiences: Vec<String>,
    /// The end of the process.
    pub stop: CancellationToken,
}

impl App {
    /// The time now.
    pub fn now(&self) -> Millis {
        self.clock.now().as_millisecond()
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
            throttles.under_way.lock().unwrap().is_empty(),
            "nothing is remembered of who is done"
        );
    }
}
