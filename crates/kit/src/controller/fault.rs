//! Why work on a key failed.

use std::time::Duration;

use trustplane_plan::{Class, Classified, Failure};

use crate::apply::WriteError;

/// Why work on a key failed. Its class drives the backoff, the level of the log line and the labels of the metrics.
#[derive(Debug, thiserror::Error)]
pub enum Fault<E: Classified + 'static> {
    /// The controller could not read, or a call to the outside failed.
    #[error(transparent)]
    Controller(E),
    /// A write to the API server failed.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The plan was carried out, but some of its notes were refused: too many of their namespaces wait to be published.
    #[error(
        "failed to tell {notes} notes: too many events of their namespace wait to be published; trying again"
    )]
    Untold {
        /// How many.
        notes: u32,
    },
    /// The plan was carried out, and says that what people want cannot be had. It has told them.
    #[error(transparent)]
    Planned(Failure),
    /// It took too long.
    #[error("failed to finish within {0:?}")]
    Deadline(Duration),
    /// It panicked. What the panic said is left to the panic hook: it may hold anything.
    #[error("the controller panicked")]
    Panic,
}

impl<E: Classified + 'static> Fault<E> {
    /// Whether another look can help at once: the view on which the plan was made was out of date.
    pub fn is_stale(&self) -> bool {
        matches!(self, Self::Write(error) if error.is_stale())
    }

    /// When to try again, where a plan has said so.
    pub(super) fn retry_in(&self) -> Option<Duration> {
        match self {
            Self::Planned(failure) => failure.retry_in,
            _ => None,
        }
    }

    /// Whether people know already, or could not be told by a note: a view that stays behind for a while is no news, it
    /// catches up, or its watch reports itself; a plan has told what it says; and that there is no room for notes cannot be
    /// told by one.
    pub(super) fn needs_no_report(&self) -> bool {
        self.is_stale() || matches!(self, Self::Untold { .. } | Self::Planned(_))
    }

    /// Whether an object of somebody else has the name.
    pub fn is_foreign(&self) -> bool {
        matches!(self, Self::Write(WriteError::Foreign { .. }))
    }
}

impl<E: Classified + 'static> Classified for Fault<E> {
    fn class(&self) -> Class {
        match self {
            Self::Controller(error) => error.class(),
            Self::Write(error) => error.class(),
            Self::Planned(failure) => failure.class,
            Self::Untold { .. } | Self::Deadline(_) => Class::Transient,
            Self::Panic => Class::Bug,
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Controller(error) => error.reason(),
            Self::Write(error) => error.reason(),
            Self::Planned(failure) => failure.reason,
            Self::Untold { .. } => "Untold",
            Self::Deadline(_) => "DeadlineExceeded",
            Self::Panic => "Panic",
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Controller(error) => error.retry_after(),
            Self::Write(error) => error.retry_after(),
            Self::Untold { .. } | Self::Planned(_) | Self::Deadline(_) | Self::Panic => None,
        }
    }
}
