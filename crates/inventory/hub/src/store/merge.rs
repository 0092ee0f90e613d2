//! How a batch of records changes what is known of a cluster: a pure function.
//!
//! | what is known of the uid | an object arrives | its deletion arrives |
//! |---|---|---|
//! | nothing | it is written | a tombstone is written |
//! | live, same content | nothing is written | it becomes a tombstone |
//! | live, other content | it is written | it becomes a tombstone |
//! | swept | it is written and live again | it becomes a tombstone |
//! | displaced | it is written; live again if its name is free | it becomes a tombstone |
//! | tombstone | it is ignored: uids are never used twice | nothing |
//!
//! A name belongs to one live object. Of two objects with one name, the one that was created later is live, and the other one is
//! **displaced**. Of two that were created in the same second, the one that the hub did not know is live. Clocks of API servers differ, and
//! changes of two objects overtake each other, so that this choice can be wrong: a displaced object is kept with its content, and becomes
//! live as soon as its name is free.
//!
//! **Guarantees.** A displaced object has a live one of the same name beside it: no object is hidden for good.

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
    /// The object was deleted.
    Delete(Deletion),
}

/// The report of an agent that an object was deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deletion {
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
            Self::Delete(deletion) => &deletion.uid,
        }
    }
}

/// Whether an object is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// The object is live.
    Live,
    /// A complete snapshot did not name the object; later news bring it back.
    Swept,
    /// Another live object has its name; it comes back when that name is free.
    Displaced,
    /// An agent reported its deletion, which is final.
    Tombstone,
}

/// What the database knows of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// Its uid.
    pub uid: String,
    /// Its kind, namespace and name.
    pub object_name: ObjectName,
    /// The digest of its content.
    pub digest: i64,
    /// When it was made, as Kubernetes says.
    pub created: Option<Millis>,
    /// Whether it is shown.
    pub presence: Presence,
}

/// Kind, namespace and name: of live objects only one has them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectName {
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
    /// Rows that keep their content and are no longer live.
    pub close: Vec<(String, Presence)>,
    /// Rows that keep their content and are live again. Their names are free after everything else was written.
    pub revive: Vec<String>,
    /// Tombstones of objects that the hub did not know.
    pub tombstones: Vec<Deletion>,
    /// The kind of each object that changed.
    pub changed: Vec<String>,
    /// How many records change nothing that is shown, because their object was deleted or is displaced.
    pub ignored: usize,
}

/// Merges `ops`, in their order, into what is `known` of the uids and names that they name, and of displaced objects with the names of
/// these.
pub fn merge(known: Vec<Known>, ops: Vec<Op>) -> Writes {
    let mut merge = Merge::new(known);
    for op in ops {
        match op {
            Op::Upsert(record) => merge.upsert(record),
            Op::Delete(deletion) => merge.delete(deletion),
        }
    }
    merge.finish()
}

/// The state of one object while a batch is merged.
struct Entry {
    object_name: ObjectName,
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
    live: HashMap<ObjectName, String>,
    changed: Vec<String>,
    ignored: usize,
}

impl Merge {
    fn new(known: Vec<Known>) -> Self {
        let mut merge = Self::default();
        for known in known {
            if known.presence == Presence::Live {
                merge.live.insert(known.object_name.clone(), known.uid.clone());
            }
            let entry = Entry {
                object_name: known.object_name,
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
        let object_name = record.object_name();
        let known = self.entries.get(&record.uid);
        match known {
            Some(known) if known.presence == Presence::Tombstone => {
                self.ignored += 1;
                return;
            }
            Some(known)
                if known.presence == Presence::Live
                    && known.digest == record.digest
                    && known.object_name == object_name =>
            {
                return;
            }
            _ => {}
        }
        let was_known = known.is_some();
        let holder = self.live.get(&object_name);
        let Some(holder) = holder.filter(|holder| **holder != record.uid).cloned() else {
            return self.put(object_name, record, Presence::Live);
        };
        if self.is_newer(&record, was_known, &holder) {
            self.close(&holder, Presence::Displaced);
            return self.put(object_name, record, Presence::Live);
        }
        self.ignored += 1;
        let same = known.is_some_and(|known| {
            known.presence == Presence::Displaced
                && known.digest == record.digest
                && known.object_name == object_name
        });
        if !same {
            self.put(object_name, record, Presence::Displaced);
        }
    }

    /// Whether a record may take the name of the live object `holder`.
    fn is_newer(&self, record: &Record, was_known: bool, holder: &str) -> bool {
        let held = self.entries.get(holder).and_then(|entry| entry.created);
        match (record.created, held) {
            (Some(new), Some(held)) if new != held => new > held,
            _ => !was_known,
        }
    }

    /// Takes the content of a record. A live record finds its name free.
    fn put(&mut self, object_name: ObjectName, record: Record, presence: Presence) {
        let old = self.entries.get(&record.uid);
        let was_live = old.is_some_and(|old| old.presence == Presence::Live);
        if was_live || presence == Presence::Live {
            self.changed.push(record.kind.clone());
        }
        let stored = old.and_then(|entry| entry.stored);
        let old_name = old.map(|old| old.object_name.clone());
        // An object keeps its name for life; should an agent say otherwise, its old name is free again.
        let old_name = old_name.filter(|old| *old != object_name);
        let renamed = old_name.is_some() || old.is_some_and(|old| old.renamed);
        let uid = record.uid.clone();
        if presence == Presence::Live {
            self.live.insert(object_name.clone(), uid.clone());
        }
        let entry = Entry {
            object_name,
            digest: record.digest,
            created: record.created,
            presence,
            stored,
            content: Some(record),
            renamed,
        };
        self.entries.insert(uid.clone(), entry);
        if let Some(old_name) = old_name
            && self.live.get(&old_name) == Some(&uid)
        {
            self.free(&old_name);
        }
    }

    /// Makes an object not live. Its name is not given to another one: see [`free`](Self::free).
    fn close(&mut self, uid: &str, presence: Presence) {
        let Some(entry) = self.entries.get_mut(uid) else {
            return;
        };
        if entry.presence == Presence::Live {
            self.changed.push(entry.object_name.kind.clone());
        }
        entry.presence = presence;
    }

    /// Gives a name that no live object has any more to the newest of the objects that are displaced.
    fn free(&mut self, object_name: &ObjectName) {
        self.live.remove(object_name);
        let displaced = self
            .entries
            .iter_mut()
            .filter(|(_, entry)| entry.presence == Presence::Displaced && entry.object_name == *object_name);
        if let Some((uid, entry)) =
            displaced.max_by_key(|(uid, entry)| (entry.created, uid.as_str().to_owned()))
        {
            entry.presence = Presence::Live;
            self.changed.push(object_name.kind.clone());
            self.live.insert(object_name.clone(), uid.clone());
        }
    }

    fn delete(&mut self, deletion: Deletion) {
        if let Some(known) = self.entries.get(&deletion.uid) {
            let object_name = known.object_name.clone();
            self.close(&deletion.uid, Presence::Tombstone);
            if self.live.get(&object_name) == Some(&deletion.uid) {
                self.free(&object_name);
            }
            return;
        }
        let object_name = ObjectName {
            kind: deletion.kind,
            namespace: deletion.namespace,
            name: deletion.name,
        };
        let entry = Entry {
            object_name,
            digest: 0,
            created: None,
            presence: Presence::Tombstone,
            stored: None,
            content: None,
            renamed: false,
        };
        self.entries.insert(deletion.uid, entry);
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
                    // The index of live names is checked row by row: the old name must be free before another row takes it.
                    if entry.renamed && stored == Some(Presence::Live) {
                        writes.close.push((uid, Presence::Swept));
                    }
                    writes.put.push((record, entry.presence));
                }
                (None, None) => writes.tombstones.push(Deletion {
                    uid,
                    kind: entry.object_name.kind,
                    namespace: entry.object_name.namespace,
                    name: entry.object_name.name,
                }),
                (None, Some(stored)) if stored == entry.presence => {}
                (None, Some(_)) if entry.presence == Presence::Live => writes.revive.push(uid),
                (None, Some(_)) => writes.close.push((uid, entry.presence)),
            }
        }
        // The index of live names is checked row by row: names must be free before they are taken.
        writes
            .put
            .sort_by_key(|(_, presence)| *presence == Presence::Live);
        writes
    }
}
