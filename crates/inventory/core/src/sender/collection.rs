//! The gathering of a snapshot: each kind by the next list of it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::InventoryKind;
use crate::snapshot::{Objects, Snapshot};

/// How far the list of a kind has come.
#[derive(Debug)]
enum Slot {
    Gathering(Objects),
    Done(Objects),
    /// The list is complete, but no object of it can be read.
    Opaque,
}

/// A snapshot in the making.
#[derive(Debug, Default)]
pub(super) struct Collection {
    slots: BTreeMap<InventoryKind, Slot>,
    /// How many kinds were done when that number was last seen to grow, and when.
    progress: Option<(usize, Instant)>,
}

impl Collection {
    /// A list of a kind begins. Answers whether its objects are wanted.
    pub(super) fn begin(&mut self, kind: InventoryKind) -> bool {
        if self.has(kind) {
            return false;
        }
        self.slots.insert(kind, Slot::Gathering(Objects::default()));
        true
    }

    /// Takes an object of the running list; answers whether it was wanted.
    pub(super) fn push(&mut self, kind: InventoryKind, object: &str) -> bool {
        match self.slots.get_mut(&kind) {
            Some(Slot::Gathering(objects)) => {
                objects.push(object);
                true
            }
            _ => false,
        }
    }

    /// The list of a kind is complete.
    pub(super) fn end(&mut self, kind: InventoryKind) {
        if let Some(Slot::Gathering(objects)) = self.slots.get_mut(&kind) {
            let mut objects = std::mem::take(objects);
            objects.close();
            self.slots.insert(kind, Slot::Done(objects));
        }
    }

    /// The list of a kind is complete, but no object of it can be read. Changes from now on are not part of another list.
    pub(super) fn leave_out(&mut self, kind: InventoryKind) {
        self.slots.insert(kind, Slot::Opaque);
    }

    /// The list of a kind was given up.
    pub(super) fn give_up(&mut self, kind: InventoryKind) {
        if matches!(self.slots.get(&kind), Some(Slot::Gathering(_))) {
            self.slots.remove(&kind);
        }
    }

    /// Whether a kind is there as a whole.
    pub(super) fn has(&self, kind: InventoryKind) -> bool {
        matches!(self.slots.get(&kind), Some(Slot::Done(_)))
    }

    /// Whether a list of the kind has begun since the collection did.
    pub(super) fn has_begun(&self, kind: InventoryKind) -> bool {
        self.slots.contains_key(&kind)
    }

    /// Whether one kind at least is done, and no other became done for so long.
    pub(super) fn is_stuck(&mut self, now: Instant, limit: Duration) -> bool {
        let done = self.slots.values().filter(|slot| matches!(slot, Slot::Done(_)));
        let done = done.count();
        let since = match self.progress {
            Some((before, since)) if before == done => since,
            _ => now,
        };
        self.progress = (done > 0).then_some((done, since));
        done > 0 && now.saturating_duration_since(since) >= limit
    }

    /// When a kind was last seen to become done.
    pub(super) fn progressed(&self) -> Option<Instant> {
        self.progress.map(|(_, since)| since)
    }

    /// What was gathered.
    pub(super) fn finish(&mut self) -> Snapshot {
        let slots = std::mem::take(&mut self.slots).into_iter();
        let done = slots.filter_map(|(kind, slot)| match slot {
            Slot::Done(objects) => Some((kind, objects)),
            Slot::Gathering(_) | Slot::Opaque => None,
        });
        Snapshot::new(done.collect())
    }
}
