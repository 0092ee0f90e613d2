//! What can go wrong between an agent and its platform, as data.

use std::time::Duration;

use super::state::{Endpoint, Entry};
use crate::proxy::Gate;

/// What happens to a request whose body has arrived.
#[derive(Debug, Clone)]
pub enum Fault {
    /// The platform answers so, and does nothing else.
    Answer {
        /// The status.
        status: u16,
        /// The header `Retry-After`, in seconds.
        retry_after: Option<u32>,
    },
    /// The platform waits before it looks at the request.
    Delay(Duration),
    /// The platform waits at a gate before it looks at the request.
    Hold(Gate),
    /// The request is neither looked at nor answered; the connection stays.
    Hang,
    /// The request takes effect, but is never answered.
    HangAnswer,
    /// The connection breaks, and the request has no effect.
    Cut,
    /// The request takes effect, but the connection breaks before the answer.
    CutAnswer,
}

impl Fault {
    /// An answer of this status.
    pub fn status(status: u16) -> Self {
        Self::Answer {
            status,
            retry_after: None,
        }
    }

    /// An answer of this status that asks the agent to come back after so many seconds.
    pub fn busy(status: u16, retry_after: u32) -> Self {
        Self::Answer {
            status,
            retry_after: Some(retry_after),
        }
    }
}

/// Chooses requests.
#[derive(Debug, Clone, Default)]
pub struct Match {
    endpoint: Option<Endpoint>,
    uid: Option<String>,
    kind: Option<String>,
    type_: Option<String>,
}

impl Match {
    /// Every request to one of the four paths.
    pub fn any() -> Self {
        Self::default()
    }

    /// Requests to this path.
    pub fn on(endpoint: Endpoint) -> Self {
        Self {
            endpoint: Some(endpoint),
            ..Self::default()
        }
    }

    /// Only changes of the object of this uid.
    #[must_use]
    pub fn uid(mut self, uid: &str) -> Self {
        self.uid = Some(uid.to_owned());
        self
    }

    /// Only changes of objects of this kind, such as `Pod`.
    #[must_use]
    pub fn kind(mut self, kind: &str) -> Self {
        self.kind = Some(kind.to_owned());
        self
    }

    /// Only changes of this type, as the agent writes it, such as `deleted`.
    #[must_use]
    pub fn type_(mut self, type_: &str) -> Self {
        self.type_ = Some(type_.to_owned());
        self
    }

    /// Whether a request of the journal is chosen.
    pub fn matches(&self, entry: &Entry) -> bool {
        let same = |wanted: &Option<String>, found: &Option<String>| wanted.is_none() || wanted == found;
        self.endpoint.is_none_or(|wanted| wanted == entry.endpoint)
            && same(&self.uid, &entry.uid)
            && same(&self.kind, &entry.kind)
            && same(&self.type_, &entry.type_)
    }
}

/// A fault and when it happens: to every chosen request.
pub type Rule = crate::script::Rule<Match, Fault>;

/// A rule that is in force, and the test's hold on it.
pub type Script = crate::script::Script<Match, Fault>;
