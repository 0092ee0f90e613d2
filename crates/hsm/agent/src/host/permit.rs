//! Leave to try a PIN, from the record that other processes share; and what is written there after.

use std::time::Duration;

use trustplane_api::hsm::record::{Outcome, TokenIdentity};
use trustplane_hsm_core::pin_record::{Account, Caution, Flags, Refusal};
use trustplane_hsm_token::{Attempt, PinTries, TokenInfo};

use super::actor::{Actor, Pause};
use crate::error::{AgentError, PinProblem};
use crate::health::Phase;
use crate::record::{Asked, Denial, Grant};
use crate::wire::{Failure, Kind, Tried};

/// Leave to try the PIN once.
pub(super) struct Permit {
    pub attempt: Attempt,
    /// From the record; nothing if there is none, or if this process knows that the PIN is right.
    grant: Option<Grant>,
}

impl Actor {
    /// Asks the record whether the PIN may be tried, and has the try written down.
    pub async fn permit(&mut self, token: &TokenInfo, attempt: Attempt) -> Result<Permit, Pause> {
        let known = self.login.is_known_right() && self.token.is_some();
        let (Some(book), Some(given), false) = (&mut self.book, self.login.given(), known) else {
            return Ok(Permit { attempt, grant: None });
        };
        if !token.has_user_pin {
            return Err(self.refuse(PinProblem::NotSet));
        }
        let asked = Asked {
            token: identity(token),
            secret: &given.secret,
            pin: &given.pin,
            again: &given.again,
            account: match attempt {
                Attempt::Ordered => Account::Ordered,
                _ => Account::Automatic,
            },
            flags: flags(token.pin_tries),
            opening: self.settings.opening,
        };
        match book.permit(&asked).await {
            Ok(grant) => {
                self.denials = 0;
                Ok(Permit {
                    attempt: attempt_of(grant.caution),
                    grant: Some(grant),
                })
            }
            Err(denial) => Err(self.denied(denial, token)),
        }
    }

    /// The PIN is about to be sent: too late, if others may take us for gone by now.
    pub fn use_up(&mut self, permit: &Permit) -> Result<(), Pause> {
        let (Some(book), Some(grant)) = (&mut self.book, &permit.grant) else {
            return Ok(());
        };
        if grant.is_over() {
            return Err(Some(Duration::ZERO));
        }
        book.sent(grant);
        Ok(())
    }

    /// Writes down what came of it.
    pub fn note(&mut self, token: &TokenInfo, permit: Permit, outcome: Outcome) {
        let (Some(book), Some(given)) = (&mut self.book, self.login.given()) else {
            return;
        };
        match (permit.grant, outcome) {
            (Some(grant), _) => book.settle(grant, outcome),
            // What was right is noted as such already.
            (None, Outcome::Accepted | Outcome::Withdrawn) => {}
            (None, _) => book.know(&token.serial, &given.secret, &given.pin, outcome),
        }
    }

    /// Remembers that the PIN of an open token was tried anew, and what came of it.
    pub fn note_renewal(&mut self, tried: Tried, kind: Kind) {
        let (Tried::Refused, Kind::Pin(problem)) = (tried, kind) else {
            // It is known to be right.
            return;
        };
        let opened = self.login.no_longer_opens(problem);
        if let (Some(book), Some(opened), Some(token)) = (&mut self.book, opened, &self.token) {
            book.know(&token.serial, &opened.secret, &opened.pin, outcome_of(problem));
        }
    }

    /// The PIN may not be tried.
    pub(super) fn denied(&mut self, denial: Denial, token: &TokenInfo) -> Pause {
        match denial {
            Denial::Wait(wait) => {
                let text = "another process may be trying a PIN, so none is tried yet";
                self.excuse = AgentError::unavailable(text);
                self.report(Phase::Unavailable, |_| {});
                Some(wait.min(self.settings.retry * 2))
            }
            Denial::Refused(why) => self.refused(why, token),
            Denial::AnotherToken(known) => {
                let text = format!(
                    "another token is there: {token}; this agent belongs to the one with serial {:?}",
                    known.serial
                );
                self.miss(Failure::new(Kind::Unavailable, text))
            }
            Denial::Ledger(error) => {
                self.excuse = AgentError::unavailable(format!("{error}, so no PIN is tried"));
                self.report(Phase::Unavailable, |_| {});
                self.denials = self.denials.saturating_add(1);
                Some(self.settings.backoff.jittered(self.denials - 1))
            }
        }
    }

    fn refused(&mut self, why: Refusal, token: &TokenInfo) -> Pause {
        let problem = match why {
            Refusal::Rejected => PinProblem::Rejected,
            Refusal::Locked => PinProblem::Locked,
            Refusal::Expired => PinProblem::Expired,
            Refusal::Form => PinProblem::Form,
            Refusal::Low | Refusal::Final => PinProblem::TriesLow,
            Refusal::Unanswered => PinProblem::Unanswered,
            Refusal::Undecided => PinProblem::Undecided,
            Refusal::KeyLost => PinProblem::KeyLost,
            Refusal::Full => PinProblem::TooMany,
        };
        // What the token shows may pass; what the record says does not.
        if problem.may_pass() || token.pin_tries == PinTries::Locked {
            self.refuse(problem);
            return Some(self.settings.backoff.max);
        }
        self.login.refused(problem);
        self.refuse(problem)
    }
}

fn attempt_of(caution: Caution) -> Attempt {
    match caution {
        Caution::Clear => Attempt::Automatic,
        Caution::Corrected => Attempt::Corrected,
        Caution::Ordered => Attempt::Ordered,
    }
}

fn flags(tries: PinTries) -> Flags {
    match tries {
        PinTries::Unknown => Flags::Clear,
        PinTries::Low => Flags::Low,
        PinTries::Final => Flags::Final,
        PinTries::Locked => Flags::Locked,
    }
}

/// The record's word for what the token said.
pub(super) fn outcome_of(problem: PinProblem) -> Outcome {
    match problem {
        PinProblem::Rejected => Outcome::Rejected,
        PinProblem::Locked => Outcome::Locked,
        PinProblem::Expired => Outcome::Expired,
        PinProblem::Form => Outcome::Form,
        _ => Outcome::Unanswered,
    }
}

pub(super) fn identity(token: &TokenInfo) -> TokenIdentity {
    TokenIdentity {
        serial: token.serial.clone(),
        label: token.label.clone(),
        manufacturer: token.manufacturer.clone(),
        model: token.model.clone(),
        firmware: token.firmware.clone(),
        reader: token.reader.clone(),
    }
}
