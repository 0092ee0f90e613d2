//! A running watch for those who need not know what it keeps: the register, and people who look.

use std::{any::Any, sync::Arc};

use serde_json::{Value, json};

use super::{Collection, Hub, Inbox};

/// A running watch, whatever it keeps of its objects.
pub(in crate::watch) trait Running: Any + Send + Sync {
    fn debug_state(&self) -> Value;
    /// Removes a subscriber; whether it was the last.
    fn leave(&self, subscriber: u64) -> bool;
    fn stop(&self);
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

impl<T: Send + Sync + 'static> Running for Hub<T> {
    fn debug_state(&self) -> Value {
        let state = self.lock();
        let collections = state
            .collections
            .iter()
            .map(|(name, one)| one.debug_state(name, self.has_store));
        let pending: Vec<_> = state.inboxes.all.values().map(Inbox::len).collect();
        json!({
            "kind": self.selection.kind.to_string(), "apiVersion": self.selection.kind.api_version(),
            "labels": self.selection.labels, "fields": self.selection.fields,
            "payload": format!("{:?}", self.selection.payload),
            "into": if self.has_store { "store" } else { "sink" },
            "subscribersPending": pending, "collections": collections.collect::<Vec<_>>(),
        })
    }

    fn leave(&self, subscriber: u64) -> bool {
        let mut state = self.lock();
        state.inboxes.all.remove(&subscriber);
        self.gauge(&mut state);
        state.inboxes.all.is_empty()
    }

    fn stop(&self) {
        self.stop.cancel();
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

/// The debug state names so many unreadable objects; all are counted.
const SHOWN: usize = 20;

impl<T> Collection<T> {
    fn debug_state(&self, name: &str, has_store: bool) -> Value {
        let unreadable = self.shelf.unreadable.iter().take(SHOWN);
        let unreadable: Vec<_> = unreadable
            .map(|(object, why)| format!("{object}: {}", why.what))
            .collect();
        json!({
            "namespace": name, "version": self.version.as_deref(), "objects": has_store.then_some(self.shelf.objects.len()),
            "health": self.standing.health.as_str(), "ready": self.standing.ready, "complete": self.standing.complete,
            "secondsCurrent": self.currency.map(|span| span.since().elapsed().as_secs()),
            "secondsSinceHeard": self.last_heard.map(|at| at.elapsed().as_secs()),
            "lastFailure": self.last_failure.as_ref().map(|f| format!("{}: {}", f.reason.as_str(), f.detail)),
            "unreadable": self.shelf.unreadable.len(), "unreadableObjects": unreadable,
        })
    }
}
