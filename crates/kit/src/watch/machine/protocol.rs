//! The words that a machine and its driver exchange.

use std::{sync::Arc, time::Instant};

use super::Failure;

/// A request to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::watch) enum Ask {
    /// A watch that begins with the list.
    Stream,
    /// A page of a list.
    Page { token: Option<Arc<str>>, size: u32 },
    /// A watch of what happened after a version.
    Watch { from: Arc<str> },
}

/// What to do now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::watch) enum Step {
    Wait(Instant),
    Send(Ask),
}

/// What came of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::watch) enum Input {
    /// The server took the watch.
    Accepted,
    /// An event of an object.
    Object {
        version: Arc<str>,
    },
    Bookmark {
        version: Arc<str>,
        initial_end: bool,
    },
    Page {
        version: Arc<str>,
        next: Option<Arc<str>>,
    },
    Failed(Failure),
    /// Somebody wants a fresh list.
    Relist,
}

/// What becomes of the list that is being gathered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::watch) enum Effect {
    /// It goes on, or there is none.
    None,
    /// It is worth nothing.
    Discard,
    /// It is complete as of this version.
    Commit(Arc<str>),
}
