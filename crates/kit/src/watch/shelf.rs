//! The objects of one collection, and what each step changes about them.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, hash_map::Entry},
    sync::Arc,
};

use trustplane_plan::{Meta, ObjectRef};

use super::{inbox::Inboxes, spec::is_older, wire::Identity};

/// An object as the store keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watched<T> {
    /// Its metadata, without `managedFields`.
    pub meta: Meta,
    /// What the projection kept.
    pub value: T,
}

/// What a list or an event says about an object.
#[derive(Debug)]
pub(super) enum Read<T> {
    Object(Arc<Watched<T>>),
    /// It exists, but cannot be read.
    Unreadable(Identity, String),
}

impl<T> Read<T> {
    fn object(&self) -> &ObjectRef {
        match self {
            Self::Object(object) => &object.meta.object,
            Self::Unreadable(identity, _) => &identity.object,
        }
    }
}

/// What a store makes of an event.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is in the store now, or was already.
    Taken,
    /// It is older than what is known, of an object that is not there: it may be the echo of one that was deleted.
    Doubtful,
}

/// A list while it is gathered.
#[derive(Debug)]
pub(super) struct Staging<T> {
    found: HashMap<ObjectRef, Read<T>>,
    /// Objects that could not even be named. They may be any, so nothing is taken for deleted.
    nameless: bool,
}

impl<T> Default for Staging<T> {
    fn default() -> Self {
        Self {
            found: HashMap::new(),
            nameless: false,
        }
    }
}

impl<T> Staging<T> {
    pub(super) fn put(&mut self, read: Read<T>) {
        self.found.insert(read.object().clone(), read);
    }

    pub(super) fn put_nameless(&mut self) {
        self.nameless = true;
    }

    pub(super) fn remove(&mut self, object: &ObjectRef) {
        self.found.remove(object);
    }
}

/// An object that exists but cannot be read.
#[derive(Debug)]
pub(super) struct Unreadable {
    pub(super) uid: Arc<str>,
    pub(super) what: String,
}

/// Says under which names an object is to be found.
pub(super) type Names<T> = fn(&Meta, &T) -> Vec<ObjectRef>;

/// The objects of one collection.
#[derive(Debug)]
pub(super) struct Shelf<T> {
    pub(super) objects: HashMap<ObjectRef, Arc<Watched<T>>>,
    pub(super) unreadable: BTreeMap<ObjectRef, Unreadable>,
    names: Names<T>,
    named: HashMap<ObjectRef, BTreeSet<ObjectRef>>,
}

impl<T> Shelf<T> {
    pub(super) fn new(names: Names<T>) -> Self {
        Self {
            objects: HashMap::new(),
            unreadable: BTreeMap::new(),
            names,
            named: HashMap::new(),
        }
    }

    /// The objects that are to be found under a name, in the order of their own.
    pub(super) fn under(&self, name: &ObjectRef) -> impl Iterator<Item = &Arc<Watched<T>>> {
        let objects = self.named.get(name).into_iter().flatten();
        objects.filter_map(|object| self.objects.get(object))
    }

    fn enter(&mut self, object: &Watched<T>) {
        for name in (self.names)(&object.meta, &object.value) {
            self.named
                .entry(name)
                .or_default()
                .insert(object.meta.object.clone());
        }
    }

    fn strike(&mut self, object: &Watched<T>) {
        for name in (self.names)(&object.meta, &object.value) {
            if let Entry::Occupied(mut entry) = self.named.entry(name) {
                entry.get_mut().remove(&object.meta.object);
                if entry.get().is_empty() {
                    entry.remove();
                }
            }
        }
    }

    /// The state of an object that a list found again unchanged, so that it need not be kept twice.
    pub(super) fn same(&self, object: &ObjectRef, uid: &str, version: &str) -> Option<&Arc<Watched<T>>> {
        let known = self.objects.get(object)?;
        (*known.meta.uid == *uid && *known.meta.resource_version == *version).then_some(known)
    }

    /// Takes an event. `seen` is the newest version that the collection has shown before it.
    pub(super) fn apply(&mut self, read: Read<T>, seen: Option<&str>, inboxes: &mut Inboxes<T>) -> Verdict {
        let (uid, version) = match &read {
            Read::Object(object) => (&object.meta.uid, &object.meta.resource_version),
            Read::Unreadable(identity, _) => (&identity.uid, &identity.version),
        };
        match self.objects.get(read.object()) {
            Some(known) if known.meta.uid == *uid && known.meta.resource_version == *version => {
                return Verdict::Taken;
            }
            Some(known) if is_older(version, &known.meta.resource_version) => return Verdict::Taken,
            None if seen.is_some_and(|seen| is_older(version, seen)) => return Verdict::Doubtful,
            _ => {}
        }
        self.place(read, false, inboxes);
        Verdict::Taken
    }

    fn place(&mut self, read: Read<T>, initial: bool, inboxes: &mut Inboxes<T>) {
        match read {
            Read::Object(object) => {
                let name = &object.meta.object;
                self.unreadable.remove(name);
                let before = self.objects.insert(name.clone(), object.clone());
                before.iter().for_each(|before| self.strike(before));
                self.enter(&object);
                let same = before
                    .as_ref()
                    .is_some_and(|before| before.meta.uid == object.meta.uid);
                if let Some(before) = before.filter(|_| !same) {
                    inboxes.deleted(name, &before.meta.uid, Some(&before));
                }
                inboxes.applied(&object, same, initial);
            }
            Read::Unreadable(Identity { object, uid, .. }, what) => {
                if self
                    .objects
                    .get(&object)
                    .is_some_and(|known| known.meta.uid != uid)
                {
                    self.delete(&object, None, inboxes);
                }
                self.unreadable.insert(object, Unreadable { uid, what });
            }
        }
    }

    /// Takes a deletion; of another incarnation than the one that is known if the uids differ.
    pub(super) fn delete(&mut self, object: &ObjectRef, uid: Option<&str>, inboxes: &mut Inboxes<T>) {
        let is_meant = |known: &Arc<str>| uid.is_none_or(|uid| **known == *uid);
        if self
            .unreadable
            .get(object)
            .is_some_and(|unreadable| is_meant(&unreadable.uid))
        {
            self.unreadable.remove(object);
        }
        match self.objects.get(object) {
            Some(known) if is_meant(&known.meta.uid) => {
                if let Some(known) = self.objects.remove(object) {
                    self.strike(&known);
                    inboxes.deleted(object, &known.meta.uid, Some(&known));
                }
            }
            Some(_) => {}
            None => inboxes.deleted(object, uid.unwrap_or_default(), None),
        }
    }

    /// Whether an object that a subscriber knew is gone, if the collection was listed.
    pub(super) fn lacks(&self, object: &ObjectRef, uid: &str) -> bool {
        let unreadable = self.unreadable.get(object);
        !self.objects.contains_key(object) && unreadable.is_none_or(|unreadable| *unreadable.uid != *uid)
    }

    /// Puts a complete list in place: first what has vanished, then what is new or changed.
    ///
    /// Returns whether the list can be trusted to show what is not there.
    pub(super) fn commit(&mut self, staging: Staging<T>, initial: bool, inboxes: &mut Inboxes<T>) -> bool {
        let Staging { found, nameless } = staging;
        if !nameless {
            let vanished = |object: &&ObjectRef| !found.contains_key(*object);
            let gone: Vec<_> = self.objects.keys().filter(vanished).cloned().collect();
            for object in gone {
                self.delete(&object, None, inboxes);
            }
            self.unreadable.retain(|object, _| found.contains_key(object));
        }
        for read in found.into_values() {
            let unchanged = match &read {
                Read::Object(object) => {
                    let meta = &object.meta;
                    self.same(&meta.object, &meta.uid, &meta.resource_version)
                        .is_some()
                }
                Read::Unreadable(..) => false,
            };
            if !unchanged {
                self.place(read, initial, inboxes);
            }
        }
        !nameless
    }
}

#[cfg(test)]
mod tests;
