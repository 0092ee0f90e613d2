//! What this process remembers of its work on each Secret. No value is in it, and losing it costs nothing but time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use trustplane_plan::ObjectRef;
use trustplane_sync_core::situation::Record;

/// The records of all Secrets that somebody wants. A cheap clone.
#[derive(Clone, Default)]
pub(crate) struct Ledger(Arc<Mutex<HashMap<ObjectRef, Record>>>);

impl Ledger {
    pub fn get(&self, secret: &ObjectRef) -> Option<Record> {
        self.lock().get(secret).cloned()
    }

    pub fn put(&self, secret: ObjectRef, record: Record) {
        self.lock().insert(secret, record);
    }

    pub fn placed(&self, secret: &ObjectRef) {
        if let Some(record) = self.lock().get_mut(secret) {
            record.placed = true;
        }
    }

    pub fn forget(&self, secret: &ObjectRef) {
        self.lock().remove(secret);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectRef, Record>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
