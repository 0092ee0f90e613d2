//! Objects that the platform does not want as they are.

use std::collections::{BTreeMap, HashMap};

use crate::InventoryKind;
use crate::index::{Name, Uid};
use crate::pending::Record;

/// So many of them are named to people; all are counted.
const NAMED: usize = 3;

/// Objects that were set aside because the platform refused them, until they change.
#[derive(Debug, Default)]
pub(super) struct Refused(HashMap<Uid, (InventoryKind, Name, u16)>);

impl Refused {
    pub(super) fn add(&mut self, record: Record, status: u16) {
        self.0.insert(record.uid, (record.kind, record.name, status));
    }

    pub(super) fn remove(&mut self, uid: &Uid) {
        self.0.remove(uid);
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The first of them by kind and name, each with the status that the platform answered.
    pub(super) fn named(&self) -> Vec<String> {
        let all = self.0.values();
        let sorted: BTreeMap<_, _> = all
            .map(|(kind, name, status)| ((*kind, name.to_string()), *status))
            .collect();
        let first = sorted.into_iter().take(NAMED);
        first
            .map(|((kind, name), status)| format!("{} {name} ({status})", kind.name()))
            .collect()
    }
}
