//! The hub of a watch into a sink: its store stays empty, all else is as in any watch.

use std::{collections::BTreeSet, sync::Arc, time::Instant};

use tokio_util::sync::CancellationToken;

use super::{Hub, KindMetrics, Selection};
use crate::watch::{Health, Reason, Standing, failure::Failure, shelf::Unreadable, wire::Identity};

/// So many objects that a sink cannot read are noted by name. All of them are counted.
const MAX_UNREADABLE: usize = 1000;

impl Hub<()> {
    /// The hub of a watch into a sink, over these collections.
    pub(in crate::watch) fn poured(
        selection: Selection,
        collections: BTreeSet<Arc<str>>,
        metrics: KindMetrics,
        stop: CancellationToken,
    ) -> Self {
        let mut hub = Self::new(selection, collections, None, metrics, stop, |_, ()| Vec::new());
        hub.has_store = false;
        hub
    }

    /// Does not watch: a sink cannot tell several collections apart.
    pub(in crate::watch) fn refuse(&self, what: &str) {
        let standing = Standing {
            health: Health::Failing {
                since: Instant::now(),
                reason: Reason::Rejected,
            },
            ..Standing::START
        };
        let names: Vec<_> = self.lock().collections.keys().cloned().collect();
        for name in names {
            self.note_failure(&name, Failure::new(Reason::Rejected, what));
            self.advance(&name, None, (standing, None), None);
        }
        tracing::error!(kind = %self.selection.kind, "a watch is refused: {what}");
    }

    /// The newest version that the collection has shown.
    pub(in crate::watch) fn version(&self, name: &str) -> Option<Arc<str>> {
        self.lock().collections.get(name)?.version.clone()
    }

    /// Notes whether the sink could read an object; `unreadable` says what is wrong.
    pub(in crate::watch) fn note_readable(
        &self,
        name: &str,
        identity: &Identity,
        unreadable: Option<String>,
    ) {
        let mut state = self.lock();
        let Some(collection) = state.collections.get_mut(name) else {
            return;
        };
        let noted = &mut collection.shelf.unreadable;
        match unreadable {
            None => drop(noted.remove(&identity.object)),
            Some(what) if noted.len() < MAX_UNREADABLE || noted.contains_key(&identity.object) => {
                let uid = identity.uid.clone();
                noted.insert(identity.object.clone(), Unreadable { uid, what });
            }
            Some(_) => {}
        }
    }

    /// A list begins: it tells again which objects cannot be read.
    pub(in crate::watch) fn begin_list(&self, name: &str) {
        if let Some(collection) = self.lock().collections.get_mut(name) {
            collection.shelf.unreadable.clear();
        }
    }

    /// The sink has heard a whole list.
    pub(in crate::watch) fn end_list(&self, name: &str) {
        self.metrics.lists.inc();
        self.change(name, |collection, _| collection.unlisted = false);
    }
}
