//! What the answer of a platform means, and what it means that there is none.

use jiff::Timestamp;
use trustplane_api::inventory::wire::TOKEN_PATH;
use trustplane_inventory_core::sender::Outcome;
use trustplane_process::outside::{Fault, FaultKind, OutsideError, retry_after};
use trustplane_process::secret::Secret;
use trustplane_process::web::{Answer, WebError};

/// So many characters of a refusal are quoted to people.
const MAX_QUOTED: usize = 200;

/// An answer whose body is beyond the limit counts by its status: the platform may well have done what it was asked to.
pub(super) fn answer(answered: Result<Answer, WebError>) -> Result<Answer, Fault> {
    let too_large = |status| Answer {
        status,
        headers: http::HeaderMap::new(),
        body: Secret::new(Vec::new()),
    };
    match answered {
        Err(WebError::TooLarge { status }) => http::StatusCode::from_u16(status)
            .map(too_large)
            .map_err(Fault::rejected),
        other => other.map_err(WebError::into_fault),
    }
}

/// An answer that says that the platform is away or busy is a fault of the platform; any other is read by its meaning.
pub(super) fn judged(answer: Answer) -> Result<Answer, Fault> {
    match Fault::from_answer(answer.status, &answer.headers, Timestamp::now()) {
        Some(fault) if fault.kind() == FaultKind::Throttled || fault.kind().speaks_against_target() => {
            Err(fault)
        }
        _ => Ok(answer),
    }
}

/// What an answer means.
pub(super) fn outcome(answer: &Answer) -> Outcome {
    let status = answer.status.as_u16();
    match status {
        200..=299 => Outcome::Accepted,
        // The token would go to another host. The object of the request is not at fault.
        300..=399 => Outcome::Unreachable(format!(
            "the platform redirects (HTTP status {status}), and redirections are not followed: \
             spec.platformURL must be the address that the platform redirects to"
        )),
        401 => Outcome::Unauthorized(quoted(answer)),
        403 => Outcome::Forbidden(quoted(answer)),
        429 => Outcome::Throttled(retry_after(&answer.headers, Timestamp::now())),
        408 | 425 | 500..=599 => Outcome::Unreachable(format!("HTTP status {status}")),
        _ => Outcome::Refused(status, quoted(answer)),
    }
}

/// What an answer of the token path means that is not 200: there is no token without that.
pub(super) fn no_token(answer: &Answer) -> Outcome {
    let status = answer.status.as_u16();
    match outcome(answer) {
        Outcome::Refused(404 | 405 | 410, _) => Outcome::Unreachable(format!(
            "{TOKEN_PATH} answers {status}: spec.platformURL may be wrong, it must be the address below which the platform has \
             {TOKEN_PATH}"
        )),
        Outcome::Refused(_, why) => Outcome::Unauthorized(format!("{TOKEN_PATH} answers {status}: {why}")),
        Outcome::Accepted => Outcome::Unauthorized(format!("{TOKEN_PATH} answers {status}")),
        other => other,
    }
}

/// Why there is no answer.
pub(super) fn failed(error: &OutsideError) -> Outcome {
    match error.kind() {
        Some(FaultKind::Throttled) => Outcome::Throttled(error.retry_after()),
        // A request that cannot be made says nothing about its object.
        Some(_) => Outcome::Unreachable(
            error
                .fault()
                .map_or_else(String::new, |fault| fault.cause().to_string()),
        ),
        None => match error.retry_after() {
            Some(wait) => Outcome::Throttled(Some(wait)),
            None => Outcome::Unreachable(error.to_string()),
        },
    }
}

/// The platform's own words, one short line of them. What it says is for people: it is never obeyed.
fn quoted(answer: &Answer) -> String {
    let text = String::from_utf8_lossy(answer.body.expose());
    let line: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(MAX_QUOTED)
        .collect();
    match line.trim() {
        "" => format!("HTTP status {}", answer.status.as_u16()),
        line => line.to_owned(),
    }
}

#[cfg(test)]
mod tests;
