//! What can go wrong with a request, and the answer's words for it.

use std::time::Duration;

use http::StatusCode;
use serde::Deserialize;
use strum::IntoStaticStr;

/// Why a watch does not run, or had to start over. Also the label in metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, IntoStaticStr)]
pub enum Reason {
    /// 401: our token is not (or no longer) valid.
    Unauthorized,
    /// 403: we lack the right.
    Forbidden,
    /// 404 or 405: the server does not have the kind, or cannot watch it.
    NotServed,
    /// 429: the server asks us to wait.
    Throttled,
    /// 400 or 422: the server does not take the request; a selector may be wrong.
    Rejected,
    /// 410: the server no longer has the version that we asked for.
    Expired,
    /// The server has not yet reached the version that we have seen.
    Ahead,
    /// Any other error of the server.
    Server,
    /// The connection could not be made, or broke.
    Connection,
    /// No answer, or no end, in time.
    TimedOut,
    /// The server ended the watch. Nothing is wrong.
    Ended,
    /// The answer is not what the protocol says.
    Malformed,
    /// A page is larger than we take.
    TooLarge,
    /// A list is older than what we have seen.
    StaleList,
    /// Events came in an order that cannot be.
    Disorder,
    /// An object could not be read. The others are not concerned.
    Undecodable,
    /// Our own code panicked. It was caught and the watch goes on.
    Panicked,
    /// The watch was stopped: nobody subscribes to it any more.
    Stopped,
}

impl Reason {
    /// The reason as a CamelCase word.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// A failed request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) reason: Reason,
    /// The server's or the transport's words, for people.
    pub(super) detail: String,
    pub(super) retry_after: Option<Duration>,
}

/// The server's words are shown in logs and in the debug state; more than this does not help anybody.
const MAX_DETAIL: usize = 300;

impl Failure {
    pub(super) fn new(reason: Reason, detail: impl ToString) -> Self {
        let mut detail = detail.to_string();
        if detail.len() > MAX_DETAIL {
            let end = (0..=MAX_DETAIL).rev().find(|end| detail.is_char_boundary(*end));
            detail.truncate(end.unwrap_or_default());
        }
        Self {
            reason,
            detail,
            retry_after: None,
        }
    }

    /// Reads an answer that is not a success. `retry_after` is the header.
    pub(super) fn from_answer(code: StatusCode, retry_after: Option<&str>, body: &str) -> Self {
        let status: Status = serde_json::from_str(body).unwrap_or_default();
        let mut failure = Self::from_status(code.as_u16(), &status);
        if let Some(seconds) = retry_after.and_then(|text| text.trim().parse().ok()) {
            failure.retry_after = Some(Duration::from_secs(seconds));
        }
        failure
    }

    /// Reads the Status that ends a watch from within.
    pub(super) fn from_event(json: &str) -> Self {
        match serde_json::from_str::<Status>(json) {
            Ok(status) => Self::from_status(status.code.unwrap_or(500), &status),
            Err(_) => Self::new(
                Reason::Malformed,
                "the watch ended with an error that is no Status",
            ),
        }
    }

    fn from_status(code: u16, status: &Status) -> Self {
        let message = status.message.as_deref().unwrap_or_default();
        let reason = match code {
            401 => Reason::Unauthorized,
            403 => Reason::Forbidden,
            404 | 405 => Reason::NotServed,
            400 | 406 | 415 | 422 => Reason::Rejected,
            410 => Reason::Expired,
            429 => Reason::Throttled,
            504 if status.is_ahead() => Reason::Ahead,
            _ => Reason::Server,
        };
        let mut failure = Self::new(reason, format!("{code} {message}"));
        let seconds = status.details.as_ref().and_then(|d| d.retry_after_seconds);
        failure.retry_after = seconds.map(Duration::from_secs);
        failure
    }
}

#[derive(Deserialize, Default)]
struct Status {
    code: Option<u16>,
    message: Option<String>,
    details: Option<Details>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Details {
    retry_after_seconds: Option<u64>,
    #[serde(default)]
    causes: Vec<Cause>,
}

#[derive(Deserialize)]
struct Cause {
    reason: Option<String>,
}

impl Status {
    fn is_ahead(&self) -> bool {
        let causes = self.details.iter().flat_map(|details| &details.causes);
        causes
            .into_iter()
            .any(|cause| cause.reason.as_deref() == Some("ResourceVersionTooLarge"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(code: u16, body: &str) -> Reason {
        Failure::from_answer(StatusCode::from_u16(code).unwrap(), None, body).reason
    }

    #[test]
    fn answers_have_reasons() {
        assert_eq!(reason(401, "Unauthorized"), Reason::Unauthorized);
        assert_eq!(reason(404, "404 page not found"), Reason::NotServed);
        assert_eq!(reason(405, ""), Reason::NotServed);
        assert_eq!(reason(410, r#"{"code":410,"reason":"Expired"}"#), Reason::Expired);
        assert_eq!(reason(503, "not json"), Reason::Server);
        let ahead = r#"{"code":504,"details":{"causes":[{"reason":"ResourceVersionTooLarge"}]}}"#;
        assert_eq!(reason(504, ahead), Reason::Ahead);
        assert_eq!(reason(504, "{}"), Reason::Server);
    }

    #[test]
    fn the_header_wins_over_the_body_in_when_to_come_back() {
        let body = r#"{"code":429,"details":{"retryAfterSeconds":7}}"#;
        let failure = Failure::from_answer(StatusCode::TOO_MANY_REQUESTS, None, body);
        assert_eq!(
            (failure.reason, failure.retry_after),
            (Reason::Throttled, Some(Duration::from_secs(7)))
        );
        let failure = Failure::from_answer(StatusCode::TOO_MANY_REQUESTS, Some("3"), body);
        assert_eq!(failure.retry_after, Some(Duration::from_secs(3)));
    }

    #[test]
    fn an_error_within_the_watch_is_read_like_an_answer() {
        let gone = r#"{"kind":"Status","status":"Failure","message":"too old resource version","reason":"Expired","code":410}"#;
        assert_eq!(Failure::from_event(gone).reason, Reason::Expired);
        assert_eq!(Failure::from_event("[]").reason, Reason::Malformed);
    }

    #[test]
    fn a_long_detail_is_cut_between_characters() {
        let failure = Failure::new(Reason::Server, "ä".repeat(400));
        assert_eq!(failure.detail.len(), 300);
    }
}
