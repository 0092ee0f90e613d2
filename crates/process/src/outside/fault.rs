//! What can go wrong outside, sorted by what to do about it.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, StatusCode, header};
use jiff::Timestamp;
use jiff::fmt::rfc2822;

/// What kind of fault; the names are those of the metric label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr, strum::Display)]
#[strum(serialize_all = "snake_case")]
pub enum FaultKind {
    /// No answer: connecting, TLS, a cut connection.
    Transport,
    /// No answer in time.
    Timeout,
    /// The target says that it is broken.
    Server5xx,
    /// The target asks us to slow down.
    Throttled,
    /// The target does not want this call; trying again would not change that.
    Rejected,
}

impl FaultKind {
    /// Whether the fault is the target's, so that the breaker counts it.
    pub fn speaks_against_target(self) -> bool {
        matches!(self, Self::Transport | Self::Timeout | Self::Server5xx)
    }

    /// Whether the same call may go better a little later.
    pub fn is_transient(self) -> bool {
        !matches!(self, Self::Rejected)
    }
}

/// One attempt that failed. The source must not contain values of secrets.
#[derive(Debug)]
pub struct Fault {
    kind: FaultKind,
    retry_after: Option<Duration>,
    /// Whether the wait is for all calls to the target.
    holds: bool,
    source: Box<dyn Error + Send + Sync>,
}

impl Fault {
    /// A fault of some kind.
    pub fn new(kind: FaultKind, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self {
            kind,
            retry_after: None,
            holds: false,
            source: source.into(),
        }
    }

    /// No answer.
    pub fn transport(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::new(FaultKind::Transport, source)
    }

    /// No answer in time.
    pub fn timeout(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::new(FaultKind::Timeout, source)
    }

    /// Trying again would not help.
    pub fn rejected(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::new(FaultKind::Rejected, source)
    }

    /// The target asks us to slow down, and may say for how long: no other call to it is made meanwhile.
    pub fn throttled(after: Option<Duration>, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self {
            retry_after: after,
            holds: true,
            ..Self::new(FaultKind::Throttled, source)
        }
    }

    /// What an HTTP answer means; `None` when it is not an error.
    pub fn from_answer(status: StatusCode, headers: &HeaderMap, now: Timestamp) -> Option<Self> {
        let kind = match status {
            StatusCode::TOO_MANY_REQUESTS => FaultKind::Throttled,
            StatusCode::REQUEST_TIMEOUT => FaultKind::Timeout,
            status if status.is_server_error() => FaultKind::Server5xx,
            status if status.is_client_error() => FaultKind::Rejected,
            _ => return None,
        };
        let source = format!("HTTP status {}", status.as_u16()).into();
        Some(Self {
            kind,
            retry_after: retry_after(headers, now),
            holds: matches!(
                status,
                StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
            ),
            source,
        })
    }

    /// Asks for a wait before the next attempt of this call.
    #[must_use]
    pub fn after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// What kind.
    pub fn kind(&self) -> FaultKind {
        self.kind
    }

    /// How long the target asks us to wait.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// How long the target asks us to hold back all calls to it.
    pub(super) fn hold(&self) -> Option<Duration> {
        self.retry_after.filter(|_| self.holds)
    }

    /// What the attempt failed with, as it was given.
    pub fn cause(&self) -> &(dyn Error + Send + Sync + 'static) {
        &*self.source
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.source, self.kind)
    }
}

impl Error for Fault {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.source()
    }
}

/// The `Retry-After` header: seconds, or a date.
pub fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
    // A date that has passed asks for no wait.
    Some(Duration::try_from(date.duration_since(now)).unwrap_or_default())
}

/// A call that failed in the end. Cheap to clone, since all who waited for the call get it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum OutsideError {
    /// It was tried and failed.
    #[error("call to {target} failed, {attempts} attempt(s) made: {fault}")]
    Failed {
        /// Where to.
        target: Cow<'static, str>,
        /// How often it was tried.
        attempts: u32,
        /// Why the last attempt failed.
        fault: Arc<Fault>,
    },
    /// The breaker is open: the target failed too often just now.
    #[error("{target} fails at present: not called, next probe in {retry_in:?}")]
    Open {
        /// Where to.
        target: Cow<'static, str>,
        /// When it is worth trying again.
        retry_in: Duration,
    },
    /// The target asked for a pause that lasts beyond the deadline.
    #[error("{target} asked for a pause: not called, next call in {retry_in:?}")]
    Held {
        /// Where to.
        target: Cow<'static, str>,
        /// When the pause is over.
        retry_in: Duration,
    },
    /// The rate limit left no room before the deadline.
    #[error("too many calls to {target}: not called before the deadline")]
    Saturated {
        /// Where to.
        target: Cow<'static, str>,
    },
}

impl OutsideError {
    pub(super) fn failed(target: Cow<'static, str>, attempts: u32, fault: Fault) -> Self {
        Self::Failed {
            target,
            attempts,
            fault: Arc::new(fault),
        }
    }

    pub(super) fn open(target: Cow<'static, str>, retry_in: Duration) -> Self {
        Self::Open { target, retry_in }
    }

    pub(super) fn held(target: Cow<'static, str>, retry_in: Duration) -> Self {
        Self::Held { target, retry_in }
    }

    pub(super) fn saturated(target: Cow<'static, str>) -> Self {
        Self::Saturated { target }
    }

    /// The kind of the last fault, if the call was made.
    pub fn kind(&self) -> Option<FaultKind> {
        self.fault().map(Fault::kind)
    }

    /// The last attempt, if one was made.
    pub fn fault(&self) -> Option<&Fault> {
        match self {
            Self::Failed { fault, .. } => Some(fault),
            Self::Open { .. } | Self::Held { .. } | Self::Saturated { .. } => None,
        }
    }

    /// Whether the same call may go better later: all but what the target rejected.
    pub fn is_transient(&self) -> bool {
        self.kind().is_none_or(FaultKind::is_transient)
    }

    /// How long to wait before it is worth calling again.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Failed { fault, .. } => fault.retry_after(),
            Self::Open { retry_in, .. } | Self::Held { retry_in, .. } => Some(*retry_in),
            Self::Saturated { .. } => None,
        }
    }

    /// The outcome as a metric label.
    pub(super) fn label(&self) -> &'static str {
        match self {
            Self::Failed { fault, .. } => fault.kind().into(),
            Self::Open { .. } => "open",
            Self::Held { .. } => "held",
            Self::Saturated { .. } => "saturated",
        }
    }
}
