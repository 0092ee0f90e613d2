//! A record does not grow for ever, and forgets nothing that could cost a second try.

use trustplane_api::hsm::record::{OFFICER, Outcome, Try};

use super::Key;

/// The most tries that a record holds.
pub const MOST: usize = 32;

/// Makes room for so many tries more; says no if there is none.
///
/// A PIN that the token has refused, or may have, is never forgotten: if there are too many of these, nothing is tried any more.
pub(super) fn make_room(tries: &mut Vec<Try>, key: &Key<'_>, more: usize) -> bool {
    while tries.len() + more > MOST {
        let at = [is_elsewhere, is_idle, is_replaced, is_right]
            .iter()
            .find_map(|useless| tries.iter().position(|tried| useless(tried, key)));
        match at {
            Some(at) => drop(tries.remove(at)),
            None => return false,
        }
    }
    true
}

/// Of another token: this record is of one. What the security officer did on a blank one is kept, because it gets its serial
/// number by that.
fn is_elsewhere(tried: &Try, key: &Key<'_>) -> bool {
    tried.token != key.token && is_users(tried) && !tried.outcome.is_open()
}

/// Never seen by the token.
fn is_idle(tried: &Try, _: &Key<'_>) -> bool {
    tried.outcome == Outcome::Withdrawn
}

/// Never refused by the token: it is known without a try that it is wrong. Forgotten, it has one.
fn is_replaced(tried: &Try, _: &Key<'_>) -> bool {
    tried.outcome == Outcome::Replaced
}

/// Right when it was tried: forgotten, it is new.
fn is_right(tried: &Try, _: &Key<'_>) -> bool {
    tried.outcome == Outcome::Accepted && is_users(tried)
}

fn is_users(tried: &Try) -> bool {
    tried.secret != OFFICER
}
