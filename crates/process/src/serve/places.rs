//! The places of one listener: how many connections are open, and which of them gives way to a new one.
//!
//! | a connection | gives way |
//! |---|---|
//! | that was accepted, but not read from yet | never: its request may be there already |
//! | that waits for a request, or for its client to take an answer | the longest waiting one first |
//! | whose request is being served | never |

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

/// What a connection does now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// It has not sent the head of its first request.
    First,
    /// Its request is being served.
    Serving,
    /// It was served, and may send a further request.
    Kept,
}

/// All places of a listener; a cheap clone.
#[derive(Debug, Clone)]
pub(super) struct Places(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    most: usize,
    table: Mutex<Table>,
    /// A place became free, or its connection may give way now.
    changed: Notify,
}

#[derive(Debug, Default)]
struct Table {
    last: u64,
    turn: u64,
    taken: BTreeMap<u64, Taken>,
}

#[derive(Debug)]
struct Taken {
    /// Since which turn it waits. `None` while it may not be closed.
    waiting: Option<u64>,
    evicted: CancellationToken,
}

impl Table {
    /// The connection to close for a new one: the one that has waited longest.
    fn longest_waiting(&self) -> Option<u64> {
        let waiting = self
            .taken
            .iter()
            .filter_map(|(id, taken)| Some((taken.waiting?, *id)));
        waiting.min().map(|(_, id)| id)
    }
}

impl Places {
    /// At most so many places.
    pub(super) fn new(most: usize) -> Self {
        Self(Arc::new(Shared {
            most,
            table: Mutex::default(),
            changed: Notify::new(),
        }))
    }

    /// Waits until a new connection can be taken. Cancel-safe.
    pub(super) async fn available(&self) {
        loop {
            // A change between the look and the wait is kept for the wait.
            let changed = self.0.changed.notified();
            if self.can_take() {
                return;
            }
            changed.await;
        }
    }

    fn can_take(&self) -> bool {
        let table = self.lock();
        table.taken.len() < self.0.most || table.longest_waiting().is_some()
    }

    /// Takes a place for a new connection. If all are taken, the connection that has waited longest loses its own.
    pub(super) fn take(&self) -> Arc<Place> {
        let mut table = self.lock();
        if table.taken.len() >= self.0.most
            && let Some(id) = table.longest_waiting()
            && let Some(taken) = table.taken.remove(&id)
        {
            taken.evicted.cancel();
        }
        table.last += 1;
        let (id, evicted) = (table.last, CancellationToken::new());
        let taken = Taken {
            waiting: None,
            evicted: evicted.clone(),
        };
        table.taken.insert(id, taken);
        Arc::new(Place {
            places: self.clone(),
            id,
            evicted,
            phase: watch::Sender::new(Phase::First),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of one connection, which is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Places,
    id: u64,
    evicted: CancellationToken,
    phase: watch::Sender<Phase>,
}

impl Place {
    /// The connection was read from: from now on it may give way until it sends a request.
    pub(super) fn looked_at(&self) {
        if *self.phase.borrow() != Phase::Serving {
            self.wait_since_now();
        }
    }

    /// A request came.
    pub(super) fn serve(&self) {
        self.phase.send_replace(Phase::Serving);
        if let Some(taken) = self.places.lock().taken.get_mut(&self.id) {
            taken.waiting = None;
        }
    }

    /// The request was answered.
    pub(super) fn keep(&self) {
        self.phase.send_replace(Phase::Kept);
        self.wait_since_now();
    }

    /// What the connection does, as it changes.
    pub(super) fn phase(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    /// Waits until the place goes to another connection.
    pub(super) async fn evicted(&self) {
        self.evicted.cancelled().await;
    }

    fn wait_since_now(&self) {
        {
            let mut table = self.places.lock();
            table.turn += 1;
            let turn = table.turn;
            if let Some(taken) = table.taken.get_mut(&self.id) {
                taken.waiting = Some(turn);
            }
        }
        self.places.0.changed.notify_one();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.lock().taken.remove(&self.id);
        self.places.0.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn is_evicted(place: &Place) -> bool {
        place.evicted.is_cancelled()
    }

    #[test]
    fn the_longest_waiting_connection_gives_way() {
        let places = Places::new(3);
        let [first, second, third] = [places.take(), places.take(), places.take()];
        for place in [&first, &second, &third] {
            place.looked_at();
        }
        first.serve();
        first.keep();
        let _fourth = places.take();
        assert_eq!(
            [&first, &second, &third].map(|place| is_evicted(place)),
            [false, true, false]
        );
    }

    #[test]
    fn a_served_or_unread_connection_never_gives_way() {
        let places = Places::new(2);
        let (unread, served) = (places.take(), places.take());
        served.looked_at();
        served.serve();
        assert!(places.available().now_or_never().is_none(), "nobody can give way");
        unread.looked_at();
        assert!(places.available().now_or_never().is_some());
        let _new = places.take();
        assert!(is_evicted(&unread) && !is_evicted(&served));
    }

    #[tokio::test]
    async fn a_dropped_place_makes_room() {
        let places = Places::new(1);
        let place = places.take();
        let waiting = tokio::spawn({
            let places = places.clone();
            async move { places.available().await }
        });
        drop(place);
        waiting.await.unwrap();
    }
}
