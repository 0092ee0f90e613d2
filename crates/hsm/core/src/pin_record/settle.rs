//! What is written when it is known what came of a try.

use jiff::Timestamp;
use trustplane_api::hsm::record::{Outcome, Try};

use super::bound::make_room;
use super::{Key, entry};

/// The tries once it is known what came of one of them; nothing if there is nothing to write.
pub fn settle(tries: &[Try], key: &Key<'_>, by: &str, outcome: Outcome, now: Timestamp) -> Option<Vec<Try>> {
    let mut settled = tries.to_vec();
    match settled.iter().rposition(|tried| key.is(tried)) {
        Some(at) => settle_one(&mut settled[at], by, outcome),
        None if outcome == Outcome::Withdrawn => {}
        None => {
            // What was refused is written in any case.
            make_room(&mut settled, key, 1);
            settled.push(entry(key, by, now, outcome));
        }
    }
    if outcome == Outcome::Accepted {
        end_changes(&mut settled, key);
    }
    (settled != tries).then_some(settled)
}

pub(super) fn settle_one(tried: &mut Try, by: &str, outcome: Outcome) {
    let ours = tried.by == by;
    let settled = match (outcome, tried.outcome) {
        // It was sent once, and this second time it was not.
        (Outcome::Withdrawn, Outcome::PendingAgain) if ours => {
            tried.outcome = Outcome::Pending;
            return;
        }
        (Outcome::Withdrawn, Outcome::Pending) if ours => {
            take_back(tried);
            return;
        }
        (Outcome::Withdrawn, _) => return,
        // Others have taken over meanwhile, and were told otherwise: once refused is refused.
        (Outcome::Accepted, before) if !ours && !before.is_pending() => return,
        (outcome, _) => outcome,
    };
    tried.outcome = settled;
    if !settled.is_open() {
        tried.before = None;
    }
}

/// Makes a try what it was before: the token has not seen it.
pub(super) fn take_back(tried: &mut Try) {
    let before = tried.before.take();
    if before.is_some_and(Outcome::is_refused) && tried.outcome.is_pending() {
        // Who has allowed it has not had it yet.
        tried.again.pop();
    }
    tried.outcome = before.unwrap_or(Outcome::Withdrawn);
}

/// A PIN is right: so a change that was interrupted has led to it or not at all, and the other PIN of that change is wrong.
pub(super) fn end_changes(tries: &mut [Try], key: &Key<'_>) {
    let is_right = tries.iter().rev().find(|tried| key.is(tried));
    if is_right.is_none_or(|tried| tried.outcome != Outcome::Accepted) {
        return;
    }
    for tried in tries {
        if tried.outcome == Outcome::Changing && key.counts_with(tried) {
            let refused = tried.before.take().filter(|before| before.is_refused());
            tried.outcome = refused.unwrap_or(Outcome::Replaced);
        }
    }
}
