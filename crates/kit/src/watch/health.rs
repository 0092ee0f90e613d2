//! How a watch is doing.

use std::time::Instant;

use super::Reason;

/// What is the matter with a watch, if anything. A watch over several namespaces is as well as the worst of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// The list is followed by a watch; reconnecting in the ordinary way is part of it.
    Ready,
    /// The first list is under way.
    Starting,
    /// Something fails that should not. The store keeps what it had.
    Failing {
        /// Since when, without a success in between.
        since: Instant,
        /// The latest failure.
        reason: Reason,
    },
    /// The server does not have the kind. It is looked for from time to time.
    NotServed,
    /// We may not list or watch the kind. It is tried from time to time.
    Forbidden,
}

impl Health {
    /// A word for logs and the debug state.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "Ready",
            Self::Starting => "Starting",
            Self::Failing { reason, .. } => reason.as_str(),
            Self::NotServed => "NotServed",
            Self::Forbidden => "Forbidden",
        }
    }

    fn badness(self) -> u8 {
        match self {
            Self::Ready => 0,
            Self::Starting => 1,
            Self::Failing { .. } => 2,
            Self::NotServed => 3,
            Self::Forbidden => 4,
        }
    }
}

/// Health together with what the store is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// What is the matter.
    pub health: Health,
    /// The first list of every namespace was complete (or its stored version was taken). Stays true in an outage.
    pub ready: bool,
    /// The store is all there is, as far as the server told: false from a stored version until the first list.
    pub complete: bool,
}

impl Standing {
    /// The standing of a watch over nothing, to which others are joined.
    pub(super) const BEST: Self = Self {
        health: Health::Ready,
        ready: true,
        complete: true,
    };

    /// Before anything was heard from the server.
    pub(super) const START: Self = Self {
        health: Health::Starting,
        ready: false,
        complete: false,
    };

    pub(super) fn join(self, other: Self) -> Self {
        let worse = if other.health.badness() > self.health.badness() {
            other.health
        } else {
            self.health
        };
        Self {
            health: worse,
            ready: self.ready && other.ready,
            complete: self.complete && other.complete,
        }
    }
}
