//! What this process remembers of its work on each Secret. No value is in it, and losing it costs nothing but time.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use trustplane_plan::ObjectRef;
use trustplane_sync_core::situation::{Owed, Record};

/// The records of all Secrets that somebody wants. A cheap clone.
#[derive(Clone, Default)]
pub(crate) struct Ledger(Arc<Mutex<Pages>>);

#[derive(Default)]
struct Pages {
    records: HashMap<ObjectRef, Record>,
    /// How often a provider has said that a secret of theirs has changed. Apart from the records, which are written by whoever
    /// works on a Secret while news may come in.
    news: HashMap<ObjectRef, u64>,
}

impl Ledger {
    pub fn get(&self, secret: &ObjectRef) -> Option<Record> {
        self.lock().records.get(secret).cloned()
    }

    pub fn put(&self, secret: ObjectRef, record: Record) {
        self.lock().records.insert(secret, record);
    }

    pub fn placed(&self, secret: &ObjectRef) {
        if let Some(record) = self.lock().records.get_mut(secret) {
            record.placed = true;
        }
    }

    pub fn owe(&self, secret: &ObjectRef, owed: BTreeMap<u64, Owed>) {
        if let Some(record) = self.lock().records.get_mut(secret) {
            record.owed.extend(owed);
        }
    }

    pub fn told(&self, secret: &ObjectRef, id: u64, at: Timestamp) {
        if let Some(record) = self.lock().records.get_mut(secret) {
            record.note_told(id, at);
        }
    }

    pub fn forget(&self, secret: &ObjectRef) {
        let mut pages = self.lock();
        pages.records.remove(secret);
        pages.news.remove(secret);
    }

    /// How many Secrets fail, and since when the first of them does.
    pub fn failing(&self) -> (usize, Option<Timestamp>) {
        let pages = self.lock();
        let since: Vec<_> = pages
            .records
            .values()
            .filter_map(|record| record.failing_since)
            .collect();
        (since.len(), since.iter().min().copied())
    }

    /// How many Secrets pods ask for whose names are taken by Secrets that Trustplane does not manage.
    pub fn contested(&self) -> usize {
        let pages = self.lock();
        pages.records.values().filter(|record| record.taken).count()
    }

    /// A provider says that a secret of this Secret has changed.
    pub fn hear(&self, secret: &ObjectRef) {
        let mut pages = self.lock();
        let count = pages.news.entry(secret.clone()).or_default();
        *count = count.wrapping_add(1);
    }

    /// How often that was.
    pub fn news(&self, secret: &ObjectRef) -> u64 {
        self.lock().news.get(secret).copied().unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, Pages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
