//! How an agent is doing, in the record's words; written when it changes, and only then.

use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::watch;
use trustplane_api::hsm::record::{AgentPhase, AgentState, Record};
use trustplane_process::backoff::Backoff;

use super::ledger::{Change, Ledger, LedgerError};
use crate::error::PinProblem;
use crate::health::{Health, Phase, Provisioning};

/// The word and the sentence for a health.
pub fn state_of(health: &Health) -> (AgentPhase, String) {
    let fault = || health.fault.clone().unwrap_or_default();
    let provisioning = match (&health.provisioning, health.phase) {
        (
            Some(Provisioning::SoPinWanted),
            Phase::Opening | Phase::Unavailable | Phase::PinRefused(PinProblem::NotSet),
        ) => Some((
            AgentPhase::SoPinWanted,
            "a blank token was found; it is set up as soon as the manager has made an SO-PIN for it"
                .to_owned(),
        )),
        (Some(Provisioning::Running), _) => Some((
            AgentPhase::Provisioning,
            "a blank token is being set up".to_owned(),
        )),
        (Some(Provisioning::Done), Phase::Opening | Phase::Unavailable) => {
            Some((AgentPhase::Provisioned, "a blank token was set up".to_owned()))
        }
        (Some(Provisioning::Skipped(why)), Phase::Opening | Phase::Unavailable) => {
            Some((AgentPhase::ProvisionSkipped, format!("{why}; {}", fault())))
        }
        (Some(Provisioning::Failed(why)), Phase::Opening | Phase::Unavailable) => {
            Some((AgentPhase::ProvisionFailed, why.clone()))
        }
        _ => None,
    };
    if let Some(state) = provisioning {
        return state;
    }
    match health.phase {
        Phase::Opening => (AgentPhase::Opening, String::new()),
        Phase::Serving => {
            let token = health.token.as_ref();
            let message = token.map(|token| format!("label {:?}, serial {:?}", token.label, token.serial));
            (AgentPhase::Serving, message.unwrap_or_default())
        }
        Phase::Unavailable => (AgentPhase::Unavailable, fault()),
        Phase::PinRefused(problem) => (phase_of(problem), fault()),
        Phase::Ended => (AgentPhase::Ended, String::new()),
    }
}

fn phase_of(problem: PinProblem) -> AgentPhase {
    match problem {
        PinProblem::Rejected | PinProblem::TooMany => AgentPhase::PinRejected,
        PinProblem::Locked => AgentPhase::PinLocked,
        PinProblem::Expired => AgentPhase::PinExpired,
        PinProblem::Form => AgentPhase::PinInvalid,
        PinProblem::NotSet => AgentPhase::PinNotSet,
        PinProblem::TriesLow => AgentPhase::PinLow,
        PinProblem::Unanswered | PinProblem::Undecided => AgentPhase::PinUnanswered,
        PinProblem::Missing => AgentPhase::PinMissing,
        PinProblem::KeyLost => AgentPhase::PinKeyLost,
    }
}

/// Writes the state down whenever it changes, until the agent ends. The agent is that of a pod: once another pod has written,
/// this one is over, and whatever it still says counts no more.
pub async fn report(ledger: Arc<dyn Ledger>, mut health: watch::Receiver<Health>, pod: String) {
    let backoff = Backoff::default();
    let mut failures = 0;
    let mut pen = Pen { pod, wrote: false };
    let mut written = None;
    loop {
        let (phase, message) = state_of(&health.borrow_and_update());
        if phase == AgentPhase::Ended {
            return;
        }
        let wanted = Some((phase, message.clone()));
        let stored = match written == wanted {
            true => Ok(()),
            false => pen.write(&*ledger, phase, message).await,
        };
        let changed = match stored {
            Ok(()) => {
                (written, failures) = (wanted, 0);
                health.changed().await
            }
            // Others write their own parts: it is read again at once.
            Err(LedgerError::Conflict) => Ok(()),
            Err(error) => {
                tracing::warn!(%error, "the agent's state is not written down yet");
                let pause = tokio::time::sleep(backoff.jittered(failures));
                failures = failures.saturating_add(1);
                tokio::select! {
                    () = pause => Ok(()),
                    changed = health.changed() => changed,
                }
            }
        };
        if changed.is_err() {
            return;
        }
    }
}

/// What a pod writes its state with.
struct Pen {
    pod: String,
    /// Whether it has written before: then whoever else has written since is its successor.
    wrote: bool,
}

impl Pen {
    async fn write(
        &mut self,
        ledger: &dyn Ledger,
        phase: AgentPhase,
        message: String,
    ) -> Result<(), LedgerError> {
        let loaded = ledger.load().await?;
        if let Some(known) = &loaded.record.state {
            let is_ours = known.by == self.pod;
            self.wrote |= is_ours;
            if self.wrote && !is_ours {
                tracing::info!(?phase, "another pod has the record, so this state is not written");
                return Ok(());
            }
            if self.says_as_much(known, phase, &message) {
                return Ok(());
            }
        }
        let state = Some(AgentState {
            phase,
            message,
            since: Timestamp::now(),
            by: self.pod.clone(),
        });
        let record = Record {
            state,
            ..Record::default()
        };
        // Only in the place of what was read: a successor may be writing now.
        let change = Change {
            version: Some(loaded.version),
            data: record.data(),
        };
        ledger.store(change).await?;
        self.wrote = true;
        Ok(())
    }

    /// Whether nothing has to be written: it stands there, or what stands there says more than that we have begun.
    fn says_as_much(&self, known: &AgentState, phase: AgentPhase, message: &str) -> bool {
        let is_trouble = !matches!(known.phase, AgentPhase::Serving | AgentPhase::Provisioned);
        let same = known.phase == phase && known.message == message;
        same && (is_trouble || known.by == self.pod) || phase == AgentPhase::Opening && is_trouble
    }
}
