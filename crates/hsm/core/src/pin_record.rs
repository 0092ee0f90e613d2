//! Whether a PIN may be tried. A token counts wrong PINs and locks itself, so each value is tried once: by whichever of
//! several processes, however often they restart.
//!
//! A try is written into a record before the token sees the PIN, by a write that fails if the record has changed since it
//! was read ([`decide`]). What came of it is written after ([`settle`]). A process may end anywhere in between. A try without
//! an outcome is left alone while the process that made it may still live. After that the token's own flags decide: if they
//! show no wrong PIN, and nothing else was tried since, the PIN is tried once more, and one that was right before as often as
//! that happens; else it counts as refused. A change of the PIN is written down in the same way ([`begin_change`]).
//!
//! A PIN is known by the token and by a keyed digest, in whichever Secret it is. Another try of one that was refused is a
//! person's word ([`word`]).
//!
//! There is no clock here, and nothing is written.
//!
//! ```
//! use std::time::Duration;
//! use trustplane_api::hsm::record::Outcome;
//! use trustplane_hsm_core::pin_record::{Account, Case, Flags, Key, Refusal, Sightings, Verdict, decide, settle};
//!
//! let key = Key { token: "DENK0105501", secret: "5f1c", digest: "00ff", key: "1f2e" };
//! let now = "2026-07-07T08:00:00Z".parse().unwrap();
//! let case = Case {
//!     key, by: "pod/1", again: "", account: Account::Automatic, flags: Flags::Clear, now,
//!     window: Duration::from_secs(40),
//! };
//! let Verdict::Try { tries, .. } = decide(&[], &case, &Sightings::default()) else { panic!() };
//! // … it is written, the token is asked, and says no.
//! let tries = settle(&tries, &key, "pod/1", Outcome::Rejected, now).unwrap();
//! let again = decide(&tries, &Case { by: "pod/2", ..case }, &Sightings::default());
//! assert_eq!(again, Verdict::Refused { why: Refusal::Rejected, tries: None });
//! ```

mod bound;
mod change;
mod decide;
mod digest;
mod settle;
mod sightings;
#[cfg(test)]
mod tests;
mod unsent;

use std::time::Duration;

use jiff::Timestamp;
use trustplane_api::hsm::record::{OFFICER, Outcome, Try};

pub use bound::MOST;
pub use change::{Exchange, Exchanged, begin_change, end_change};
pub use decide::decide;
pub use digest::{DigestKey, DigestKeyError, word};
pub use settle::settle;
pub use sightings::Sightings;
pub use unsent::Unsent;

/// What a PIN is known by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key<'a> {
    /// The serial number of the token.
    pub token: &'a str,
    /// The uid of the Secret with the PIN, or [`OFFICER`]. Which Secret it is decides nothing.
    pub secret: &'a str,
    /// The keyed digest of the PIN.
    pub digest: &'a str,
    /// The id of the key of the digest.
    pub key: &'a str,
}

impl Key<'_> {
    /// Whether it is the same PIN.
    fn is(&self, tried: &Try) -> bool {
        self.counts_with(tried) && self.digest == tried.digest && self.key == tried.key
    }

    fn is_same(&self, other: &Self) -> bool {
        self.digest == other.digest && self.key == other.key
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
    /// The digest of the text with which somebody allows another try; empty if there is none.
    pub again: &'a str,
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
    /// A change of the PIN was interrupted, and nobody knows which one it is.
    Undecided,
    /// What was tried before was written down with another key, so nobody knows whether this one was.
    KeyLost,
    /// Too many PINs were refused.
    Full,
}

/// A PIN of which nothing else is known.
fn entry(key: &Key<'_>, by: &str, at: Timestamp, outcome: Outcome) -> Try {
    Try {
        token: key.token.to_owned(),
        secret: key.secret.to_owned(),
        digest: key.digest.to_owned(),
        key: key.key.to_owned(),
        by: by.to_owned(),
        at,
        outcome,
        before: None,
        again: Vec::new(),
    }
}
