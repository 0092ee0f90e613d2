//! When a PIN may be tried. Pure: it knows what was tried and what came of it.
//!
//! A PIN that was refused is not tried again, however often the token is opened. One whose try was not answered, because the
//! module hung or crashed, is tried once more, if the token does not say that a wrong one was tried.

use trustplane_hsm_token::Attempt;
use trustplane_process::secret::Secret;

use crate::error::PinProblem;

/// How often a PIN that was never accepted is tried while the token does not answer.
const UNANSWERED: u32 = 2;

/// A PIN, and what is known of it.
#[derive(Debug)]
pub(crate) struct Login {
    pin: Secret<String>,
    standing: Standing,
    /// PINs that the token has rejected, so that one that comes back is known.
    rejected: Vec<Secret<String>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// Nobody has tried it.
    New(Attempt),
    /// The token has accepted it.
    Accepted,
    /// So many tries were not answered.
    Unanswered(u32),
    /// It is not to be tried.
    Refused(PinProblem),
}

impl Login {
    pub fn new(pin: Secret<String>, attempt: Attempt) -> Self {
        Self {
            pin,
            standing: Standing::New(attempt),
            rejected: Vec::new(),
        }
    }

    pub fn pin(&self) -> &Secret<String> {
        &self.pin
    }

    /// How it may be tried next, if it may.
    pub fn next(&self) -> Result<Attempt, PinProblem> {
        match self.standing {
            Standing::New(attempt) => Ok(attempt),
            Standing::Accepted => Ok(Attempt::Automatic),
            Standing::Unanswered(tries) if tries < UNANSWERED => Ok(Attempt::Automatic),
            Standing::Unanswered(_) => Err(PinProblem::Unanswered),
            Standing::Refused(problem) => Err(problem),
        }
    }

    pub fn accepted(&mut self) {
        self.rejected.retain(|rejected| *rejected != self.pin);
        self.standing = Standing::Accepted;
    }

    pub fn refused(&mut self, problem: PinProblem) {
        if problem == PinProblem::Rejected && !self.rejected.contains(&self.pin) {
            self.rejected.push(self.pin.clone());
        }
        self.standing = Standing::Refused(problem);
    }

    /// It was tried, or may have been, and nobody knows what came of it.
    pub fn unanswered(&mut self) {
        self.standing = match self.standing {
            Standing::New(_) => Standing::Unanswered(1),
            Standing::Unanswered(tries) => Standing::Unanswered(tries.saturating_add(1)),
            // It is known to be right.
            known => known,
        };
    }

    /// Takes another PIN. One that was refused is tried again by order only.
    pub fn give(&mut self, pin: Secret<String>, attempt: Attempt) {
        if attempt == Attempt::Automatic && pin == self.pin {
            return;
        }
        self.standing = match attempt {
            Attempt::Automatic if self.rejected.contains(&pin) => Standing::Refused(PinProblem::Rejected),
            attempt => Standing::New(attempt),
        };
        self.pin = pin;
    }

    /// The PIN was changed to this one.
    pub fn changed(&mut self, pin: Secret<String>) {
        self.pin = pin;
        self.accepted();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login() -> Login {
        Login::new(Secret::new("1".to_owned()), Attempt::Ordered)
    }

    #[test]
    fn a_pin_that_was_refused_is_not_tried_again_but_by_order() {
        let mut login = login();
        login.refused(PinProblem::Rejected);
        login.give(Secret::new("1".to_owned()), Attempt::Automatic);
        assert_eq!(login.next(), Err(PinProblem::Rejected));
        login.give(Secret::new("1".to_owned()), Attempt::Ordered);
        assert_eq!(login.next(), Ok(Attempt::Ordered));
        login.refused(PinProblem::Rejected);
        login.give(Secret::new("2".to_owned()), Attempt::Automatic);
        assert_eq!(login.next(), Ok(Attempt::Automatic));
        login.give(Secret::new("1".to_owned()), Attempt::Automatic);
        assert_eq!(login.next(), Err(PinProblem::Rejected));
        login.give(Secret::new("2".to_owned()), Attempt::Automatic);
        login.changed(Secret::new("1".to_owned()));
        login.give(Secret::new("2".to_owned()), Attempt::Automatic);
        login.give(Secret::new("1".to_owned()), Attempt::Automatic);
        assert_eq!(login.next(), Ok(Attempt::Automatic));
    }

    #[test]
    fn an_order_counts_for_one_try_and_two_without_an_answer_are_the_last() {
        let mut login = login();
        login.unanswered();
        assert_eq!(login.next(), Ok(Attempt::Automatic));
        login.unanswered();
        assert_eq!(login.next(), Err(PinProblem::Unanswered));
    }

    #[test]
    fn a_pin_that_is_known_to_be_right_survives_a_module_that_does_not_answer() {
        let mut login = login();
        login.accepted();
        for _ in 0..9 {
            login.unanswered();
        }
        assert_eq!(login.next(), Ok(Attempt::Automatic));
        login.refused(PinProblem::Rejected);
        assert_eq!(login.next(), Err(PinProblem::Rejected));
    }
}
