//! The gathering of a snapshot: each kind by the next list of it.

use std::collections::BTreeMap;

use crate::InventoryKind;
use crate::snapshot::{Objects, Snapshot};

/// How far the list of a kind has come.
#[derive(Debug)]
enum Slot {
    Gathering(Objects),
    Done(Objects),
}

/// A snapshot in the making.
#[derive(Debug, Default)]
pub(super) struct Collection(BTreeMap<InventoryKind, Slot>);

impl Collection {
    /// A list of a kind begins. Answers whether its objects are wanted.
    pub(super) fn begin(&mut self, kind: InventoryKind) -> bool {
        if self.has(kind) {
            return false;
        }
        self.0.insert(kind, Slot::Gathering(Objects::default()));
        true
    }

    /// Takes an object of the running list; answers whether it was wanted.
    pub(super) fn push(&mut self, kind: InventoryKind, object: &str) -> bool {
        match self.0.get_mut(&kind) {
            Some(Slot::Gathering(objects)) => {
                objects.push(object);
                true
            }
            _ => false,
        }
    }

    /// The list of a kind is complete.
    pub(super) fn end(&mut self, kind: InventoryKind) {
        if let Some(Slot::Gathering(objects)) = self.0.get_mut(&kind) {
            let mut objects = std::mem::take(objects);
            objects.close();
            self.0.insert(kind, Slot::Done(objects));
        }
    }

    /// The list of a kind was given up.
    pub(super) fn give_up(&mut self, kind: InventoryKind) {
        if matches!(self.0.get(&kind), Some(Slot::Gathering(_))) {
            self.0.remove(&kind);
        }
    }

    /// Whether a kind is there as a whole.
    pub(super) fn has(&self, kind: InventoryKind) -> bool {
        matches!(self.0.get(&kind), Some(Slot::Done(_)))
    }

    /// Whether a list of the kind has begun since the collection did.
    pub(super) fn has_begun(&self, kind: InventoryKind) -> bool {
        self.0.contains_key(&kind)
    }

    /// What was gathered.
    pub(super) fn finish(&mut self) -> Snapshot {
        let slots = std::mem::take(&mut self.0).into_iter();
        let done = slots.filter_map(|(kind, slot)| match slot {
            Slot::Done(objects) => Some((kind, objects)),
            Slot::Gathering(_) => None,
        });
        Snapshot::new(done.collect())
    }
}
