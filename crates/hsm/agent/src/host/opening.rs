//! From a child to a token that serves: found by what it is, and then opened with the PIN if that may be tried.

use std::time::Duration;

use tokio::time::Instant;
use trustplane_api::hsm::record::Outcome;
use trustplane_hsm_core::secret::Value;
use trustplane_hsm_token::TokenInfo;
use trustplane_process::backoff::Backoff;

use super::actor::{Actor, Pause, Sent};
use super::permit::{Permit, outcome_of};
use super::process::Process;
use crate::child::same;
use crate::error::{AgentError, Effect, PinProblem};
use crate::frame::Message;
use crate::health::Phase;
use crate::wire::{Failure, Kind, Reply, Request, Search, Tried, Wanted};

impl Actor {
    /// Opens the token, or says when to try again.
    pub async fn open(&mut self) -> Result<(), Pause> {
        let attempt = match self.login.next() {
            Ok(attempt) => attempt,
            // Nobody has said yet whether there is one.
            Err(PinProblem::Missing) if self.missing.is_none() => return Err(None),
            Err(problem) => return Err(self.refuse(problem)),
        };
        self.sent = Sent::No;
        self.start()?;
        let token = self.find_or_provision().await?;
        let permit = self.permit(&token, attempt).await?;
        self.log_in(&token, permit).await?;
        // It has accepted the PIN: no other one is ours, and none is made ours any more.
        self.token = Some(token.clone());
        self.provision = None;
        let (limits, begun) = (self.settings.limits, Instant::now());
        match self.ask_to_open(&Request::Serve { limits }.into()).await?.head {
            Reply::Done => self.serving(token, begun),
            Reply::Failed(failure) => return Err(self.miss(failure)),
            _ => return Err(self.miss(senseless())),
        }
        Ok(())
    }

    /// Lets go of a token that could not be opened: what we do not serve others may look at.
    pub async fn let_go(&mut self) {
        if self.process.is_some() {
            // A child that does not answer is ended by that, and holds nothing any more.
            drop(self.ask_to_open(&Request::LetGo.into()).await);
        }
    }

    /// Where this token is looked for, and where it is held.
    pub(super) fn search(&self, wanted: Wanted) -> Search {
        Search {
            module: self.settings.module.clone(),
            wanted,
            runtime: self.settings.runtime.clone(),
        }
    }

    pub(super) async fn find(&mut self) -> Result<TokenInfo, Pause> {
        let wanted = self.wanted();
        let find = Request::Find(self.search(wanted.clone()));
        let mut answer = self.ask_to_open(&find.into()).await?.head;
        if is_ambiguous(&answer)
            && let Some(known) = self.recorded(wanted).await
        {
            let find = Request::Find(self.search(known));
            answer = self.ask_to_open(&find.into()).await?.head;
        }
        let found = match answer {
            Reply::Found(found) => found,
            Reply::Failed(failure) => return Err(self.miss(failure)),
            _ => return Err(self.miss(senseless())),
        };
        match &self.token {
            Some(token) if !same(token, &found) => {
                let text = format!("another token is there: {found}");
                Err(self.miss(Failure::new(Kind::Unavailable, text)))
            }
            _ => Ok(found),
        }
    }

    /// Tries the PIN, and remembers what came of it.
    async fn log_in(&mut self, token: &TokenInfo, permit: Permit) -> Result<(), Pause> {
        let pin = self
            .login
            .given()
            .map(|given| Value::new(given.pin.expose().as_bytes()));
        let log_in = Message {
            head: Request::LogIn {
                attempt: permit.attempt,
            },
            secrets: pin.into_iter().collect(),
        };
        self.use_up(&permit)?;
        self.sent = Sent::Yes;
        let answer = self.ask_to_open(&log_in).await;
        // The child may have tried it, and nobody will ever know.
        let answer = answer.inspect_err(|_| self.login.unanswered())?;
        let (failure, tried) = match answer.head {
            Reply::Done => {
                self.sent = Sent::Accepted;
                self.login.accepted();
                self.note(token, permit, Outcome::Accepted);
                return Ok(());
            }
            Reply::NotLoggedIn { failure, tried } => (failure, tried),
            _ => (senseless(), Tried::Unanswered),
        };
        match (tried, failure.kind) {
            (Tried::No, _) => {
                self.sent = Sent::No;
                self.note(token, permit, Outcome::Withdrawn);
            }
            (Tried::Refused, Kind::Pin(problem)) => {
                self.login.refused(problem);
                self.note(token, permit, outcome_of(problem));
            }
            _ => self.login.unanswered(),
        }
        Err(match failure.kind {
            Kind::Pin(problem) => self.refuse(problem),
            _ => self.miss(failure),
        })
    }

    fn start(&mut self) -> Result<(), Pause> {
        if self.process.is_some() {
            return Ok(());
        }
        match Process::start(&self.settings.program) {
            Ok(process) => {
                self.health.send_modify(|health| {
                    health.starts += 1;
                    health.process = process.id();
                });
                self.process = Some(process);
                Ok(())
            }
            Err(error) => {
                let program = self.settings.program.path.display();
                self.excuse = AgentError::unavailable(format!("start {program}: {error}"));
                self.report(Phase::Unavailable, |_| {});
                Err(self.pause_to_start())
            }
        }
    }

    /// The token that was served before, or else the one that is wanted.
    fn wanted(&self) -> Wanted {
        match &self.token {
            Some(token) => Wanted {
                serial: Some(token.serial.clone()),
                label: Some(token.label.clone()),
                ..self.settings.wanted.clone()
            },
            None => self.settings.wanted.clone(),
        }
    }

    /// What is wanted, with the serial number of the token that this agent has served before: that tells it from others with the
    /// same label.
    async fn recorded(&self, wanted: Wanted) -> Option<Wanted> {
        let book = self.book.as_ref().filter(|_| wanted.serial.is_none())?;
        let serial = Some(book.known_serial().await?);
        Some(Wanted { serial, ..wanted })
    }

    pub(super) async fn ask_to_open(&mut self, request: &Message<Request>) -> Result<Message<Reply>, Pause> {
        let answer = self.ask(request, self.settings.opening).await;
        answer.map_err(|_| self.pause_to_start())
    }

    fn serving(&mut self, token: TokenInfo, begun: Instant) {
        self.misses = 0;
        self.look = Instant::now() + self.settings.probe;
        tracing::info!(serial = token.serial, label = token.label, "the token is served");
        self.health.send_modify(|health| {
            health.phase = Phase::Serving;
            health.provisioning = None;
            health.token = Some(token);
            health.opened = Some(begun);
        });
    }

    /// The token cannot be opened now.
    pub(super) fn miss(&mut self, failure: Failure) -> Pause {
        let kind = failure.kind;
        self.excuse = failure.error(Effect::None);
        self.report(Phase::Unavailable, |_| {});
        Some(match kind {
            // It may be back any moment, or let go.
            Kind::Unavailable | Kind::Held => self.settings.retry,
            _ => self.pause_to_look(),
        })
    }

    /// When to look again at a token that is there and cannot be opened. One that was served may be on its way back, so that is
    /// soon, and then later and later; but not if it is a PIN that would be sent again without an answer to the last one.
    fn pause_to_look(&mut self) -> Duration {
        let (first, max) = (self.settings.retry, self.settings.backoff.max);
        if self.token.is_none() || self.sent == Sent::Yes {
            return max;
        }
        let pause = Backoff { first, max }.ceiling(self.misses);
        self.misses = self.misses.saturating_add(1);
        pause
    }

    /// The PIN does not open the token.
    pub(super) fn refuse(&mut self, problem: PinProblem) -> Pause {
        self.excuse = match (problem, &self.missing) {
            (PinProblem::Missing, Some(why)) => AgentError::FailedPrecondition(why.clone()),
            _ => AgentError::Pin(problem),
        };
        self.report(Phase::PinRefused(problem), |_| {});
        // Nothing is tried by looking whether the token says otherwise by now.
        problem.may_pass().then(|| self.pause_to_look())
    }
}

/// Whether more than one token is what is wanted.
fn is_ambiguous(answer: &Reply) -> bool {
    matches!(answer, Reply::Failed(failure) if failure.kind == Kind::FailedPrecondition)
}

pub(super) fn senseless() -> Failure {
    Failure::new(
        Kind::Unavailable,
        "the module's process gave an answer that makes no sense",
    )
}

#[cfg(test)]
mod tests {
    use tokio::sync::watch;

    use super::super::Settings;
    use super::super::login::Login;
    use super::*;
    use crate::health::Health;
    use crate::hold::tests::token;
    use crate::host::Program;

    const MAX: Duration = Duration::from_secs(30);

    fn actor(served: bool) -> Actor {
        let settings = Settings::new(Program::default(), "/nowhere".into(), Wanted::default());
        let mut actor = Actor::new(
            settings,
            Login::new(None, false),
            watch::Sender::new(Health::default()),
        );
        actor.token = served.then(|| token("1", "a"));
        actor
    }

    fn full() -> Failure {
        Failure::new(Kind::ResourceExhausted, "full")
    }

    #[test]
    fn a_token_that_was_served_is_looked_at_soon_and_then_later_and_later() {
        let mut actor = actor(true);
        let seconds = |pause: Pause| pause.unwrap().as_secs();
        for wanted in [1, 2, 4, 8, 16, 30, 30] {
            assert_eq!(seconds(actor.miss(full())), wanted);
        }
        actor.lose(&full());
        assert_eq!(seconds(actor.miss(full())), 1);
        assert_eq!(seconds(actor.refuse(PinProblem::TriesLow)), 2);
        actor.serving(token("1", "a"), Instant::now());
        assert_eq!(seconds(actor.refuse(PinProblem::TriesLow)), 1);
        // Nothing but another PIN helps.
        assert_eq!(actor.refuse(PinProblem::Rejected), None);
    }

    #[test]
    fn one_that_was_never_served_is_not_and_neither_is_a_pin_sent_sooner() {
        let mut never = actor(false);
        for _ in 0..3 {
            assert_eq!(never.miss(full()), Some(MAX));
            assert_eq!(never.refuse(PinProblem::NotSet), Some(MAX));
        }
        let mut served = actor(true);
        served.sent = Sent::Yes;
        assert_eq!(served.miss(full()), Some(MAX));
        served.sent = Sent::Accepted;
        assert!(served.miss(full()) < Some(MAX));
        (served.settings.retry, served.failures) = (Duration::ZERO, 20);
        assert!(served.pause_to_start() > Some(Duration::ZERO));
        served.sent = Sent::No;
        assert_eq!(served.pause_to_start(), Some(Duration::ZERO));
    }
}
