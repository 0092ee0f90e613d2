//! Objects that the platform does not want as they are.

use std::collections::{BTreeMap, HashMap};

use crate::InventoryKind;
use crate::index::Uid;
use crate::pending::Record;

/// So many of them are named to people; all are counted.
const NAMED: usize = 3;

/// Kind and name of an object, by which people read about it.
type Title = (InventoryKind, String);

/// Objects that were set aside because the platform refused them, until they change. Each of them exists, so there are never more
/// than the cluster has.
#[derive(Debug, Default)]
pub(super) struct Refused {
    titles: HashMap<Uid, Title>,
    /// With the status that the platform answered, in the order in which people are told.
    statuses: BTreeMap<(Title, Uid), u16>,
}

impl Refused {
    pub(super) fn add(&mut self, record: Record, status: u16) {
        self.remove(&record.uid);
        let title = (record.kind, record.name.to_string());
        self.statuses.insert((title.clone(), record.uid.clone()), status);
        self.titles.insert(record.uid, title);
    }

    pub(super) fn remove(&mut self, uid: &Uid) {
        if let Some(title) = self.titles.remove(uid) {
            self.statuses.remove(&(title, uid.clone()));
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(super) fn len(&self) -> usize {
        self.titles.len()
    }

    /// The first of them by kind and name, each with the status that the platform answered.
    pub(super) fn named(&self) -> Vec<String> {
        let first = self.statuses.iter().take(NAMED);
        first
            .map(|(((kind, name), _), status)| format!("{} {name} ({status})", kind.name()))
            .collect()
    }
}
