//! Whether a PIN may be tried. A token counts wrong PINs and locks itself, so each value is tried once: by whichever of
//! several processes, however often they restart.
//!
//! A try is written into a record before the token sees the PIN, by a write that fails if the record has changed since it
//! was read ([`decide`]). What came of it is written after ([`settle`]). A process may end anywhere in between. A try without
//! an outcome is left alone while the process that made it may still live. After that the token's own flags decide: if they
//! show no wrong PIN, and nothing else was tried since, the PIN is tried once more; else it counts as refused.
//!
//! There is no clock here, and nothing is written.
//!
//! ```
//! use std::time::Duration;
//! use trustplane_api::hsm::record::Outcome;
//! use trustplane_hsm_core::pin_record::{Account, Case, Flags, Key, Refusal, Sightings, Verdict, decide, settle};
//!
//! let key = Key { token: "DENK0105501", secret: "5f1c", digest: "00ff" };
//! let now = "2026-07-07T08:00:00Z".parse().unwrap();
//! let case = Case {
//!     key, by: "pod/1", account: Account::Automatic, flags: Flags::Clear, now,
//!     window: Duration::from_secs(40),
//! };
//! let Verdict::Try { tries, .. } = decide(&[], &case, &Sightings::default()) else { panic!() };
//! // … it is written, the token is asked, and says no.
//! let tries = settle(&tries, &key, "pod/1", Outcome::Rejected, now).unwrap();
//! let again = decide(&tries, &Case { by: "pod/2", ..case }, &Sightings::default());
//! assert_eq!(again, Verdict::Refused { why: Refusal::Rejected, tries: None });
//! ```

mod bound;
mod digest;
mod sightings;
#[cfg(test)]
mod tests;

use std::time::Duration;

use jiff::Timestamp;
use trustplane_api::hsm::record::{OFFICER, Outcome, Try};

pub use bound::MOST;
use bound::push;
pub use digest::{DigestKey, DigestKeyError};
pub use sightings::Sightings;

/// How wrong the clocks of two nodes may be. Only for a try that nobody has watched.
const SKEW: Duration = Duration::from_secs(600);

/// What a try is known by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key<'a> {
    /// The serial number of the token.
    pub token: &'a str,
    /// The uid of the Secret with the PIN.
    pub secret: &'a str,
    /// The keyed digest of the PIN.
    pub digest: &'a str,
}

impl Key<'_> {
    pub(crate) fn is(&self, tried: &Try) -> bool {
        self.token == tried.token && self.secret == tried.secret && self.digest == tried.digest
    }

    /// Whether the token counts both in the same way: a user PIN and the security officer's have nothing to do with each
    /// other.
    fn counts_with(&self, tried: &Try) -> bool {
        self.token == tried.token && (self.secret == OFFICER) == (tried.secret == OFFICER)
    }
}

/// What a token shows of wrong PINs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flags {
    /// Nothing: the last PIN was right, or the token does not tell.
    Clear,
    /// The last PIN was wrong.
    Low,
    /// One more wrong PIN locks it.
    Final,
    /// It is locked.
    Locked,
}

/// On whose account a PIN is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Account {
    /// Nobody has asked for it.
    Automatic,
    /// Somebody who knows what a wrong PIN costs has ordered it.
    Ordered,
}

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Case<'a> {
    /// Which PIN.
    pub key: Key<'a>,
    /// Who asks: the uid of the pod, a slash, and when the process began.
    pub by: &'a str,
    /// On whose account.
    pub account: Account,
    /// What the token shows now.
    pub flags: Flags,
    /// The time.
    pub now: Timestamp,
    /// How long a process may take from writing a try down until the token has answered.
    pub window: Duration,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The PIN may be tried once these tries are written.
    Try {
        /// What is written first, and only in place of what was read.
        tries: Vec<Try>,
        /// What the token must show at that moment.
        caution: Caution,
    },
    /// Another process may be at it: ask again after this time at the latest.
    Wait(Duration),
    /// The PIN is not to be tried.
    Refused {
        /// Why.
        why: Refusal,
        /// What is to be written, so that it stays so.
        tries: Option<Vec<Try>>,
    },
}

/// What a token must show right before a try, else it is not made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caution {
    /// No wrong PIN.
    Clear,
    /// No wrong PIN, or one that we know of and somebody has corrected; but one more must not lock it.
    Corrected,
    /// Only that it is not locked.
    Ordered,
}

/// Why a PIN is not to be tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// It was tried, and is wrong.
    Rejected,
    /// The token is locked.
    Locked,
    /// It has to be changed before it can be used.
    Expired,
    /// The token takes no such PIN.
    Form,
    /// A wrong PIN was tried that we do not know of.
    Low,
    /// One more wrong PIN would lock the token.
    Final,
    /// It may have been tried, and nobody knows what came of it.
    Unanswered,
    /// Too many PINs were refused.
    Full,
}

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
    let before = tries.iter().position(|tried| key.is(tried));
    // A person knows better than the record.
    let before = before.filter(|_| case.account == Account::Automatic);
    let Some(at) = before else {
        return begin(tries, case, Outcome::Pending);
    };
    match tries[at].outcome {
        Outcome::Withdrawn | Outcome::Accepted => begin(tries, case, Outcome::Pending),
        Outcome::Pending | Outcome::PendingAgain => open(tries, at, case),
        Outcome::Rejected => refused(Refusal::Rejected),
        Outcome::Locked => refused(Refusal::Locked),
        Outcome::Expired => refused(Refusal::Expired),
        Outcome::Form => refused(Refusal::Form),
        Outcome::Unanswered | Outcome::Other => refused(Refusal::Unanswered),
    }
}

/// What becomes of a PIN whose try has no outcome, and whose maker is gone or is us.
fn open(tries: &[Try], at: usize, case: &Case<'_>) -> Verdict {
    let tried = &tries[at];
    // A right PIN clears the flags: they speak of this try only if it was the last one.
    let is_last = !tries[at + 1..]
        .iter()
        .any(|later| case.key.counts_with(later) && later.outcome != Outcome::Withdrawn);
    if tried.outcome == Outcome::Pending && case.flags == Flags::Clear && is_last {
        return begin(tries, case, Outcome::PendingAgain);
    }
    let mut tries = tries.to_vec();
    tries[at].outcome = Outcome::Unanswered;
    Verdict::Refused {
        why: Refusal::Unanswered,
        tries: Some(tries),
    }
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
    let mut tries = tries.to_vec();
    for tried in &mut tries {
        // Its maker is gone, and from now on the flags no longer speak of it.
        if tried.outcome.is_pending() && case.key.counts_with(tried) {
            tried.outcome = Outcome::Unanswered;
        }
    }
    match push(tries, case, outcome) {
        Some(tries) => Verdict::Try { tries, caution },
        None => refused(Refusal::Full),
    }
}

/// Whether the wrong PIN that the token shows is one of ours, and this is another: somebody has mended it.
fn is_corrected(tries: &[Try], case: &Case<'_>) -> bool {
    let ours = || {
        let counted = tries.iter().filter(|tried| case.key.counts_with(tried));
        counted.filter(|tried| tried.outcome != Outcome::Withdrawn)
    };
    let is_wrong = |tried: &Try| tried.outcome != Outcome::Accepted;
    // Under whichever Secret.
    let is_other = !ours().any(|tried| tried.digest == case.key.digest && is_wrong(tried));
    is_other && ours().next_back().is_some_and(is_wrong)
}

/// How long the maker of an open try may still be at it; nothing if it is certainly gone, or is us.
fn life(tried: &Try, case: &Case<'_>, seen: &Sightings) -> Option<Duration> {
    if !tried.outcome.is_pending() || pod(&tried.by) == pod(case.by) {
        // In one pod the next process begins after the last one has ended.
        return None;
    }
    // Clocks differ: what counts is how long we have watched. The times are for a process that never watches for long.
    let age = case.now.duration_since(tried.at).unsigned_abs();
    let age = if case.now < tried.at { Duration::ZERO } else { age };
    let watched = case.window.saturating_sub(seen.watched(tried));
    let aged = (case.window + SKEW).saturating_sub(age);
    Some(watched.min(aged)).filter(|left| !left.is_zero())
}

/// The pod of a process.
fn pod(by: &str) -> &str {
    by.split_once('/').map_or(by, |(pod, _)| pod)
}

fn refused(why: Refusal) -> Verdict {
    Verdict::Refused { why, tries: None }
}

/// The tries once it is known what came of one of them; nothing if there is nothing to write.
pub fn settle(tries: &[Try], key: &Key<'_>, by: &str, outcome: Outcome, now: Timestamp) -> Option<Vec<Try>> {
    let mut settled = tries.to_vec();
    match settled.iter_mut().find(|tried| key.is(tried)) {
        Some(tried) => {
            let ours = tried.by == by;
            tried.outcome = match (outcome, tried.outcome) {
                // It was sent once, and this second time it was not.
                (Outcome::Withdrawn, Outcome::PendingAgain) if ours => Outcome::Pending,
                (Outcome::Withdrawn, Outcome::Pending) if ours => Outcome::Withdrawn,
                (Outcome::Withdrawn, before) => before,
                // Others have taken over meanwhile, and were told otherwise: once refused is refused.
                (Outcome::Accepted, before) if !ours && !before.is_pending() => before,
                (outcome, _) => outcome,
            };
        }
        None if outcome == Outcome::Withdrawn => {}
        None => settled.push(Try {
            token: key.token.to_owned(),
            secret: key.secret.to_owned(),
            digest: key.digest.to_owned(),
            by: by.to_owned(),
            at: now,
            outcome,
        }),
    }
    (settled != tries).then_some(settled)
}
