//! The pass: once in an interval, for all secrets together.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use trustplane_hsm_core::module::is_opensc;

use super::Catalogue;
use crate::error::AgentError;
use crate::health::Health;
use crate::host::Host;

/// Whether the module has to be initialised again to see what others have written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewal {
    /// It sees it by itself.
    Never,
    /// It keeps what it has seen once, as OpenSC does.
    EachPass,
}

impl Renewal {
    /// What suits a module, by its name.
    pub fn of(module: &Path) -> Self {
        match is_opensc(module) {
            true => Self::EachPass,
            false => Self::Never,
        }
    }
}

/// How passes are made.
#[derive(Debug, Clone, Copy)]
pub struct Passes {
    /// How often.
    pub every: Duration,
    /// Whether the module has to be initialised again for one.
    pub renewal: Renewal,
    /// Whether nobody but us writes to the token, so that its generation tells whether there is anything new.
    pub exclusive: bool,
}

impl Catalogue {
    /// Makes passes until the end.
    pub async fn run(self: Arc<Self>, host: Arc<Host>, stop: CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.follow(&host) => {}
        }
    }

    async fn follow(&self, host: &Host) {
        let mut health = host.health();
        loop {
            if health.wait_for(Health::is_serving).await.is_err() {
                return;
            }
            // It was read when it was opened.
            self.note(self.survey(host, false).await);
            tokio::select! {
                biased;
                ended = health.wait_for(|health| !health.is_serving()) => {
                    // Nobody knows what is done to a token that is not here.
                    self.forget();
                    if ended.is_err() {
                        return;
                    }
                }
                () = self.repeat(host) => {}
            }
        }
    }

    async fn repeat(&self, host: &Host) {
        let mut tried = Instant::now();
        loop {
            // A client may have wanted a pass meanwhile: the next one is due an interval after it.
            let last = self.as_of().map_or(tried, |as_of| as_of.max(tried));
            tokio::select! {
                () = tokio::time::sleep_until(last + self.passes.every) => {
                    tried = Instant::now();
                    self.note(self.pass(host, tried - self.passes.every).await);
                }
                () = self.wanted.notified() => self.note(self.survey(host, true).await),
            }
        }
    }

    /// One pass, unless one was begun after this time: callers that wait for the turn share a pass.
    pub(super) async fn pass(&self, host: &Host, since: Instant) -> Result<(), AgentError> {
        let _turn = self.turn.lock().await;
        if self.as_of().is_some_and(|as_of| as_of > since) {
            return Ok(());
        }
        let begun = Instant::now();
        if self.passes.exclusive {
            let generation = host.generation().await?;
            return match self.confirm(generation, begun) {
                true => Ok(()),
                false => self.survey_in_turn(host, true, begun).await,
            };
        }
        // A module that cannot be initialised again without risk for the PIN is read as it is.
        if self.passes.renewal == Renewal::EachPass {
            match host.renew().await {
                // It has read everything by that.
                Ok(()) => return self.survey_in_turn(host, false, begun).await,
                Err(error @ AgentError::FailedPrecondition(_)) => {
                    tracing::warn!(%error, "writes of other tools are not seen");
                }
                Err(error) => return Err(error),
            }
        }
        self.survey_in_turn(host, true, begun).await
    }

    fn note(&self, outcome: Result<(), AgentError>) {
        if let Err(error) = outcome {
            tracing::warn!(%error, "the token could not be looked through");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opensc_is_known_by_its_name() {
        let of = |path: &str| Renewal::of(Path::new(path));
        assert_eq!(
            of("/usr/lib/x86_64-linux-gnu/opensc-pkcs11.so"),
            Renewal::EachPass
        );
        assert_eq!(of("/usr/lib/opensc/libsofthsm2.so"), Renewal::Never);
    }
}
