//! What can go wrong between a client and the API server, as data.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;

use super::request::Match;

/// What happens to a request, or to an event of a watch.
#[derive(Debug, Clone)]
pub enum Fault {
    /// The proxy answers instead of the API server.
    Answer(Answer),
    /// The request waits before it is sent on.
    Delay(Duration),
    /// The request waits at a gate before it is sent on.
    Hold(Gate),
    /// The connection breaks before the request is sent on.
    Cut,
    /// The request takes effect, but the connection breaks before the answer.
    CutAnswer,
    /// The request takes effect, but what comes back is something else, with everything that a leak would show.
    Twist(Twist),
    /// The request is never sent on and never answered.
    Freeze,
    /// The request takes effect, but is never answered.
    FreezeAnswer,
    /// As [`Fault::Freeze`] or [`Fault::FreezeAnswer`], and from the arrival of the request on every other request of
    /// the same requester freezes too: the moment at which a process dies.
    Halt(Moment),
    /// Reads are answered as of this resourceVersion, and watches show nothing newer until the gate opens: an API server
    /// that has fallen behind. Only reads are touched.
    Past {
        /// The state of the world that is shown.
        resource_version: String,
        /// Watches go on to the present once it opens.
        gate: Gate,
    },
    /// Something happens to events of the watch.
    Events(EventMatch, EventFault),
}

/// Whether a request that is never answered took effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// It did not: the process died before it was sent.
    Before,
    /// It did: the process died before it heard the answer.
    After,
}

/// What becomes of a good answer. Its status stays good, and nothing is wrong with the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Twist {
    /// Its last bytes are missing.
    Truncated,
    /// Instead of one object come all of its collection.
    List,
    /// It is no JSON: a gateway has put words before and behind it.
    Garbage,
}

impl Twist {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Truncated, Self::List, Self::Garbage];
}

/// An answer that the API server did not give.
#[derive(Debug, Clone)]
pub struct Answer {
    pub(crate) code: u16,
    reason: &'static str,
    pub(crate) retry_after: Option<u32>,
}

impl Answer {
    /// 401: the token is not, or no longer, valid.
    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized")
    }

    /// 403: not allowed.
    pub fn forbidden() -> Self {
        Self::new(403, "Forbidden")
    }

    /// 422: the request is not as the server wants it, such as a streaming list on a server that has none.
    pub fn invalid() -> Self {
        Self::new(422, "Invalid")
    }

    /// 409: somebody else was faster.
    pub fn conflict() -> Self {
        Self::new(409, "Conflict")
    }

    /// 410: the resourceVersion is too old.
    pub fn expired() -> Self {
        Self::new(410, "Expired")
    }

    /// 429 with the time after which to come back.
    pub fn too_many_requests(retry_after_seconds: u32) -> Self {
        Self {
            retry_after: Some(retry_after_seconds),
            ..Self::new(429, "TooManyRequests")
        }
    }

    /// 500.
    pub fn internal_error() -> Self {
        Self::new(500, "InternalError")
    }

    /// 503.
    pub fn unavailable() -> Self {
        Self::new(503, "ServiceUnavailable")
    }

    fn new(code: u16, reason: &'static str) -> Self {
        Self {
            code,
            reason,
            retry_after: None,
        }
    }

    /// The body, as the API server would write it.
    pub(crate) fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": format!("injected fault: {}", self.reason), "reason": self.reason, "code": self.code,
        });
        if let Some(seconds) = self.retry_after {
            status["details"] = json!({ "retryAfterSeconds": seconds });
        }
        status
    }
}

/// Chooses events of a watch.
#[derive(Debug, Clone, Default)]
pub struct EventMatch {
    types: Vec<&'static str>,
    name: Option<String>,
}

impl EventMatch {
    /// Every event that speaks of an object; bookmarks do not.
    pub fn any() -> Self {
        Self::of(&["ADDED", "MODIFIED", "DELETED"])
    }

    /// Events of these types, such as `ADDED`, `MODIFIED`, `DELETED` or `BOOKMARK`.
    pub fn of(types: &[&'static str]) -> Self {
        Self {
            types: types.to_vec(),
            name: None,
        }
    }

    /// Only about the object of this name.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    pub(crate) fn matches(&self, event: &Value) -> bool {
        let type_ = event["type"].as_str().unwrap_or_default();
        let name = &event["object"]["metadata"]["name"];
        self.types.contains(&type_) && self.name.as_deref().is_none_or(|wanted| name == wanted)
    }
}

/// What happens to an event of a watch.
#[derive(Debug, Clone)]
pub enum EventFault {
    /// It is lost; the watch goes on.
    Drop,
    /// It comes late, and with it all that follow.
    Delay(Duration),
    /// It waits at a gate, and with it all that follow.
    Hold(Gate),
    /// It comes twice.
    Duplicate,
    /// It comes after the event that follows it.
    Swap,
    /// Instead of it comes an error 410, and the watch ends.
    Expire,
    /// Instead of it the connection breaks.
    Cut,
    /// Neither it nor anything after it ever comes, but the connection stays.
    Freeze,
}

/// A gate that is closed until the test opens it.
#[derive(Debug, Clone)]
pub struct Gate(Arc<watch::Sender<bool>>);

impl Default for Gate {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }
}

impl Gate {
    /// Opens it for good.
    pub fn open(&self) {
        self.0.send_replace(true);
    }

    pub(crate) async fn passed(&self) {
        // The sender lives in self, so the wait ends only when the gate opens.
        let _ = self.0.subscribe().wait_for(|open| *open).await;
    }
}

/// A fault and when it happens: to every chosen request, or to every chosen event of the chosen watches.
pub type Rule = crate::script::Rule<Match, Fault>;

/// A rule that is in force, and the test's hold on it.
pub type Script = crate::script::Script<Match, Fault>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_chosen_by_type_and_name() {
        let event = json!({"type": "MODIFIED", "object": {"metadata": {"name": "a"}}});
        assert!(EventMatch::any().name("a").matches(&event));
        assert!(!EventMatch::any().name("b").matches(&event));
        assert!(!EventMatch::of(&["ADDED"]).matches(&event));
        assert!(!EventMatch::any().matches(&json!({"type": "BOOKMARK", "object": {}})));
    }
}
