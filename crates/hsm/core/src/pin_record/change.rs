//! A change of the PIN: written down before the token sees it, and after. Whoever starts in between knows that each of the two
//! PINs may be the right one.

use jiff::Timestamp;
use trustplane_api::hsm::record::{Outcome, Try};

use super::bound::make_room;
use super::decide::{abandon, known};
use super::settle::{end_changes, take_back};
use super::{Key, entry};

/// From one PIN of a token to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange<'a> {
    /// The PIN that the token had.
    pub old: Key<'a>,
    /// The PIN that it is to have.
    pub new: Key<'a>,
}

/// How a change has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exchanged {
    /// The token has the new PIN.
    Done,
    /// The token was not asked, or has refused the new PIN.
    Undone,
    /// The token has said this of the old PIN.
    Refused(Outcome),
}

/// The tries with a change that begins; nothing if there is no room for it.
pub fn begin_change(tries: &[Try], change: &Exchange<'_>, by: &str, now: Timestamp) -> Option<Vec<Try>> {
    let mut begun = without(tries, change);
    // The old one last: that is the one which the token is asked for.
    let keys = both(change);
    if !make_room(&mut begun, &change.old, keys.len()) {
        return None;
    }
    for key in keys {
        let before = tries.iter().rev().find(|tried| key.is(tried));
        begun.push(Try {
            before: before.and_then(known),
            again: before.map(|tried| tried.again.clone()).unwrap_or_default(),
            ..entry(&key, by, now, Outcome::Changing)
        });
    }
    Some(begun)
}

/// The tries once it is known how a change has ended; nothing if there is nothing to write.
pub fn end_change(
    tries: &[Try],
    change: &Exchange<'_>,
    by: &str,
    end: Exchanged,
    now: Timestamp,
) -> Option<Vec<Try>> {
    let mut ended = tries.to_vec();
    let Exchange { old, new } = change;
    match end {
        Exchanged::Undone => {
            undo(&mut ended, old, by);
            undo(&mut ended, new, by);
        }
        Exchanged::Refused(outcome) => {
            undo(&mut ended, new, by);
            renew(&mut ended, old, by, outcome, now);
        }
        Exchanged::Done => {
            // What the token shows from now on is of this.
            abandon(&mut ended, old);
            if !old.is_same(new) {
                renew(&mut ended, old, by, Outcome::Replaced, now);
            }
            renew(&mut ended, new, by, Outcome::Accepted, now);
            end_changes(&mut ended, new);
        }
    }
    (ended != tries).then_some(ended)
}

/// The PINs of a change, the old one last.
fn both<'a>(change: &Exchange<'a>) -> Vec<Key<'a>> {
    match change.old.is_same(&change.new) {
        true => vec![change.old],
        false => vec![change.new, change.old],
    }
}

fn without(tries: &[Try], change: &Exchange<'_>) -> Vec<Try> {
    let others = tries
        .iter()
        .filter(|tried| !change.old.is(tried) && !change.new.is(tried));
    others.cloned().collect()
}

/// Puts what is known of a PIN in the place of all that was.
fn renew(tries: &mut Vec<Try>, key: &Key<'_>, by: &str, outcome: Outcome, now: Timestamp) {
    let before = tries.iter().rev().find(|tried| key.is(tried));
    let again = before.map(|tried| tried.again.clone()).unwrap_or_default();
    tries.retain(|tried| !key.is(tried));
    // Where there is no room, what is known is written all the same: a wrong PIN is not forgotten.
    make_room(tries, key, 1);
    tries.push(Try {
        again,
        ..entry(key, by, now, outcome)
    });
}

fn undo(tries: &mut [Try], key: &Key<'_>, by: &str) {
    let ours = |tried: &&mut Try| key.is(tried) && tried.by == by && tried.outcome == Outcome::Changing;
    if let Some(tried) = tries.iter_mut().rev().find(ours) {
        take_back(tried);
    }
}
