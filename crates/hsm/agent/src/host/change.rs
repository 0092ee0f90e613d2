//! A change of the PIN. The record knows of it before the token does, and knows how it has ended before whoever asked for it is
//! told: so that nobody who starts after that tries the old one.

use trustplane_hsm_core::pin_record::Exchanged;
use trustplane_hsm_token::Attempt;
use trustplane_process::secret::Secret;

use super::actor::{Actor, Pause};
use super::permit::outcome_of;
use crate::error::{AgentError, Effect, PinProblem};
use crate::frame::Message;
use crate::record::{Denial, Exchanging};
use crate::wire::{Reply, Request};

type Answer = Result<Message<Reply>, AgentError>;

/// The old PIN and the new one.
type Pins = [Secret<String>; 2];

impl Actor {
    /// Has the child change the PIN, and says whether it can serve another request.
    pub async fn change_pin(
        &mut self,
        request: &Message<Request>,
        attempt: Attempt,
    ) -> (Answer, Result<(), Pause>) {
        let pins = pins(request);
        if let Some([old, _]) = &pins
            && attempt == Attempt::Automatic
            && old != self.login.pin()
        {
            let text = "the old PIN is not the one that has opened the token, so it was not tried";
            return (Err(AgentError::FailedPrecondition(text.to_owned())), Ok(()));
        }
        let begun = match self.begin_change(pins.as_ref()).await {
            Ok(begun) => begun,
            Err(error) => return (Err(error), Ok(())),
        };
        let (answer, kept) = self.request(request).await;
        let end = self.pin_changed(pins, &answer);
        if let (Some(change), Some(end)) = (begun, end) {
            self.end_change(change, end).await;
        }
        (answer, kept)
    }

    /// Writes down that the PIN is about to be changed.
    async fn begin_change(&mut self, pins: Option<&Pins>) -> Result<Option<Exchanging>, AgentError> {
        let (Some(book), Some(token), Some([old, new])) = (&mut self.book, &self.token, pins) else {
            return Ok(None);
        };
        let secret = self.login.opened().map_or("", |opened| &opened.secret);
        let within = self.settings.deadline;
        let begun = book
            .begin_change((&token.serial, secret), [old, new], within)
            .await;
        begun.map(Some).map_err(|denial| match denial {
            Denial::Ledger(error) => AgentError::unavailable(format!("{error}, so the PIN is not changed")),
            _ => AgentError::Pin(PinProblem::TooMany),
        })
    }

    /// Knows which PIN it is after a change of it, unless nobody does.
    fn pin_changed(&mut self, pins: Option<Pins>, answer: &Answer) -> Option<Exchanged> {
        match (answer, pins) {
            (Ok(_), Some([_, new])) => {
                self.login.changed(new);
                Some(Exchanged::Done)
            }
            (Err(AgentError::Unavailable { effect, .. } | AgentError::Deadline { effect, .. }), _)
                if *effect == Effect::Unknown =>
            {
                self.login.undecided();
                None
            }
            (
                Err(AgentError::Pin(
                    problem @ (PinProblem::Rejected | PinProblem::Locked | PinProblem::Expired),
                )),
                Some([old, _]),
            ) => {
                if old == *self.login.pin() {
                    self.login.no_longer_opens(*problem);
                }
                Some(Exchanged::Refused(outcome_of(*problem)))
            }
            _ => Some(Exchanged::Undone),
        }
    }

    /// Writes down how it has ended. If that takes too long it is written later, before anything else is.
    async fn end_change(&mut self, change: Exchanging, end: Exchanged) {
        let Some(book) = &mut self.book else { return };
        book.end_change(change, end);
        if !book.written(self.settings.deadline).await {
            tracing::warn!(
                ?end,
                "how the change of the PIN has ended is not written down yet: the record says that it is under way"
            );
        }
    }
}

fn pins(request: &Message<Request>) -> Option<Pins> {
    let text = |at: usize| {
        let bytes = request.secrets.get(at)?.expose();
        let text = std::str::from_utf8(bytes).ok()?;
        Some(Secret::new(text.to_owned()))
    };
    Some([text(0)?, text(1)?])
}
