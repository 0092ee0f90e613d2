//! The class of an error drives everything that follows from it: backoff, event reason, condition and metric label.

use strum::{EnumIter, IntoStaticStr};

/// What kind of thing went wrong, and so who can mend it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, IntoStaticStr, EnumIter)]
#[strum(serialize_all = "lowercase")]
pub enum Class {
    /// The world is in the way: an outage, a throttle, a conflict. Back off and try again.
    Transient,
    /// A person has to change something. Tell them, then wait for the change.
    User,
    /// We are wrong. Count it, raise an alert, back off far.
    Bug,
}

impl Class {
    /// The label value in metrics and logs.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// An error that knows its class and the reason that people see in events, conditions and metrics.
pub trait Classified: std::error::Error {
    /// Who can mend it.
    fn class(&self) -> Class;
    /// A CamelCase word from a fixed set: event reason, condition reason and metric label at once.
    fn reason(&self) -> &'static str;
    /// How long the other side asked us to wait, where it did.
    fn retry_after(&self) -> Option<std::time::Duration> {
        None
    }
}
