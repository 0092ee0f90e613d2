//! What the cluster holds as far as it was read, and the platforms that are to hear of it.
//!
//! Lists and watches put in what they see; each platform's [`Sender`] takes out what it is to be sent. Both happen under one lock of the
//! caller's, so that a snapshot and the changes after it fit together.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use trustplane_api::inventory::wire::EventType;
use trustplane_plan::ObjectRef;

use crate::index::{Index, Name, Names, Sight, Sighted, Uid};
use crate::pending::Record;
use crate::sender::{Answered, Call, Kinds, Outcome, Report, Sender, Settings};
use crate::{InventoryKind, Projection, digest};

/// The namespace whose uid names the cluster.
const KUBE_SYSTEM: &str = "kube-system";

/// Names a platform among those that are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SenderId(pub u64);

/// What is known of a kind.
#[derive(Debug, Default)]
struct KindState {
    index: Index,
    /// Whether a list runs.
    is_listing: bool,
    /// Whether a list was complete.
    is_complete: bool,
    /// Why it cannot be read, if it cannot.
    unreadable: Option<String>,
    /// Objects whose present state cannot be read: the name, and the list that last showed the object so.
    undecodable: BTreeMap<Uid, (ObjectRef, u32)>,
    /// How many objects of the running or last list could be read.
    decoded: usize,
    /// Whether no object of the last list could be read. That must not be taken for a kind without objects.
    is_opaque: bool,
}

impl KindState {
    /// Why the kind is not sent, or not completely.
    fn problem(&self) -> Option<String> {
        if self.unreadable.is_some() {
            return self.unreadable.clone();
        }
        let (first, _) = self.undecodable.values().next()?;
        let count = self.undecodable.len();
        Some(match (self.is_opaque, count) {
            (true, _) => format!("none of its {count} objects can be read, such as {first}"),
            (false, 1) => format!("the object {first} cannot be read"),
            (false, _) => format!("{count} objects cannot be read, such as {first}"),
        })
    }
}

/// The kinds that take part.
#[derive(Debug, Default)]
struct AllKinds(BTreeMap<InventoryKind, KindState>);

impl Kinds for AllKinds {
    fn all(&self) -> impl Iterator<Item = InventoryKind> {
        self.0.keys().copied()
    }

    fn is_readable(&self, kind: InventoryKind) -> bool {
        let state = self.0.get(&kind);
        state.is_some_and(|state| state.unreadable.is_none() && !state.is_opaque)
    }

    fn digest(&self, kind: InventoryKind, uid: &Uid) -> Option<u64> {
        self.0.get(&kind)?.index.digest(uid)
    }
}

/// What a platform's task is to do now.
#[derive(Debug)]
pub struct Step {
    /// A request to make; ask again at once after it was begun.
    pub call: Option<Call>,
    /// Kinds to list again.
    pub relist: Vec<InventoryKind>,
    /// When to ask again although nothing happens.
    pub wake: Option<Instant>,
}

/// What a complete list means for those who read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListEnd {
    /// The list is from before what was seen: the kind has to be listed once more.
    pub again: bool,
}

/// The cluster as it was read, and the platforms.
#[derive(Debug)]
pub struct World {
    kinds: AllKinds,
    names: Names,
    senders: BTreeMap<SenderId, Sender>,
    cluster_uid: Option<Box<str>>,
}

impl World {
    /// A world of these kinds; no object was read yet.
    pub fn new(kinds: impl IntoIterator<Item = InventoryKind>) -> Self {
        let kinds = kinds.into_iter().map(|kind| (kind, KindState::default()));
        Self {
            kinds: AllKinds(kinds.collect()),
            names: Names::default(),
            senders: BTreeMap::new(),
            cluster_uid: None,
        }
    }

    /// The kinds that take part.
    pub fn kinds(&self) -> Vec<InventoryKind> {
        self.kinds.all().collect()
    }

    // Platforms.

    /// Serves a platform from now on.
    pub fn add(&mut self, id: SenderId, settings: Settings, now: Instant) {
        let lists_come = self
            .kinds
            .0
            .values()
            .all(|state| !state.is_listing && !state.is_complete);
        self.senders.insert(id, Sender::new(settings, lists_come, now));
    }

    /// Changes how a platform is served.
    pub fn configure(&mut self, id: SenderId, settings: Settings, now: Instant) {
        if let Some(sender) = self.senders.get_mut(&id) {
            sender.configure(settings, now);
        }
    }

    /// Ends the trouble of a platform at once: it may take from new credentials what it refused to the old ones.
    pub fn reopen(&mut self, id: SenderId) {
        if let Some(sender) = self.senders.get_mut(&id) {
            sender.reopen();
        }
    }

    /// Sends a platform another snapshot. Deletions that are pending stay pending.
    pub fn owe_snapshot(&mut self, id: SenderId) {
        if let Some(sender) = self.senders.get_mut(&id) {
            sender.owe();
        }
    }

    /// Serves a platform no longer.
    pub fn remove(&mut self, id: SenderId) {
        self.senders.remove(&id);
    }

    /// What a platform's task is to do now.
    pub fn step(&mut self, id: SenderId, now: Instant) -> Step {
        let Some(sender) = self.senders.get_mut(&id) else {
            return Step {
                call: None,
                relist: Vec::new(),
                wake: None,
            };
        };
        let (call, wants_lists) = sender.next(now, &self.kinds);
        // A kind whose first list has not begun is listed anyway.
        let is_read = |(_, state): &(&InventoryKind, &KindState)| state.is_complete || state.is_listing;
        let relist = match wants_lists {
            true => self
                .kinds
                .0
                .iter()
                .filter(is_read)
                .map(|(kind, _)| *kind)
                .collect(),
            false => Vec::new(),
        };
        Step {
            call,
            relist,
            wake: sender.wake(now),
        }
    }

    /// Takes note of what became of a platform's request.
    pub fn answered(
        &mut self,
        id: SenderId,
        what: &Answered,
        outcome: Outcome,
        now: Instant,
        time: Timestamp,
    ) {
        if let Some(sender) = self.senders.get_mut(&id) {
            sender.answered(what, outcome, now, time);
        }
    }

    /// What a platform's sender says of itself.
    pub fn report(&self, id: SenderId) -> Option<Report> {
        self.senders.get(&id).map(Sender::report)
    }

    /// Whether a platform has everything.
    pub fn is_idle(&self, id: SenderId) -> bool {
        self.senders.get(&id).is_none_or(Sender::is_idle)
    }

    // What people want to know.

    /// How many objects of each kind there are; kinds that were never read are left out.
    pub fn counts(&self) -> BTreeMap<InventoryKind, usize> {
        let read = self.kinds.0.iter().filter(|(_, state)| state.is_complete);
        read.map(|(kind, state)| (*kind, state.index.len())).collect()
    }

    /// Why kinds, or some of their objects, cannot be read.
    pub fn unreadable(&self) -> BTreeMap<InventoryKind, String> {
        let kinds = self.kinds.0.iter();
        kinds
            .filter_map(|(kind, state)| Some((*kind, state.problem()?)))
            .collect()
    }

    /// By what platforms know the cluster; `None` until its namespaces were read.
    pub fn cluster_uid(&self) -> Option<String> {
        self.cluster_uid.as_deref().map(str::to_owned)
    }

    // What lists and watches see. Each answers whether a platform may have something to send now.

    /// A list of a kind begins.
    pub fn list_begun(&mut self, kind: InventoryKind) {
        if let Some(state) = self.kinds.0.get_mut(&kind) {
            state.index.begin_list();
            state.is_listing = true;
            state.decoded = 0;
        }
        for sender in self.senders.values_mut() {
            sender.list_begun(kind);
        }
    }

    /// An object is there, in this state; `listing` says that a list shows it.
    pub fn applied(&mut self, kind: InventoryKind, seen: &Projection, version: u64, listing: bool) -> bool {
        let Some(state) = self.kinds.0.get_mut(&kind) else {
            return false;
        };
        let uid = Uid::from(&*seen.uid);
        if kind == InventoryKind::Namespace && &*seen.name == KUBE_SYSTEM {
            self.cluster_uid = Some(seen.uid.clone());
        }
        state.undecodable.remove(&uid);
        state.decoded += 1;
        // A streaming list may show a change of an object that it has shown before.
        let is_first = listing && !state.index.is_listed(&uid);
        let sight = Sight {
            namespace: seen.namespace.as_deref(),
            name: &seen.name,
            digest: digest(&seen.object),
            version,
        };
        let sighted = state.index.see(&uid, &sight, &mut self.names);
        let Some(name) = state.index.name(&uid).filter(|_| sighted != Sighted::Older) else {
            return false;
        };
        let mut text: Option<Arc<str>> = None;
        let mut wake = false;
        for sender in self.senders.values_mut() {
            if is_first && sender.listed(kind, name, &seen.object) {
                continue;
            }
            if sighted == Sighted::Same {
                continue;
            }
            let object = text.get_or_insert_with(|| seen.object.as_str().into()).clone();
            let record = Record {
                kind,
                uid: uid.clone(),
                name: name.clone(),
                type_: match sighted {
                    Sighted::New => EventType::Added,
                    _ => EventType::Modified,
                },
                object: Some(object),
                is_told: sighted != Sighted::New,
                attempts: 0,
            };
            wake |= sender.changed(record, false);
        }
        wake
    }

    /// An object exists but cannot be read. It is told to people, and sent as soon as it can be read.
    pub fn undecodable(&mut self, kind: InventoryKind, object: &ObjectRef, uid: &str) -> bool {
        let Some(state) = self.kinds.0.get_mut(&kind) else {
            return false;
        };
        let uid = Uid::from(uid);
        state.index.keep(&uid);
        let seen = (object.clone(), state.index.list());
        state.undecodable.insert(uid, seen).is_none()
    }

    /// An object is gone.
    pub fn deleted(&mut self, kind: InventoryKind, uid: &str) -> bool {
        let uid = Uid::from(uid);
        let known = self.kinds.0.get_mut(&kind).and_then(|state| {
            state.undecodable.remove(&uid);
            state.index.remove(&uid)
        });
        known.is_some_and(|name| self.tell_gone(kind, uid, &name, false))
    }

    /// The list of a kind is complete. `whole` is false if the list showed an object that could not even be named: then nothing is
    /// taken for gone.
    pub fn list_complete(&mut self, kind: InventoryKind, whole: bool) -> ListEnd {
        let Some(state) = self.kinds.0.get_mut(&kind) else {
            return ListEnd { again: false };
        };
        state.is_listing = false;
        state.is_complete = true;
        let list = state.index.list();
        state.undecodable.retain(|_, (_, seen)| *seen == list);
        state.is_opaque = state.decoded == 0 && !state.undecodable.is_empty();
        state.unreadable = None;
        let is_opaque = state.is_opaque;
        if !whole {
            state.index.keep_all();
        }
        let (gone, again) = state.index.end_list();
        for (uid, name) in gone {
            self.tell_gone(kind, uid, &name, true);
        }
        for sender in self.senders.values_mut() {
            match (again, is_opaque) {
                // A snapshot would lack the objects that the list showed in an older state.
                (true, _) => sender.list_dropped(kind),
                (false, true) => sender.list_opaque(kind),
                (false, false) => sender.list_complete(kind),
            }
        }
        ListEnd { again }
    }

    /// The list that had begun is worth nothing.
    pub fn list_dropped(&mut self, kind: InventoryKind) {
        if let Some(state) = self.kinds.0.get_mut(&kind) {
            state.is_listing = false;
        }
        for sender in self.senders.values_mut() {
            sender.list_dropped(kind);
        }
    }

    /// Whether a kind can be read, and why not. Answers whether that is news.
    pub fn set_unreadable(&mut self, kind: InventoryKind, why: Option<String>) -> bool {
        match self.kinds.0.get_mut(&kind) {
            Some(state) => std::mem::replace(&mut state.unreadable, why.clone()) != why,
            None => false,
        }
    }

    fn tell_gone(&mut self, kind: InventoryKind, uid: Uid, name: &Name, is_vanished: bool) -> bool {
        let mut wake = false;
        for sender in self.senders.values_mut() {
            let record = Record {
                kind,
                uid: uid.clone(),
                name: name.clone(),
                type_: EventType::Deleted,
                object: None,
                is_told: false,
                attempts: 0,
            };
            wake |= sender.changed(record, is_vanished);
        }
        wake
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
