//! What changed.

use std::{fmt, sync::Arc};

use tokio::sync::Notify;
use trustplane_plan::ObjectRef;

use super::{Store, Versions, Watched, hub::Hub, watches::Registration};

/// A change of one object.
#[derive(Debug)]
pub enum Change<T> {
    /// The object is there, in this state. States in between may be skipped.
    Applied {
        /// Its newest state.
        object: Arc<Watched<T>>,
        /// It was there when we came, and nothing has happened to it since.
        initial: bool,
    },
    /// The object is gone, or no longer selected.
    Deleted {
        /// Its name.
        object: ObjectRef,
        /// Its uid. The next object of that name has another.
        uid: Arc<str>,
        /// The last state that the store had of it; `None` if it knew of it only from a [`super::Resume`].
        last: Option<Arc<Watched<T>>>,
    },
}

impl<T> Change<T> {
    /// The object's name.
    pub fn object(&self) -> &ObjectRef {
        match self {
            Self::Applied { object, .. } => &object.meta.object,
            Self::Deleted { object, .. } => object,
        }
    }

    /// The object's uid.
    pub fn uid(&self) -> &Arc<str> {
        match self {
            Self::Applied { object, .. } => &object.meta.uid,
            Self::Deleted { uid, .. } => uid,
        }
    }
}

/// A subscriber's end of a watch. The watch runs until the last subscription is dropped.
///
/// Changes of one object come in their order, and the deletion of one uid comes before the next object of that name.
/// Between objects there is no order.
pub struct Subscription<T: Send + Sync + 'static> {
    pub(super) hub: Arc<Hub<T>>,
    pub(super) id: u64,
    pub(super) wake: Arc<Notify>,
    pub(super) registration: Registration,
}

impl<T: Send + Sync + 'static> Subscription<T> {
    /// Waits for the next change; `None` when the watch was stopped. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Change<T>> {
        loop {
            let wake = self.wake.clone();
            let woken = wake.notified();
            {
                let mut state = self.hub.lock();
                let change = state.inboxes.all.get_mut(&self.id)?.pop();
                if change.is_some() {
                    self.hub.gauge(&mut state);
                    return change;
                }
                if state.stopped {
                    return None;
                }
            }
            woken.await;
        }
    }

    /// The next change if there is one.
    pub fn try_next(&mut self) -> Option<Change<T>> {
        let mut state = self.hub.lock();
        let change = state.inboxes.all.get_mut(&self.id)?.pop();
        self.hub.gauge(&mut state);
        change
    }

    /// How many objects have changes that wait to be taken.
    pub fn pending(&self) -> usize {
        let state = self.hub.lock();
        state
            .inboxes
            .all
            .get(&self.id)
            .map_or(0, super::inbox::Inbox::len)
    }

    /// What is there.
    pub fn store(&self) -> Store<T> {
        Store(self.hub.clone())
    }

    /// How far this subscriber has come: every change up to these versions was handed out. Store them once those changes
    /// are dealt with, and a [`super::Resume`] goes on from there without a gap.
    pub fn versions(&self) -> Versions {
        let state = self.hub.lock();
        let now = &state.inboxes.versions;
        let inbox = state.inboxes.all.get(&self.id);
        inbox.map_or_else(Versions::default, |inbox| (*inbox.versions(now)).clone())
    }
}

impl<T: Send + Sync + 'static> Drop for Subscription<T> {
    fn drop(&mut self) {
        self.registration.leave(self.id);
    }
}

impl<T: Send + Sync + 'static> fmt::Debug for Subscription<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Subscription to {} ({} pending)",
            self.hub.selection.kind,
            self.pending()
        )
    }
}
