//! The objects of a snapshot that the platform did not want as a whole, one after the other.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::Deserialize;
use trustplane_api::inventory::wire::EventType;

use crate::index::{Name, Uid};
use crate::pending::Record;
use crate::snapshot::Snapshot;
use crate::{InventoryKind, digest};

/// Where the replay of a snapshot has come to.
#[derive(Debug)]
pub(super) struct Replay {
    snapshot: Arc<Snapshot>,
    kind: usize,
    block: usize,
    /// The rest of the block that was inflated last.
    lines: VecDeque<Arc<str>>,
    next: Option<Record>,
}

#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow)]
    uid: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    name: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    namespace: Option<std::borrow::Cow<'a, str>>,
}

impl Replay {
    pub(super) fn new(snapshot: Arc<Snapshot>) -> Self {
        Self {
            snapshot,
            kind: 0,
            block: 0,
            lines: VecDeque::new(),
            next: None,
        }
    }

    /// Finds the next object that still is as the snapshot has it; what has changed since is told by its change.
    pub(super) fn peek(&mut self, is_current: impl Fn(InventoryKind, &Uid, u64) -> bool) -> Option<&Record> {
        let is_good = |record: &Record| {
            let object = record.object.as_deref().unwrap_or_default();
            is_current(record.kind, &record.uid, digest(object))
        };
        if self.next.as_ref().is_some_and(|next| !is_good(next)) {
            self.next = None;
        }
        while self.next.is_none() {
            self.next = Some(self.read()?).filter(&is_good);
        }
        self.next.as_ref()
    }

    /// Takes the object that was found.
    pub(super) fn take(&mut self) -> Option<Record> {
        self.next.take()
    }

    fn read(&mut self) -> Option<Record> {
        loop {
            let (kind, objects) = self.snapshot.objects(self.kind)?;
            if let Some(line) = self.lines.pop_front() {
                if let Some(record) = record(kind, line) {
                    return Some(record);
                }
                continue;
            }
            match objects.lines(self.block) {
                Some(text) => {
                    self.lines = text.lines().map(Arc::from).collect();
                    self.block += 1;
                }
                None => {
                    self.kind += 1;
                    self.block = 0;
                }
            }
        }
    }
}

fn record(kind: InventoryKind, object: Arc<str>) -> Option<Record> {
    let head: Head<'_> = serde_json::from_str(&object).ok()?;
    let name = Name {
        namespace: head.namespace.as_deref().map(Arc::from),
        name: Arc::from(&*head.name),
    };
    Some(Record {
        kind,
        uid: Uid::from(&*head.uid),
        name,
        type_: EventType::Added,
        is_told: true,
        attempts: 0,
        object: Some(object),
    })
}
