//! What is there, as far as a watch knows.

use std::{fmt, sync::Arc};

use tokio::{sync::watch, time::Instant};
use trustplane_plan::{Kind, ObjectRef};

use super::{Currency, Health, Reason, Standing, Versions, Watched, hub::Hub, spec::is_older};
use crate::apply::{Effect, Written};

/// The objects of a watch. Cheap to clone.
///
/// It does not keep the watch running: that is what subscriptions do. After the last of them the content stays as it was,
/// and [`Store::health`] says so.
pub struct Store<T>(pub(super) Arc<Hub<T>>);

impl<T> Clone for Store<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// The watch was stopped before it became ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the watch was stopped before it became ready")]
pub struct Stopped;

impl<T> Store<T> {
    /// The kind of its objects.
    pub fn kind(&self) -> &Kind {
        &self.0.selection.kind
    }

    /// One object.
    pub fn get(&self, object: &ObjectRef) -> Option<Arc<Watched<T>>> {
        let state = self.0.lock();
        state.collection(object)?.shelf.objects.get(object).cloned()
    }

    /// The objects that the projection wants to be found under this name ([`super::Project::names`]). They are found as soon
    /// as they are in the store.
    pub fn under(&self, name: &ObjectRef) -> Vec<Arc<Watched<T>>> {
        let state = self.0.lock();
        let collections = state.collections.values();
        collections
            .flat_map(|one| one.shelf.under(name))
            .cloned()
            .collect()
    }

    /// All objects, in no order.
    pub fn list(&self) -> Vec<Arc<Watched<T>>> {
        let mut all = Vec::new();
        self.for_each(|object| all.push(object.clone()));
        all
    }

    /// Looks at all objects, in no order, without a list of them. The watch waits meanwhile, so `look` must be quick, and
    /// must not use the store or a subscription of it.
    pub fn for_each(&self, mut look: impl FnMut(&Arc<Watched<T>>)) {
        let state = self.0.lock();
        for collection in state.collections.values() {
            collection.shelf.objects.values().for_each(&mut look);
        }
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        let state = self.0.lock();
        state
            .collections
            .values()
            .map(|one| one.shelf.objects.len())
            .sum()
    }

    /// Whether there is no object.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The objects that exist but cannot be read, each with what is wrong. Values are never quoted.
    pub fn unreadable(&self) -> Vec<(ObjectRef, String)> {
        let state = self.0.lock();
        let shelves = state.collections.values().map(|one| &one.shelf);
        let all = shelves.flat_map(|shelf| &shelf.unreadable);
        all.map(|(object, why)| (object.clone(), why.what.clone()))
            .collect()
    }

    /// What is the matter and what the store is worth, to wait for changes of it.
    pub fn standing(&self) -> watch::Receiver<Standing> {
        self.0.standing()
    }

    /// What is the matter, if anything.
    pub fn health(&self) -> Health {
        self.0.standing().borrow().health
    }

    /// Whether the first list of every namespace was complete. An outage does not change it.
    pub fn is_ready(&self) -> bool {
        self.0.standing().borrow().ready
    }

    /// Whether the store is all there is. A watch that resumed from a stored version has only what changed since.
    pub fn is_complete(&self) -> bool {
        self.0.standing().borrow().complete
    }

    /// The span in which the store has followed the server without a gap; `None` while it does not: it is connecting,
    /// catching up, or the server has been silent for too long.
    ///
    /// Ask for it before you conclude anything from what the store lacks or from how long an object has not changed.
    pub fn currency(&self) -> Option<Currency> {
        self.0.currency(Instant::now().into_std())
    }

    /// Whether the store still shows what was there before a write of ours. An object that the selection of the watch leaves
    /// out is never missed.
    pub(crate) fn is_behind(&self, write: &Written) -> bool {
        let (kind, object) = (&write.target.kind, &write.target.object);
        let state = self.0.lock();
        let Some(collection) = state.collection(object).filter(|_| kind == self.kind()) else {
            return false;
        };
        let shown = collection.shelf.objects.get(object).map(|shown| &shown.meta);
        match (&write.effect, shown) {
            // A store that has come further than the write has also seen that the object is gone again.
            (Effect::Created(made), None) => {
                let version = collection.version.as_deref().unwrap_or("0");
                self.0.selection.selects(&made.labels) && is_older(version, &made.resource_version)
            }
            (Effect::Created(made), Some(shown)) => is_older(&shown.resource_version, &made.resource_version),
            (Effect::Updated(version), Some(shown)) => is_older(&shown.resource_version, version),
            (Effect::Deleted(uid), Some(shown)) => shown.uid == *uid && !shown.is_terminating(),
            (Effect::Refused(seen), Some(shown)) => shown.resource_version == *seen,
            (Effect::Updated(_) | Effect::Deleted(_) | Effect::Refused(_), None) => false,
        }
    }

    /// Counts what changes in the store and whether it is current, to wait for the next change.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes()
    }

    /// Waits until the store is ready: possibly for ever, so give it a deadline.
    pub async fn ready(&self) -> Result<(), Stopped> {
        self.stands(|now| now.ready).await
    }

    /// Waits until the store is ready, or it is known that there is nothing to see for us: the kind is not served, or we may
    /// not watch it. For what a controller can do without; should it appear later, it comes as a change.
    pub async fn ready_or_refused(&self) -> Result<(), Stopped> {
        let refused = |health| matches!(health, Health::NotServed | Health::Forbidden);
        self.stands(|now| now.ready || refused(now.health)).await
    }

    async fn stands(&self, wanted: impl Fn(&Standing) -> bool) -> Result<(), Stopped> {
        let mut standing = self.0.standing();
        let stopped = |health: Health| {
            matches!(
                health,
                Health::Failing {
                    reason: Reason::Stopped,
                    ..
                }
            )
        };
        let end = standing.wait_for(|now| wanted(now) || stopped(now.health)).await;
        match end {
            Ok(now) if wanted(&now) => Ok(()),
            _ => Err(Stopped),
        }
    }

    /// How far the watch has come. To store what a subscriber has dealt with, ask its [`super::Subscription::versions`].
    pub fn versions(&self) -> Versions {
        (*self.0.lock().inboxes.versions).clone()
    }

    /// Asks for a fresh list: to complete a resumed store, or because something outside says that it is wrong.
    pub fn relist(&self) {
        self.0.relist();
    }
}

impl<T> fmt::Debug for Store<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Store of {} {} ({})",
            self.len(),
            self.kind(),
            self.health().as_str()
        )
    }
}

#[cfg(test)]
mod tests;
