//! What a subscriber has still to hear.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use tokio::sync::Notify;
use trustplane_plan::ObjectRef;

use super::{Change, Versions, Watched};

/// The way from what a subscriber has heard of a name to what is true of it.
#[derive(Debug)]
struct Pending<T> {
    place: u64,
    /// The object that the subscriber knows is gone.
    gone: Option<Gone<T>>,
    live: Option<Live<T>>,
}

#[derive(Debug)]
struct Gone<T> {
    uid: Arc<str>,
    last: Option<Arc<Watched<T>>>,
}

#[derive(Debug)]
struct Live<T> {
    object: Arc<Watched<T>>,
    /// The subscriber has heard of an earlier state of the same object.
    heard: bool,
    initial: bool,
}

/// One subscriber's changes, at most one entry for each name.
///
/// Where there is no entry for a name, the subscriber has heard all that the store says of it. That is why the inbox need
/// not remember what the subscriber knows, except what it brought along.
#[derive(Debug)]
pub(super) struct Inbox<T> {
    pending: HashMap<ObjectRef, Pending<T>>,
    /// Names in the order in which they got their entry.
    order: BTreeMap<u64, ObjectRef>,
    next_place: u64,
    /// Objects that the subscriber knew before it came, and of which nothing has been seen yet.
    foreknown: HashMap<ObjectRef, Arc<str>>,
    /// How far the watch had come when everything before was handed out.
    drained: Arc<Versions>,
    pub(super) wake: Arc<Notify>,
}

impl<T> Inbox<T> {
    pub(super) fn new(
        known: impl IntoIterator<Item = (ObjectRef, Arc<str>)>,
        versions: Arc<Versions>,
    ) -> Self {
        Self {
            pending: HashMap::new(),
            order: BTreeMap::new(),
            next_place: 0,
            foreknown: known.into_iter().collect(),
            drained: versions,
            wake: Arc::new(Notify::new()),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.pending.len()
    }

    /// How far the subscriber has come, if the watch has come as far as `now`.
    pub(super) fn versions(&self, now: &Arc<Versions>) -> Arc<Versions> {
        if self.pending.is_empty() {
            now.clone()
        } else {
            self.drained.clone()
        }
    }

    fn put(
        &mut self,
        object: &ObjectRef,
        gone: Option<Gone<T>>,
        live: Option<Live<T>>,
        versions: &Arc<Versions>,
    ) {
        if self.pending.is_empty() {
            self.drained = versions.clone();
        }
        let place = self.next_place;
        self.next_place += 1;
        self.order.insert(place, object.clone());
        self.pending.insert(object.clone(), Pending { place, gone, live });
        self.wake.notify_one();
    }

    /// An object is there. `same` says that the store had an earlier state of the same uid.
    pub(super) fn applied(
        &mut self,
        object: &Arc<Watched<T>>,
        same: bool,
        initial: bool,
        versions: &Arc<Versions>,
    ) {
        let (name, uid) = (&object.meta.object, &object.meta.uid);
        let live = |heard, initial| Live {
            object: object.clone(),
            heard,
            initial,
        };
        let Some(pending) = self.pending.get_mut(name) else {
            let known = self.foreknown.remove(name);
            let heard = same || known.as_ref() == Some(uid);
            let gone = known.filter(|_| !heard).map(|uid| Gone { uid, last: None });
            return self.put(name, gone, Some(live(heard, initial)), versions);
        };
        match pending.live.take() {
            Some(before) if before.object.meta.uid == *uid => {
                pending.live = Some(live(before.heard, initial && before.initial));
            }
            Some(before) if before.heard => {
                let (uid, last) = (before.object.meta.uid.clone(), Some(before.object));
                pending.gone = Some(Gone { uid, last });
                pending.live = Some(live(false, initial));
            }
            _ if pending.gone.as_ref().is_some_and(|gone| gone.uid == *uid) => {
                // It only left the selection and came back: nothing is gone.
                pending.gone = None;
                pending.live = Some(live(true, initial));
            }
            _ => pending.live = Some(live(false, initial)),
        }
    }

    /// An object is gone. `last` is what the store had of it; where it had nothing, only a subscriber that brought along
    /// this very `uid` has heard of it.
    pub(super) fn deleted(
        &mut self,
        name: &ObjectRef,
        uid: &str,
        last: Option<&Arc<Watched<T>>>,
        versions: &Arc<Versions>,
    ) {
        let Some(pending) = self.pending.get_mut(name) else {
            let foreknown = self.foreknown.get(name).is_some_and(|known| **known == *uid);
            if last.is_some() || foreknown {
                self.foreknown.remove(name);
                let (uid, last) = (Arc::from(uid), last.cloned());
                self.put(name, Some(Gone { uid, last }), None, versions);
            }
            return;
        };
        if let Some(live) = pending.live.take().filter(|live| live.heard) {
            let (uid, last) = (live.object.meta.uid.clone(), Some(live.object));
            pending.gone = Some(Gone { uid, last });
        }
        if pending.gone.is_none() {
            // The subscriber never heard of it, and never will.
            let place = pending.place;
            self.order.remove(&place);
            self.pending.remove(name);
        }
    }

    /// A collection was listed: what the subscriber brought along and is not there is gone.
    pub(super) fn settle(&mut self, is_gone: impl Fn(&ObjectRef, &str) -> bool, versions: &Arc<Versions>) {
        let gone = self.foreknown.iter().filter(|(name, uid)| is_gone(name, uid));
        let gone: Vec<_> = gone.map(|(name, uid)| (name.clone(), uid.clone())).collect();
        for (name, uid) in gone {
            self.deleted(&name, &uid, None, versions);
        }
    }

    pub(super) fn pop(&mut self) -> Option<Change<T>> {
        let (place, name) = self.order.first_key_value()?;
        let (place, name) = (*place, name.clone());
        let pending = self.pending.get_mut(&name)?;
        let gone = pending.gone.take();
        let live = if gone.is_none() { pending.live.take() } else { None };
        if pending.live.is_none() {
            self.order.remove(&place);
            self.pending.remove(&name);
        }
        if let Some(Gone { uid, last }) = gone {
            return Some(Change::Deleted {
                object: name,
                uid,
                last,
            });
        }
        let Live { object, initial, .. } = live?;
        Some(Change::Applied { object, initial })
    }
}

/// All inboxes of a watch, and how far it has come.
#[derive(Debug)]
pub(super) struct Inboxes<T> {
    pub(super) all: BTreeMap<u64, Inbox<T>>,
    /// Moved on only after the changes up to there are in the inboxes.
    pub(super) versions: Arc<Versions>,
}

impl<T> Inboxes<T> {
    pub(super) fn applied(&mut self, object: &Arc<Watched<T>>, same: bool, initial: bool) {
        for inbox in self.all.values_mut() {
            inbox.applied(object, same, initial, &self.versions);
        }
    }

    pub(super) fn deleted(&mut self, name: &ObjectRef, uid: &str, last: Option<&Arc<Watched<T>>>) {
        for inbox in self.all.values_mut() {
            inbox.deleted(name, uid, last, &self.versions);
        }
    }

    /// Takes back how far a collection has come.
    pub(super) fn forget(&mut self, collection: &str) {
        let drained = self.all.values_mut().map(|inbox| &mut inbox.drained);
        for versions in drained.chain([&mut self.versions]) {
            Arc::make_mut(versions).forget(collection);
        }
    }

    pub(super) fn settle(&mut self, is_gone: impl Fn(&ObjectRef, &str) -> bool) {
        for inbox in self.all.values_mut() {
            inbox.settle(&is_gone, &self.versions);
        }
    }
}

#[cfg(test)]
mod tests;
