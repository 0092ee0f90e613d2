//! The writes of one look at a key, so that the next look does not rest on a store that has not seen them.
//!
//! The runner keeps a [`Journal`] during each look. Every [`Writer`](super::Writer) notes its answered writes there, whoever
//! calls it within that task. A write outside of a look, such as an event, concerns no key and is not noted.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use trustplane_plan::{Keep, Meta, Target};

tokio::task_local! {
    static CURRENT: Journal;
}

/// A write that the API server has answered, and what a store must show to have seen it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Written {
    /// What was written.
    pub target: Target,
    /// What the object is like after it.
    pub effect: Effect,
}

/// What a write has done to its object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Effect {
    /// There was none, and now there is this one.
    Created(Box<Meta>),
    /// It has this version.
    Updated(Arc<str>),
    /// The object of this uid is gone or about to go.
    Deleted(Arc<str>),
    /// It was not written, because it no longer has this version.
    Refused(Arc<str>),
}

/// The answered writes of one look. A cheap clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Journal(Arc<Mutex<Vec<Written>>>);

impl Journal {
    /// Runs a look whose writes are noted here, also when it fails, panics or runs out of time.
    pub(crate) async fn keep<F: Future>(&self, look: F) -> F::Output {
        CURRENT.scope(self.clone(), look).await
    }

    /// What was noted.
    pub(crate) fn take(&self) -> Vec<Written> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Notes that an object has the version that the answer to a write shows.
pub(crate) fn note_update(target: &Target, answer: &str) {
    if let Ok(live) = Meta::decode(answer, &Keep::default()) {
        note(target, Effect::Updated(live.resource_version));
    }
}

/// Notes a write in the journal of the look that makes it.
pub(super) fn note(target: &Target, effect: Effect) {
    let write = || Written {
        target: target.clone(),
        effect,
    };
    if let Ok(journal) = CURRENT.try_with(Clone::clone) {
        let mut noted = journal.0.lock().unwrap_or_else(PoisonError::into_inner);
        noted.push(write());
    }
}
