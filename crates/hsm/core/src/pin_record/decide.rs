//! The rules by which a PIN is tried or not.

use std::time::Duration;

use trustplane_api::hsm::record::{Outcome, Try};

use super::bound::make_room;
use super::{Account, Case, Caution, Flags, Key, Refusal, Sightings, Verdict, entry};

/// The most texts of people that are kept with a try.
const WORDS: usize = 8;

/// Decides whether a PIN may be tried.
pub fn decide(tries: &[Try], case: &Case<'_>, seen: &Sightings) -> Verdict {
    let key = &case.key;
    let theirs = tries.iter().filter(|tried| key.counts_with(tried));
    let wait = theirs.filter_map(|tried| life(tried, case, seen)).max();
    if let Some(wait) = wait {
        return Verdict::Wait(wait);
    }
    if case.flags == Flags::Locked {
        return refused(Refusal::Locked);
    }
    // A person knows better than the record.
    if case.account == Account::Ordered || is_allowed(tries, case) {
        return begin(tries, case, Outcome::Pending);
    }
    let Some(at) = tries.iter().rposition(|tried| key.is(tried)) else {
        return match is_comparable(tries, key) {
            true => begin(tries, case, Outcome::Pending),
            false => refused(Refusal::KeyLost),
        };
    };
    match tries[at].outcome {
        Outcome::Withdrawn | Outcome::Accepted => begin(tries, case, Outcome::Pending),
        Outcome::Pending | Outcome::PendingAgain => open(tries, at, case),
        Outcome::Changing => changing(tries, at, case),
        Outcome::Rejected | Outcome::Replaced => refused(Refusal::Rejected),
        Outcome::Locked => refused(Refusal::Locked),
        Outcome::Expired => refused(Refusal::Expired),
        Outcome::Form => refused(Refusal::Form),
        Outcome::Unanswered | Outcome::Other => refused(Refusal::Unanswered),
    }
}

/// Whether somebody allows another try with a text that was not used for this PIN; nor for any that cannot be told from it.
fn is_allowed(tries: &[Try], case: &Case<'_>) -> bool {
    let key = &case.key;
    let may_be_it = |tried: &&Try| key.counts_with(tried) && (key.is(tried) || key.key != tried.key);
    let is_used = |tried: &Try| tried.again.iter().any(|used| used == case.again);
    !case.again.is_empty() && !tries.iter().filter(may_be_it).any(is_used)
}

/// Whether a PIN that is not in the record was certainly never refused.
fn is_comparable(tries: &[Try], key: &Key<'_>) -> bool {
    let is_in_doubt = |tried: &Try| tried.outcome.is_refused() || tried.outcome.is_open();
    let foreign = |tried: &&Try| key.counts_with(tried) && tried.key != key.key;
    !tries.iter().filter(foreign).any(is_in_doubt)
}

/// What becomes of a PIN whose try has no outcome, and whose maker is gone or is us.
fn open(tries: &[Try], at: usize, case: &Case<'_>) -> Verdict {
    let tried = &tries[at];
    // A right PIN clears the flags: they speak of this try only if it was the last one.
    let is_last = !tries[at + 1..]
        .iter()
        .any(|later| case.key.counts_with(later) && later.outcome != Outcome::Withdrawn);
    let is_first = tried.outcome == Outcome::Pending || tried.before == Some(Outcome::Accepted);
    if is_first && case.flags == Flags::Clear && is_last {
        return begin(tries, case, Outcome::PendingAgain);
    }
    unanswered(tries, at, Refusal::Unanswered)
}

/// What becomes of a PIN whose change was interrupted, from it or to it: it has one try.
fn changing(tries: &[Try], at: usize, case: &Case<'_>) -> Verdict {
    let before = tries[at].before;
    if before.is_some_and(Outcome::is_refused) {
        return refused(Refusal::Undecided);
    }
    match begin(tries, case, Outcome::Pending) {
        // The change itself may have been what was wrong.
        Verdict::Refused { .. } if before == Some(Outcome::Accepted) => {
            unanswered(tries, at, Refusal::Undecided)
        }
        Verdict::Refused { .. } => refused(Refusal::Undecided),
        verdict => verdict,
    }
}

/// Nobody will ever know.
fn unanswered(tries: &[Try], at: usize, why: Refusal) -> Verdict {
    let mut tries = tries.to_vec();
    tries[at].outcome = Outcome::Unanswered;
    tries[at].before = None;
    let tries = Some(tries);
    Verdict::Refused { why, tries }
}

/// The PIN may be tried if the flags allow it.
fn begin(tries: &[Try], case: &Case<'_>, outcome: Outcome) -> Verdict {
    let caution = match (case.account, case.flags) {
        (Account::Ordered, _) => Caution::Ordered,
        (_, Flags::Clear) => Caution::Clear,
        (_, Flags::Low) if is_corrected(tries, case) => Caution::Corrected,
        (_, Flags::Low) => return refused(Refusal::Low),
        (_, Flags::Final) => return refused(Refusal::Final),
        (_, Flags::Locked) => return refused(Refusal::Locked),
    };
    let key = &case.key;
    let before = tries.iter().rev().find(|tried| key.is(tried));
    let mut begun: Vec<Try> = tries.iter().filter(|tried| !key.is(tried)).cloned().collect();
    abandon(&mut begun, key);
    if !make_room(&mut begun, key, 1) {
        return refused(Refusal::Full);
    }
    begun.push(Try {
        before: before.and_then(known),
        again: words(before, case.again),
        ..entry(key, case.by, case.now, outcome)
    });
    let tries = begun;
    Verdict::Try { tries, caution }
}

/// What is known of a PIN apart from what is open. After a change that was interrupted it is no longer known to be right.
pub(super) fn known(tried: &Try) -> Option<Outcome> {
    match tried.outcome {
        Outcome::Pending | Outcome::PendingAgain => tried.before,
        Outcome::Withdrawn => None,
        Outcome::Changing => tried.before.filter(|before| before.is_refused()),
        outcome => Some(outcome),
    }
}

/// The texts that were used for a PIN once this one is.
fn words(before: Option<&Try>, again: &str) -> Vec<String> {
    let mut words = before.map(|tried| tried.again.clone()).unwrap_or_default();
    if !again.is_empty() && !words.iter().any(|word| word == again) {
        words.push(again.to_owned());
    }
    words.split_off(words.len().saturating_sub(WORDS))
}

/// The makers of other tries are gone, and from now on the flags no longer speak of those.
pub(super) fn abandon(tries: &mut [Try], key: &Key<'_>) {
    for tried in tries {
        if tried.outcome.is_pending() && key.counts_with(tried) {
            tried.outcome = Outcome::Unanswered;
            tried.before = None;
        }
    }
}

/// Whether the wrong PIN that the token shows is one of ours, and this is another: somebody has mended it.
fn is_corrected(tries: &[Try], case: &Case<'_>) -> bool {
    let ours = || {
        let counted = tries.iter().filter(|tried| case.key.counts_with(tried));
        counted.filter(|tried| tried.outcome != Outcome::Withdrawn)
    };
    let is_wrong = |tried: &Try| tried.outcome.is_refused() || tried.outcome.is_pending();
    let is_this = |tried: &&Try| case.key.is(tried);
    // One that was replaced is known to be wrong as well.
    let is_known = |tried: &Try| is_wrong(tried) || tried.outcome == Outcome::Replaced;
    !ours().filter(is_this).any(is_known) && ours().next_back().is_some_and(is_wrong)
}

/// How long the maker of an open try may still be at it; nothing if it is certainly gone, or is us. Clocks differ: what counts
/// is how long we have watched it on our own.
fn life(tried: &Try, case: &Case<'_>, seen: &Sightings) -> Option<Duration> {
    if !tried.outcome.is_open() || pod(&tried.by) == pod(case.by) {
        // In one pod the next process begins after the last one has ended.
        return None;
    }
    let left = case.window.saturating_sub(seen.watched(tried));
    Some(left).filter(|left| !left.is_zero())
}

/// The pod of a process.
pub(super) fn pod(by: &str) -> &str {
    by.split_once('/').map_or(by, |(pod, _)| pod)
}

pub(super) fn refused(why: Refusal) -> Verdict {
    Verdict::Refused { why, tries: None }
}
