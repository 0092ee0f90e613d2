//! What the stores of a controller are worth for the next decision: do they show its own last writes, and are they current
//! enough to remove something?

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::select_all;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use crate::apply::{Effect, Written};
use crate::queue::Key;
use crate::watch::Store;

/// How long after a write a look waits for the stores to show it, and how long it then waits for a fresh list.
pub(super) const OWN_WRITES: Duration = Duration::from_secs(5);

/// How far apart the lists are that are asked for because a store does not show a write.
const LISTS: Duration = Duration::from_secs(60);

/// So many keys with unseen writes are kept before those that have been seen meanwhile are swept out.
const SWEEP: usize = 64;

/// A store, whatever it keeps of its objects.
trait Mirror: Send + Sync {
    fn is_current(&self) -> bool;
    fn is_behind(&self, write: &Written) -> bool;
    fn changes(&self) -> watch::Receiver<u64>;
    fn relist(&self);
}

impl<T: Send + Sync> Mirror for Store<T> {
    fn is_current(&self) -> bool {
        self.currency().is_some()
    }

    fn is_behind(&self, write: &Written) -> bool {
        Self::is_behind(self, write)
    }

    fn changes(&self) -> watch::Receiver<u64> {
        Self::changes(self)
    }

    fn relist(&self) {
        Self::relist(self);
    }
}

/// A store on which decisions rest, and when a fresh list of it was last asked for.
struct Followed {
    mirror: Box<dyn Mirror>,
    listed: Mutex<Option<Instant>>,
}

impl Followed {
    fn new(mirror: Box<dyn Mirror>) -> Self {
        Self {
            mirror,
            listed: Mutex::default(),
        }
    }

    /// Asks for a fresh list, unless that was done not long ago: a server under load is not helped by more lists.
    fn relist(&self) {
        let now = Instant::now();
        let mut listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        if listed.is_none_or(|at| now.duration_since(at) >= LISTS) {
            *listed = Some(now);
            self.mirror.relist();
        }
    }
}

/// The stores on which a controller's decisions rest.
#[derive(Default)]
pub(super) struct Stores {
    followed: Vec<Followed>,
    for_removals: Vec<Followed>,
}

impl Stores {
    /// A store that shows what the controller writes, if it writes such objects.
    pub(super) fn follow<T: Send + Sync + 'static>(&mut self, store: &Store<T>) {
        self.followed.push(Followed::new(Box::new(store.clone())));
    }

    /// A store that must be current before anything is removed.
    pub(super) fn require<T: Send + Sync + 'static>(&mut self, store: &Store<T>) {
        self.for_removals.push(Followed::new(Box::new(store.clone())));
    }

    /// Whether a plan may remove something now. A store that is not current is listed afresh: that proves sooner than the
    /// next bookmark that it has caught up.
    pub(super) fn allow_removals(&self) -> bool {
        let behind = self.for_removals.iter().filter(|one| !one.mirror.is_current());
        behind.map(Followed::relist).count() == 0
    }

    fn behind<'a>(&'a self, writes: &'a [Written]) -> impl Iterator<Item = &'a Followed> {
        let is_behind = |one: &&Followed| writes.iter().any(|write| one.mirror.is_behind(write));
        self.followed.iter().filter(is_behind)
    }

    fn show(&self, writes: &[Written]) -> bool {
        self.behind(writes).next().is_none()
    }

    /// Waits until all stores show these writes; false if they do not by then.
    async fn show_by(&self, writes: &[Written], until: Instant) -> bool {
        loop {
            // Listened to before the look, so that no change falls in between.
            let mut changes: Vec<_> = self.behind(writes).map(|one| one.mirror.changes()).collect();
            if changes.is_empty() || self.show(writes) {
                return true;
            }
            let any = select_all(changes.iter_mut().map(|changes| Box::pin(changes.changed())));
            let changed = timeout_at(until, any).await;
            // A store whose watch was stopped never changes again.
            if !changed.is_ok_and(|(changed, ..)| changed.is_ok()) {
                return false;
            }
        }
    }
}

/// The writes of each key that the stores may not have shown yet.
///
/// Guarantees: a look at a key starts when every followed store shows what the last look at that key wrote, or it is told
/// that one does not. A store that stays behind is listed afresh first, which also ends a watch that froze.
pub(super) struct OwnWrites<K>(Mutex<HashMap<K, Unseen>>);

struct Unseen {
    writes: Vec<Written>,
    /// When a look stops waiting for the watches alone.
    until: Instant,
}

impl<K: Key> OwnWrites<K> {
    pub(super) fn new() -> Self {
        Self(Mutex::default())
    }

    /// Notes what a look at a key has written. Writes of an earlier look that are still unseen stay.
    pub(super) fn note(&self, key: &K, writes: Vec<Written>, stores: &Stores) {
        let unseen = |write: &Written| !stores.show(std::slice::from_ref(write));
        let new: Vec<_> = writes.into_iter().filter(unseen).collect();
        if new.is_empty() {
            return;
        }
        let mut all = self.lock();
        if all.len() >= SWEEP {
            all.retain(|_, unseen| !stores.show(&unseen.writes));
        }
        let until = Instant::now() + OWN_WRITES;
        let known = all.entry(key.clone()).or_insert_with(|| Unseen {
            writes: Vec::new(),
            until,
        });
        known
            .writes
            .retain(|old| !new.iter().any(|new| new.target == old.target));
        known.writes.extend(new);
        known.until = until;
    }

    /// Waits until the stores show the last writes of a key, for a limited time. Returns whether they do.
    pub(super) async fn are_seen(&self, key: &K, stores: &Stores) -> bool {
        let Some((mut writes, until)) = self.of(key) else {
            return true;
        };
        let mut seen = stores.show_by(&writes, until).await;
        // Whatever refused a write may have changed nothing that a store could show.
        writes.retain(|write| !matches!(write.effect, Effect::Refused(_)));
        if !seen {
            stores.behind(&writes).for_each(Followed::relist);
            seen = stores.show_by(&writes, Instant::now() + OWN_WRITES).await;
        }
        if seen {
            self.lock().remove(key);
        }
        seen
    }

    fn of(&self, key: &K) -> Option<(Vec<Written>, Instant)> {
        let all = self.lock();
        all.get(key).map(|unseen| (unseen.writes.clone(), unseen.until))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<K, Unseen>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
