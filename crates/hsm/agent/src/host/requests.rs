//! The requests, one method for each.

use std::collections::BTreeMap;

use trustplane_hsm_core::change::Terms;
use trustplane_hsm_core::generation::Generation;
use trustplane_hsm_core::limits::Limits;
use trustplane_hsm_core::path::{KeyName, SecretPath};
use trustplane_hsm_core::secret::{Secret, Value};
use trustplane_hsm_core::version::Stamp;
use trustplane_hsm_token::{Attempt, Capacity, TokenInfo};
use trustplane_process::secret::Secret as Hidden;

use crate::error::{AgentError, Effect};
use crate::frame::Message;
use crate::host::Host;
use crate::wire::{self, Entry, Failure, Left, Reply, Request};

/// Every path with what is to be said of its secret without values, or why it cannot be read.
pub type Listing = BTreeMap<SecretPath, Result<Entry, AgentError>>;

/// What a change has left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// Of the secret.
    pub entry: Entry,
    /// Of the token.
    pub left: Left,
}

/// All that is to be known of a token at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survey {
    /// Its secrets.
    pub listing: Listing,
    /// How much it holds.
    pub capacity: Capacity,
    /// How often we have changed it.
    pub generation: Generation,
}

impl Host {
    /// Reads a secret, which may be one that was deleted.
    pub async fn read(&self, path: &SecretPath) -> Result<Secret, AgentError> {
        let answer = self.ask(Request::Read { path: text(path) }).await?;
        match answer.head {
            Reply::Secret { keys, metadata } => {
                wire::put_together(keys, metadata, answer.secrets).map_err(plain)
            }
            _ => Err(senseless()),
        }
    }

    /// Has a path hold this secret and nothing else.
    pub async fn write(
        &self,
        path: &SecretPath,
        secret: Secret,
        terms: impl Into<Terms>,
    ) -> Result<Changed, AgentError> {
        let (keys, metadata, secrets) = wire::take_apart(secret);
        let head = Request::Write {
            path: text(path),
            keys,
            metadata,
            terms: terms.into(),
        };
        self.change(Message { head, secrets }).await
    }

    /// Deletes a secret, or one key of it. What is left of it has this stamp.
    pub async fn delete(
        &self,
        path: &SecretPath,
        key: Option<&KeyName>,
        stamp: Stamp,
        terms: impl Into<Terms>,
    ) -> Result<Changed, AgentError> {
        self.change(Request::Delete {
            path: text(path),
            key: key.map(|key| key.as_str().to_owned()),
            stamp,
            terms: terms.into(),
        })
        .await
    }

    /// Removes what is left of a secret that was deleted in this version, for a writer of this epoch.
    pub async fn purge(
        &self,
        path: &SecretPath,
        version: u64,
        epoch: Option<u64>,
    ) -> Result<Left, AgentError> {
        let path = text(path);
        let purge = Request::Purge { path, version, epoch };
        match self.ask(purge).await?.head {
            Reply::Changed { left, .. } => Ok(left),
            _ => Err(senseless()),
        }
    }

    /// All that is to be known of the token at one moment; every object is read anew before, if that is wanted.
    pub async fn survey(&self, anew: bool) -> Result<Survey, AgentError> {
        match self.ask(Request::Survey { anew }).await?.head {
            Reply::Survey {
                entries,
                capacity,
                generation,
            } => Ok(Survey {
                listing: listing(entries)?,
                capacity,
                generation,
            }),
            _ => Err(senseless()),
        }
    }

    /// Has the module initialised again, for those that do not see what others write. The PIN is the one that the token has
    /// accepted; if the token says that a wrong one was tried, nothing is done. Requests wait meanwhile.
    pub async fn renew(&self) -> Result<(), AgentError> {
        let limits = Limits::default();
        self.order(Request::Renew { limits }).await
    }

    /// The generation of the token: new after each change of ours.
    pub async fn generation(&self) -> Result<Generation, AgentError> {
        match self.ask(Request::Generation).await?.head {
            Reply::Generation(generation) => Ok(generation),
            _ => Err(senseless()),
        }
    }

    /// What the token says of itself now.
    pub async fn info(&self) -> Result<TokenInfo, AgentError> {
        match self.ask(Request::Info).await?.head {
            Reply::Found(info) => Ok(info),
            _ => Err(senseless()),
        }
    }

    /// What keeps the token from being served, by what it says now.
    pub(crate) async fn fault(&self) -> Option<AgentError> {
        let error = self.info().await.err()?;
        let is_serving = self.health().borrow().is_serving();
        (!is_served(&error, is_serving)).then_some(error)
    }

    /// Changes the user PIN, which the token is opened with from then on. The old one is tried by that, as by a login.
    pub async fn change_pin(
        &self,
        old: &Hidden<String>,
        new: &Hidden<String>,
        attempt: Attempt,
    ) -> Result<(), AgentError> {
        let secrets = [old, new].map(|pin| Value::new(pin.expose().as_bytes()));
        self.order(Message {
            head: Request::ChangePin { attempt },
            secrets: secrets.into(),
        })
        .await
    }

    async fn change(&self, request: impl Into<Message<Request>>) -> Result<Changed, AgentError> {
        match self.ask(request).await?.head {
            Reply::Changed {
                entry: Some(entry),
                left,
            } => Ok(Changed { entry, left }),
            _ => Err(senseless()),
        }
    }

    async fn order(&self, request: impl Into<Message<Request>>) -> Result<(), AgentError> {
        match self.ask(request).await?.head {
            Reply::Done => Ok(()),
            _ => Err(senseless()),
        }
    }
}

/// Whether a token that could not be asked is served all the same: so many wait for it, and it is not known to be gone.
fn is_served(error: &AgentError, is_serving: bool) -> bool {
    is_serving && *error == AgentError::Busy
}

fn listing(entries: Vec<(String, Result<Entry, Failure>)>) -> Result<Listing, AgentError> {
    let entry = |(path, entry): (String, Result<Entry, Failure>)| {
        Ok((wire::path(&path).map_err(plain)?, entry.map_err(plain)))
    };
    entries.into_iter().map(entry).collect()
}

fn text(path: &SecretPath) -> String {
    path.as_str().to_owned()
}

fn plain(failure: Failure) -> AgentError {
    failure.error(Effect::None)
}

fn senseless() -> AgentError {
    AgentError::unavailable("the module's process gave an answer that makes no sense")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_that_is_full_is_no_fault_of_a_token_that_is_served() {
        assert!(is_served(&AgentError::Busy, true));
        assert!(!is_served(&AgentError::Busy, false));
        assert!(!is_served(&senseless(), true));
    }
}
