//! A record does not grow for ever, and forgets nothing that could cost a try.

use trustplane_api::hsm::record::{OFFICER, Outcome, Try};

use super::Case;

/// The most tries that a record holds.
pub const MOST: usize = 32;

/// The tries with a new one at their end; nothing if there is no room for it.
///
/// A PIN that was refused and may come back is never forgotten: if there are too many of these, nothing is tried any more.
pub(super) fn push(mut tries: Vec<Try>, case: &Case<'_>, outcome: Outcome) -> Option<Vec<Try>> {
    let key = &case.key;
    tries.retain(|tried| !key.is(tried));
    while tries.len() >= MOST {
        let at = [is_elsewhere, is_idle, is_right]
            .iter()
            .find_map(|useless| tries.iter().position(|tried| useless(tried, case)))?;
        tries.remove(at);
    }
    tries.push(Try {
        token: key.token.to_owned(),
        secret: key.secret.to_owned(),
        digest: key.digest.to_owned(),
        by: case.by.to_owned(),
        at: case.now,
        outcome,
    });
    Some(tries)
}

/// Of another token, or of a Secret that is no more: a new one has another uid.
fn is_elsewhere(tried: &Try, case: &Case<'_>) -> bool {
    let officers = OFFICER == tried.secret || OFFICER == case.key.secret;
    let elsewhere = tried.token != case.key.token || !officers && tried.secret != case.key.secret;
    elsewhere && !tried.outcome.is_pending()
}

/// Never seen by the token.
fn is_idle(tried: &Try, _: &Case<'_>) -> bool {
    tried.outcome == Outcome::Withdrawn
}

/// Right when it was tried: forgotten, it is new.
fn is_right(tried: &Try, _: &Case<'_>) -> bool {
    tried.outcome == Outcome::Accepted && tried.secret != OFFICER
}
