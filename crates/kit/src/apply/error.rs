//! Why a write did not happen, in terms of what to do about it.

use std::fmt;
use std::time::Duration;

use trustplane_plan::{Class, Classified, Target};

/// How long to leave a namespace alone that is on its way out: nothing that we do there can succeed.
const ENDING: Duration = Duration::from_secs(30);

/// What was attempted, on which object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    verb: &'static str,
    target: Box<Target>,
}

impl Attempt {
    /// An attempt to do this with an object.
    pub fn new(verb: &'static str, target: &Target) -> Self {
        Self {
            verb,
            target: Box::new(target.clone()),
        }
    }

    /// What was attempted: `create`, `update`, `delete` and such.
    pub fn verb(&self) -> &'static str {
        self.verb
    }

    /// On which object.
    pub fn target(&self) -> &Target {
        &self.target
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.target)
    }
}

/// A field that another manager holds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct HeldField {
    /// The path of the field, such as `.data.key`.
    pub field: String,
    /// The field manager that holds it.
    pub manager: String,
}

impl fmt::Display for HeldField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is held by {}", self.field, self.manager)
    }
}

/// Why a write did not happen. No text in it holds a value of an object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, strum::IntoStaticStr)]
pub enum WriteError {
    /// The object is not what it was when the write was decided. Look again and decide anew.
    #[error("failed to {0}: it is not what it was when this was decided")]
    Stale(Attempt),
    /// Other managers hold fields that we want, and we were not told to take them.
    #[error("failed to {attempt}: {}", join(fields))]
    FieldConflict {
        /// What was attempted.
        attempt: Attempt,
        /// Which fields, and who holds them.
        fields: Vec<HeldField>,
    },
    /// An object of that name exists, and none of it was written by us.
    #[error("failed to {attempt}: an object of that name belongs to {}", .holder.as_deref().unwrap_or("somebody else"))]
    #[strum(serialize = "NameTaken")]
    Foreign {
        /// What was attempted.
        attempt: Attempt,
        /// Who says that it manages the object, where a label tells.
        holder: Option<String>,
    },
    /// We lack the right, or a quota is used up.
    #[error("failed to {attempt}: forbidden: {problem}")]
    Forbidden {
        /// What was attempted.
        attempt: Attempt,
        /// What the API server said.
        problem: String,
    },
    /// Something that the installation makes is not there.
    #[error("failed to {0}: it does not exist; the installation makes it, empty")]
    NotInstalled(Attempt),
    /// The namespace is being deleted, or is gone.
    #[error("failed to {0}: its namespace is ending")]
    NamespaceEnding(Attempt),
    /// A webhook or a policy of the cluster refused the write.
    #[error("failed to {attempt}: refused by {by}: {problem}")]
    Rejected {
        /// What was attempted.
        attempt: Attempt,
        /// The webhook or policy.
        by: String,
        /// What it said.
        problem: String,
    },
    /// The API server does not take what we wrote.
    #[error("failed to {attempt}: invalid: {problem}")]
    Invalid {
        /// What was attempted.
        attempt: Attempt,
        /// Which fields are wrong.
        problem: String,
    },
    /// The object is larger than the API server takes.
    #[error("failed to {0}: it is too large")]
    TooLarge(Attempt),
    /// The API server does not serve the kind.
    #[error("failed to {0}: the API server does not serve this kind")]
    NotServed(Attempt),
    /// The API server asked us to slow down.
    #[error("failed to {attempt}: the API server is throttling us")]
    Throttled {
        /// What was attempted.
        attempt: Attempt,
        /// How long it wants to be left alone.
        retry_after: Option<Duration>,
    },
    /// The API server, or something behind it, could not do it now. It may have happened or not.
    #[error("failed to {attempt}: {problem}")]
    Unavailable {
        /// What was attempted.
        attempt: Attempt,
        /// What went wrong.
        problem: String,
        /// How long it wants to be left alone.
        retry_after: Option<Duration>,
    },
    /// The answer is not the object that was asked for: cut off, a list, or no object at all. It may hold values of other
    /// objects, so nothing of it is told.
    #[error("failed to {0}: the API server's answer is not this object")]
    WrongAnswer(Attempt),
    /// This process does not hold the lease.
    #[error("failed to {0}: this process does not hold the lease")]
    Fenced(Attempt),
}

impl WriteError {
    /// Whether another look at the object can help at once.
    pub fn is_stale(&self) -> bool {
        matches!(self, Self::Stale(_))
    }
}

impl Classified for WriteError {
    fn class(&self) -> Class {
        match self {
            Self::Stale(_)
            | Self::NamespaceEnding(_)
            | Self::Throttled { .. }
            | Self::Unavailable { .. }
            | Self::NotServed(_)
            | Self::WrongAnswer(_)
            // A store that selects by label does not show when the object of somebody else goes.
            | Self::Foreign { .. }
            | Self::Fenced(_) => Class::Transient,
            Self::FieldConflict { .. }
            | Self::Forbidden { .. }
            | Self::Rejected { .. }
            | Self::NotInstalled(_)
            | Self::TooLarge(_) => Class::User,
            Self::Invalid { .. } => Class::Bug,
        }
    }

    fn reason(&self) -> &'static str {
        self.into()
    }

    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Throttled { retry_after, .. } | Self::Unavailable { retry_after, .. } => *retry_after,
            Self::NamespaceEnding(_) => Some(ENDING),
            _ => None,
        }
    }
}

fn join(fields: &[HeldField]) -> String {
    let fields: Vec<String> = fields.iter().map(ToString::to_string).collect();
    fields.join("; ")
}
