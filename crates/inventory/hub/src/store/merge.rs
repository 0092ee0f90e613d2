//! How a batch of records changes what is known of a cluster: a pure function.
//!
//! | what is known of the uid | an object arrives | its deletion arrives |
//! |---|---|---|
//! | nothing | it is written | a tombstone is written |
//! | live, same content | nothing is written | it becomes a tombstone |
//! | live, other content | it is written | it becomes a tombstone |
//! | softly removed | it is written and live again | it becomes a tombstone |
//! | tombstone | it is ignored: uids are never used twice | nothing |
//!
//! A name belongs to one live object. An object under the name of another live object closes that one softly, unless it is the older of
//! the two by its creation; then it is late news, and is ignored. Of two equally old ones, the one that the hub did not know is the newer.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};

use crate::record::Record;
use crate::time::Millis;

/// A record of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// The object is like this.
    Upsert(Record),
    /// The object is gone.
    Delete(Gone),
}

/// An object that is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gone {
    /// Its uid.
    pub uid: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace; empty if it has none.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Op {
    /// The uid that it speaks of.
    pub fn uid(&self) -> &str {
        match self {
            Self::Upsert(record) => &record.uid,
            Self::Delete(gone) => &gone.uid,
        }
    }
}

/// Whether an object is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// It is.
    Live,
    /// It was missing in a snapshot, or lost its name: it may come back.
    Soft,
    /// It was deleted, for good.
    Tombstone,
}

/// What the database knows of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// Its uid.
    pub uid: String,
    /// Its kind, namespace and name.
    pub place: Place,
    /// The digest of its content.
    pub digest: i64,
    /// When it was made, as Kubernetes says.
    pub created: Option<Millis>,
    /// Whether it is there.
    pub presence: Presence,
}

/// Kind, namespace and name: of live objects only one has them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The kind.
    pub kind: String,
    /// The namespace; empty if the kind has none.
    pub namespace: String,
    /// The name.
    pub name: String,
}

/// What is to be written.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Writes {
    /// Rows with their content. Those that are not live come first.
    pub put: Vec<(Record, Presence)>,
    /// Rows that stay as they are, but are no longer there: softly removed, or tombstones.
    pub close: Vec<(String, Presence)>,
    /// Tombstones of objects that the hub did not know.
    pub bury: Vec<Gone>,
    /// The kind of each object that changed.
    pub changed: Vec<String>,
    /// How many records were ignored because their object was deleted, or is not the newest of its name.
    pub ignored: usize,
}

/// Merges `ops`, in their order, into what is `known` of the uids and places that they name.
pub fn merge(known: Vec<Known>, ops: Vec<Op>) -> Writes {
    let mut merge = Merge::new(known);
    for op in ops {
        match op {
            Op::Upsert(record) => merge.upsert(record),
            Op::Delete(gone) => merge.delete(gone),
        }
    }
    merge.finish()
}

/// The state of one object while a batch is merged.
struct Entry {
    place: Place,
    digest: i64,
    created: Option<Millis>,
    presence: Presence,
    /// What the database has, if anything.
    stored: Option<Presence>,
    /// The content to write.
    content: Option<Record>,
    /// The content has another name than the row in the database.
    renamed: bool,
}

#[derive(Default)]
struct Merge {
    entries: BTreeMap<String, Entry>,
    live: HashMap<Place, String>,
    changed: Vec<String>,
    ignored: usize,
}

impl Merge {
    fn new(known: Vec<Known>) -> Self {
        let mut merge = Self::default();
        for known in known {
            if known.presence == Presence::Live {
                merge.live.insert(known.place.clone(), known.uid.clone());
            }
            let entry = Entry {
                place: known.place,
                digest: known.digest,
                created: known.created,
                presence: known.presence,
                stored: Some(known.presence),
                content: None,
                renamed: false,
            };
            merge.entries.insert(known.uid, entry);
        }
        merge
    }

    fn upsert(&mut self, record: Record) {
        let place = record.place();
        let known = self.entries.get(&record.uid);
        match known {
            Some(known) if known.presence == Presence::Tombstone => {
                self.ignored += 1;
                return;
            }
            Some(known)
                if known.presence == Presence::Live
                    && known.digest == record.digest
                    && known.place == place =>
            {
                return;
            }
            _ => {}
        }
        let was_known = known.is_some();
        if let Some(holder) = self
            .live
            .get(&place)
            .filter(|holder| **holder != record.uid)
            .cloned()
        {
            if !self.is_newer(&record, was_known, &holder) {
                self.ignored += 1;
                return;
            }
            self.close(&holder, Presence::Soft);
        }
        self.put(place, record);
    }

    /// Whether a record may take the name of the live object `holder`.
    fn is_newer(&self, record: &Record, was_known: bool, holder: &str) -> bool {
        let held = self.entries.get(holder).and_then(|entry| entry.created);
        match (record.created, held) {
            (Some(new), Some(held)) if new != held => new > held,
            _ => !was_known,
        }
    }

    fn put(&mut self, place: Place, record: Record) {
        self.changed.push(record.kind.clone());
        let old = self.entries.get(&record.uid);
        let stored = old.and_then(|entry| entry.stored);
        // An object keeps its name for life; should an agent say otherwise, its old name is free again.
        let renamed = old.is_some_and(|old| old.renamed || old.place != place);
        if let Some(old) = old
            && self.live.get(&old.place) == Some(&record.uid)
        {
            self.live.remove(&old.place);
        }
        self.live.insert(place.clone(), record.uid.clone());
        let uid = record.uid.clone();
        let entry = Entry {
            place,
            digest: record.digest,
            created: record.created,
            presence: Presence::Live,
            stored,
            content: Some(record),
            renamed,
        };
        self.entries.insert(uid, entry);
    }

    fn close(&mut self, uid: &str, presence: Presence) {
        let Some(entry) = self.entries.get_mut(uid) else {
            return;
        };
        if entry.presence == Presence::Live {
            self.changed.push(entry.place.kind.clone());
            if self.live.get(&entry.place).is_some_and(|holder| holder == uid) {
                self.live.remove(&entry.place);
            }
        }
        entry.presence = presence;
    }

    fn delete(&mut self, gone: Gone) {
        if self.entries.contains_key(&gone.uid) {
            self.close(&gone.uid, Presence::Tombstone);
            return;
        }
        let place = Place {
            kind: gone.kind,
            namespace: gone.namespace,
            name: gone.name,
        };
        let entry = Entry {
            place,
            digest: 0,
            created: None,
            presence: Presence::Tombstone,
            stored: None,
            content: None,
            renamed: false,
        };
        self.entries.insert(gone.uid, entry);
    }

    fn finish(self) -> Writes {
        let mut writes = Writes {
            changed: self.changed,
            ignored: self.ignored,
            ..Writes::default()
        };
        for (uid, entry) in self.entries {
            match (entry.content, entry.stored) {
                (Some(record), stored) => {
                    if entry.renamed && stored == Some(Presence::Live) {
                        writes.close.push((uid, Presence::Soft));
                    }
                    writes.put.push((record, entry.presence));
                }
                (None, None) => writes.bury.push(Gone {
                    uid,
                    kind: entry.place.kind,
                    namespace: entry.place.namespace,
                    name: entry.place.name,
                }),
                (None, Some(stored)) if stored != entry.presence => writes.close.push((uid, entry.presence)),
                (None, Some(_)) => {}
            }
        }
        // The index of live names is checked row by row: names must be free before they are taken.
        writes
            .put
            .sort_by_key(|(_, presence)| *presence == Presence::Live);
        writes
    }
}
