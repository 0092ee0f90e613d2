//! When a PIN may be tried, as far as this process knows. Pure: it knows what was tried and what came of it.
//!
//! A PIN that was refused is not tried again, however often the token is opened. One whose try was not answered, because the
//! module hung or crashed, is tried once more, if the token does not say that a wrong one was tried. What other processes
//! have tried is in the record, which has to agree.

use trustplane_hsm_token::Attempt;
use trustplane_process::secret::Secret;

use crate::error::PinProblem;

/// How often a PIN that was never accepted is tried while the token does not answer.
const UNANSWERED: u32 = 2;

/// A PIN that somebody gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// The PIN.
    pub pin: Secret<String>,
    /// The uid of the Secret that it is from; empty if it is from elsewhere.
    pub secret: String,
    /// The digest of the text with which somebody allows another try; empty if there is none.
    pub again: String,
    /// On whose account it is tried.
    pub attempt: Attempt,
}

impl Given {
    /// A PIN that is from no Secret.
    pub fn new(pin: Secret<String>, attempt: Attempt) -> Self {
        Self {
            pin,
            secret: String::new(),
            again: String::new(),
            attempt,
        }
    }

    /// Whether it is the same PIN, in whichever Secret, on the same word of somebody.
    fn is(&self, other: &Self) -> bool {
        self.again == other.again && self.pin == other.pin
    }
}

/// A PIN, and what is known of it.
#[derive(Debug)]
pub(crate) struct Login {
    /// What is tried next.
    given: Option<Given>,
    standing: Standing,
    /// What has opened the token last.
    opened: Option<Given>,
    /// PINs that the token has rejected, so that one that comes back is known.
    rejected: Vec<Given>,
    /// Whether a record counts the tries without an answer: it knows more of them than this process.
    recorded: bool,
    nothing: Secret<String>,
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
    pub fn new(given: Option<Given>, recorded: bool) -> Self {
        let mut login = Self {
            given: None,
            standing: Standing::Refused(PinProblem::Missing),
            opened: None,
            rejected: Vec::new(),
            recorded,
            nothing: Secret::default(),
        };
        if let Some(given) = given {
            login.give(given);
        }
        login
    }

    /// What is tried next.
    pub fn given(&self) -> Option<&Given> {
        self.given.as_ref()
    }

    /// What has opened the token last.
    pub fn opened(&self) -> Option<&Given> {
        self.opened.as_ref()
    }

    /// The PIN that has opened the token, whatever was given since.
    pub fn pin(&self) -> &Secret<String> {
        let known = self.opened.as_ref().or(self.given.as_ref());
        known.map_or(&self.nothing, |given| &given.pin)
    }

    /// How it may be tried next, if it may.
    pub fn next(&self) -> Result<Attempt, PinProblem> {
        match self.standing {
            Standing::New(attempt) => Ok(attempt),
            Standing::Accepted => Ok(Attempt::Automatic),
            Standing::Unanswered(tries) if self.recorded || tries < UNANSWERED => Ok(Attempt::Automatic),
            Standing::Unanswered(_) => Err(PinProblem::Unanswered),
            Standing::Refused(problem) => Err(problem),
        }
    }

    /// Whether the token has accepted to this process what is tried next.
    pub fn is_known_right(&self) -> bool {
        self.standing == Standing::Accepted
    }

    pub fn accepted(&mut self) {
        if let Some(given) = &self.given {
            self.rejected.retain(|rejected| !rejected.is(given));
        }
        self.opened = self.given.clone();
        self.standing = Standing::Accepted;
    }

    pub fn refused(&mut self, problem: PinProblem) {
        if let Some(given) = self.given.clone()
            && problem == PinProblem::Rejected
            && !self.rejected.iter().any(|rejected| rejected.is(&given))
        {
            self.rejected.push(given);
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

    /// A change of the PIN was interrupted. The record knows of it, or else nobody knows which PIN it is.
    pub fn undecided(&mut self) {
        self.standing = match self.recorded {
            true => Standing::New(Attempt::Automatic),
            false => Standing::Refused(PinProblem::Undecided),
        };
    }

    /// The PIN that had opened the token was refused when it was opened anew. Says which it is.
    pub fn no_longer_opens(&mut self, problem: PinProblem) -> Option<Given> {
        let opened = self.opened.take()?;
        if self.given.as_ref().is_some_and(|given| given.is(&opened)) {
            self.refused(problem);
        }
        Some(opened)
    }

    /// Takes another PIN. One that was refused is tried again by order only.
    pub fn give(&mut self, given: Given) {
        let before = self.given.replace(given);
        let Some(given) = &self.given else { return };
        self.standing = match given.attempt {
            Attempt::Ordered => Standing::New(Attempt::Ordered),
            _ if before.as_ref().is_some_and(|before| before.is(given)) => self.standing,
            // A right PIN is right in whichever Secret.
            _ if self.is_known_right() && before.is_some_and(|before| before.pin == given.pin) => {
                self.opened = self.given.clone();
                Standing::Accepted
            }
            _ if self.rejected.iter().any(|rejected| rejected.is(given)) => {
                Standing::Refused(PinProblem::Rejected)
            }
            attempt => Standing::New(attempt),
        };
    }

    /// There is no PIN any more. One that has opened the token is kept, for a token that comes back.
    pub fn take_away(&mut self) {
        if !self.is_known_right() {
            self.given = None;
            self.standing = Standing::Refused(PinProblem::Missing);
        }
    }

    /// The PIN was changed to this one.
    pub fn changed(&mut self, pin: Secret<String>) {
        match &mut self.given {
            Some(given) => given.pin = pin,
            None => self.given = Some(Given::new(pin, Attempt::Automatic)),
        }
        self.accepted();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(pin: &str, attempt: Attempt) -> Given {
        Given {
            pin: Secret::new(pin.to_owned()),
            secret: "uid".to_owned(),
            again: String::new(),
            attempt,
        }
    }

    fn login() -> Login {
        Login::new(Some(given("1", Attempt::Ordered)), false)
    }

    #[test]
    fn a_pin_that_was_refused_is_not_tried_again_but_by_order() {
        let mut login = login();
        login.refused(PinProblem::Rejected);
        login.give(given("1", Attempt::Automatic));
        assert_eq!(login.next(), Err(PinProblem::Rejected));
        login.give(given("1", Attempt::Ordered));
        assert_eq!(login.next(), Ok(Attempt::Ordered));
        login.refused(PinProblem::Rejected);
        login.give(given("2", Attempt::Automatic));
        assert_eq!(login.next(), Ok(Attempt::Automatic));
        login.give(given("1", Attempt::Automatic));
        assert_eq!(login.next(), Err(PinProblem::Rejected));
        login.give(given("2", Attempt::Automatic));
        login.changed(Secret::new("1".to_owned()));
        login.give(given("2", Attempt::Automatic));
        login.give(given("1", Attempt::Automatic));
        assert_eq!(login.next(), Ok(Attempt::Automatic));
    }

    #[test]
    fn a_secret_that_was_made_anew_is_no_order_but_somebodys_word_is() {
        let mut login = login();
        let anew = |again: &str| Given {
            secret: "another".to_owned(),
            again: again.to_owned(),
            ..given("1", Attempt::Automatic)
        };
        login.refused(PinProblem::Rejected);
        login.give(anew(""));
        assert_eq!(login.next(), Err(PinProblem::Rejected));
        login.give(anew("word"));
        assert_eq!(login.next(), Ok(Attempt::Automatic));
        login.accepted();
        login.give(given("1", Attempt::Automatic));
        assert!(login.is_known_right());
    }

    #[test]
    fn where_there_is_a_record_that_counts_the_tries_without_an_answer() {
        let mut login = Login::new(Some(given("1", Attempt::Automatic)), true);
        for _ in 0..5 {
            login.unanswered();
            assert_eq!(login.next(), Ok(Attempt::Automatic));
        }
        // It also knows of a change that was interrupted.
        login.accepted();
        login.undecided();
        assert!(!login.is_known_right());
        assert_eq!(login.next(), Ok(Attempt::Automatic));
    }

    #[test]
    fn an_order_counts_for_one_try_and_two_without_an_answer_are_the_last() {
        let mut login = login();
        login.unanswered();
        assert_eq!(login.next(), Ok(Attempt::Automatic));
        login.unanswered();
        assert_eq!(login.next(), Err(PinProblem::Unanswered));
        login.undecided();
        assert_eq!(login.next(), Err(PinProblem::Undecided));
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

    #[test]
    fn the_pin_that_has_opened_the_token_is_known_until_another_does() {
        let mut login = login();
        login.accepted();
        login.give(given("2", Attempt::Automatic));
        assert_eq!(login.pin().expose(), "1");
        assert_eq!(
            login.no_longer_opens(PinProblem::Rejected).unwrap().pin.expose(),
            "1"
        );
        assert_eq!(login.next(), Ok(Attempt::Automatic));
        login.accepted();
        assert_eq!(login.pin().expose(), "2");
        login.no_longer_opens(PinProblem::Rejected).unwrap();
        assert_eq!(login.next(), Err(PinProblem::Rejected));
    }

    #[test]
    fn without_a_pin_nothing_is_tried_but_what_opened_the_token_is_kept() {
        let mut login = Login::new(None, false);
        assert_eq!(login.next(), Err(PinProblem::Missing));
        login.give(given("1", Attempt::Automatic));
        login.take_away();
        assert_eq!(login.next(), Err(PinProblem::Missing));
        login.give(given("1", Attempt::Automatic));
        login.accepted();
        login.take_away();
        assert_eq!(login.next(), Ok(Attempt::Automatic));
    }
}
