//! What is done when the child does not answer, has ended, or has lost the token.

use std::time::Duration;

use trustplane_hsm_core::secret::Value;

use super::actor::{Actor, GRACE, Pause, Sent};
use super::process::Broken;
use crate::error::AgentError;
use crate::frame::{Message, encode};
use crate::health::{Health, Phase};
use crate::wire::{Failure, Reply, Request};

/// How a child ends that was not told to.
pub(super) enum End {
    /// It has not answered for so long.
    Hang(Duration),
    /// It has ended by itself, as the socket says.
    Crash(String),
}

impl Actor {
    /// Asks the child, and ends it if it does not answer.
    pub async fn ask(
        &mut self,
        request: &Message<Request>,
        within: Duration,
    ) -> Result<Message<Reply>, AgentError> {
        let renewal = matches!(request.head, Request::Renew { .. }).then(|| self.renewal());
        let (request, within) = match &renewal {
            Some(renewal) => (renewal, self.settings.opening),
            None => (request, within),
        };
        let bytes = encode(request).map_err(|error| AgentError::InvalidArgument(error.to_string()))?;
        let effect = request.head.effect();
        let Some(process) = &mut self.process else {
            return Err(self.excuse.clone());
        };
        let answer = process.ask(&bytes, within).await;
        self.heartbeat.beat();
        let end = match answer {
            Ok(Message { head, secrets }) => {
                self.note_interrupted(head.interrupted);
                let head = head.reply;
                let answer = Message { head, secrets };
                return Ok(match renewal.is_some() {
                    true => self.renewed(answer),
                    false => answer,
                });
            }
            Err(Broken::Late) => End::Hang(within),
            Err(Broken::Socket(error)) => End::Crash(error.to_string()),
        };
        let what = self.bury(&end).await;
        Err(match end {
            End::Hang(within) => AgentError::Deadline { within, effect },
            End::Crash(_) => AgentError::Unavailable { what, effect },
        })
    }

    /// The order to begin anew with a token that is open, with the PIN that has opened it.
    fn renewal(&self) -> Message<Request> {
        let limits = self.settings.limits;
        Message {
            head: Request::Renew { limits },
            secrets: vec![Value::new(self.login.pin().expose().as_bytes())],
        }
    }

    /// Remembers what became of the PIN. If the login failed the token is not open any more, and has to be opened as ever.
    fn renewed(&mut self, answer: Message<Reply>) -> Message<Reply> {
        let Reply::NotLoggedIn { failure, tried } = answer.head else {
            return answer;
        };
        self.note_renewal(tried, failure.kind);
        let lost = true;
        Reply::Failed(Failure { lost, ..failure }).into()
    }

    /// Ends the child for good, and says why.
    pub async fn bury(&mut self, end: &End) -> String {
        let status = match self.process.take() {
            Some(process) => process.kill(GRACE).await,
            None => None,
        };
        let what = match (end, status) {
            (End::Hang(within), _) => format!("the module did not answer within {within:?}"),
            (End::Crash(_), Some(status)) => format!("the module's process has ended ({status})"),
            (End::Crash(reason), None) => reason.clone(),
        };
        self.failures = self.failures.saturating_add(1);
        if let End::Hang(_) = end {
            self.hangs = self.hangs.saturating_add(1);
        }
        // What it hangs on is hung itself, if another child hangs on it as well.
        let wedged = matches!(end, End::Hang(_)) && self.hangs.is_multiple_of(2);
        self.excuse = AgentError::unavailable(what.clone());
        self.report(Phase::Unavailable, |health| {
            match end {
                End::Hang(_) => health.hangs += 1,
                End::Crash(_) => health.crashes += 1,
            }
            health.process = None;
            health.wedges += u64::from(wedged);
        });
        what
    }

    /// Tells of changes that were found interrupted, whenever they were.
    fn note_interrupted(&self, interrupted: Vec<String>) {
        if interrupted.is_empty() {
            return;
        }
        for change in &interrupted {
            tracing::warn!("{change}");
        }
        self.health.send_modify(|health| {
            health.recoveries += interrupted.len() as u64;
            health.interrupted = interrupted;
        });
    }

    /// The first time at once, and then later and later. A token that was served may be back any moment: as long as no PIN was
    /// sent, it is looked for as often as one that is gone.
    pub fn pause_to_start(&self) -> Pause {
        let pause = match self.failures {
            0 => self.settings.retry,
            1 => Duration::ZERO,
            more => self.settings.backoff.jittered(more - 2),
        };
        let is_look = self.token.is_some() && self.sent == Sent::No;
        Some(if is_look {
            pause.min(self.settings.retry)
        } else {
            pause
        })
    }

    /// The token is gone; it is looked for at once.
    pub fn lose(&mut self, failure: &Failure) -> Pause {
        self.misses = 0;
        self.excuse = AgentError::unavailable(failure.text.clone());
        self.report(Phase::Unavailable, |health| health.losses += 1);
        Some(Duration::ZERO)
    }

    /// Shows what is wrong, in one step with what else has changed.
    pub fn report(&self, phase: Phase, change: impl FnOnce(&mut Health)) {
        let fault = self.excuse.to_string();
        self.health.send_if_modified(|health| {
            let before = health.clone();
            change(health);
            health.phase = phase;
            if health.fault.as_ref() != Some(&fault) || before.phase != phase {
                tracing::warn!(fault, "the token is not served");
            }
            health.fault = Some(fault);
            *health != before
        });
    }
}
