//! Keeps the token lists: what the tokens hold, as their agents list it, without values.
//!
//! Looks read [`TokenLists`]. [`Poller`] keeps them current: it asks each agent once in the shortest interval of all HSMSecrets,
//! and requeues the HSMSecrets whose location has changed. An agent that does not answer is asked again sooner, and its last list
//! counts until the agent was silent for [`PATIENCE`].

mod poller;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use trustplane_api::hsm::v1::{ReadSecretResponse, SecretEntry, SecretMetadata};
use trustplane_hsm_core::delivery::copies::{CopyState, TokenCopy, TokenView};
use trustplane_hsm_core::metadata::Metadata;
use trustplane_hsm_core::version::{Stamp, StampError};
use trustplane_plan::ObjectRef;

pub(crate) use poller::Poller;
pub(super) use poller::{refused, unreachable};

/// How long an agent may be silent until its token counts as away: a restart takes less.
pub(crate) const PATIENCE: Duration = Duration::from_secs(15);

/// A token that has or had an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KnownToken {
    /// Its name for people.
    pub name: String,
    /// Its HSMDevice.
    pub device: ObjectRef,
    /// Its agent.
    pub agent: ObjectRef,
}

/// One secret in the list of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ListedSecret {
    Held(Box<TokenCopy>),
    Deleted,
    Damaged(String),
}

/// What is known of one token.
#[derive(Debug)]
struct ListedToken {
    token: KnownToken,
    revision: String,
    /// Its last list, if its agent has ever answered.
    secrets: Option<BTreeMap<String, ListedSecret>>,
    /// When the last call began that has confirmed the list.
    confirmed: Option<Instant>,
    /// Since when its agent does not answer, and why.
    silent: Option<(Instant, String)>,
    /// When its agent is asked next.
    due: Instant,
    /// Whether a call is under way.
    asked: bool,
    /// How many calls in a row have failed.
    failures: u32,
    /// Whether the HSMSecrets were requeued because the token counts as away.
    told_away: bool,
}

impl ListedToken {
    fn new(token: KnownToken, now: Instant) -> Self {
        Self {
            token,
            revision: String::new(),
            secrets: None,
            confirmed: None,
            silent: None,
            due: now,
            asked: false,
            failures: 0,
            told_away: false,
        }
    }

    fn is_away(&self, now: Instant, patience: Duration) -> bool {
        let silent = self.silent.as_ref();
        silent.is_some_and(|(since, _)| now.duration_since(*since) >= patience)
    }

    /// What the token has at a path. A list that was last confirmed longer than `fresh` ago does not count.
    fn state(&self, path: &str, fresh: Duration, patience: Duration, now: Instant) -> CopyState {
        if let Some((_, why)) = self.silent.as_ref().filter(|_| self.is_away(now, patience)) {
            return CopyState::Away(why.clone());
        }
        let confirmed = self.confirmed.filter(|at| now.duration_since(*at) <= fresh);
        let (Some(secrets), Some(_)) = (&self.secrets, confirmed) else {
            return CopyState::Unasked;
        };
        match secrets.get(path) {
            None => CopyState::Absent { deleted: false },
            Some(ListedSecret::Deleted) => CopyState::Absent { deleted: true },
            Some(ListedSecret::Damaged(why)) => CopyState::Damaged(why.clone()),
            Some(ListedSecret::Held(copy)) => CopyState::Held(copy.clone()),
        }
    }
}

/// The lists of all tokens. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct TokenLists {
    shared: Arc<Mutex<Shared>>,
    wanted: Arc<Notify>,
    patience: Duration,
}

#[derive(Debug, Default)]
struct Shared {
    /// Whether the tokens are known.
    begun: bool,
    tokens: BTreeMap<ObjectRef, ListedToken>,
    /// Whether a look needs newer lists.
    refresh: bool,
}

impl TokenLists {
    pub fn new(patience: Duration) -> Self {
        Self {
            shared: Arc::default(),
            wanted: Arc::default(),
            patience,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What each known token has at a path, in the order of their names. A list that was not confirmed within `fresh` does not
    /// count: its agent has to be asked.
    pub fn at(&self, path: &str, fresh: Duration) -> Vec<TokenView> {
        let now = Instant::now();
        let shared = self.lock();
        if !shared.begun {
            return vec![unknown()];
        }
        let view = |listed: &ListedToken| TokenView {
            name: listed.token.name.clone(),
            device: listed.token.device.clone(),
            agent: listed.token.agent.clone(),
            state: listed.state(path, fresh, self.patience, now),
        };
        let mut views: Vec<_> = shared.tokens.values().map(view).collect();
        views.sort_by(|one, other| one.name.cmp(&other.name));
        views
    }

    /// Whether each token has a list that was asked for after this time, or counts as away.
    pub fn are_newer_than(&self, time: Instant) -> bool {
        let now = Instant::now();
        let is_newer = |token: &ListedToken| {
            token.confirmed.is_some_and(|asked| asked > time) || token.is_away(now, self.patience)
        };
        let shared = self.lock();
        shared.begun && shared.tokens.values().all(is_newer)
    }

    /// Has the poller ask for newer lists.
    pub fn refresh(&self) {
        self.lock().refresh = true;
        self.wanted.notify_one();
    }

    /// Corrects a list by what a read has shown, and has the poller ask for newer lists.
    pub fn learn(&self, agent: &ObjectRef, path: &str, listed: Option<TokenCopy>) {
        let mut shared = self.lock();
        if let Some(token) = shared.tokens.get_mut(agent) {
            // Without a revision the agent sends its next list whole.
            token.revision.clear();
            if let Some(secrets) = &mut token.secrets {
                match listed {
                    Some(copy) => drop(secrets.insert(path.to_owned(), ListedSecret::Held(Box::new(copy)))),
                    None => drop(secrets.remove(path)),
                }
            }
        }
        shared.refresh = true;
        self.wanted.notify_one();
    }
}

/// Stands for all tokens while they are not known.
fn unknown() -> TokenView {
    TokenView {
        name: String::new(),
        device: ObjectRef::new(None, ""),
        agent: ObjectRef::new(None, ""),
        state: CopyState::Unasked,
    }
}

/// The path of an entry in an agent's list, and what the entry says.
pub(super) fn listed(entry: SecretEntry) -> (String, ListedSecret) {
    let path = entry.path.clone();
    if !entry.fault.is_empty() {
        return (path, ListedSecret::Damaged(bounded(&entry.fault)));
    }
    if entry.deleted {
        return (path, ListedSecret::Deleted);
    }
    let listed = match metadata(entry.metadata.unwrap_or_default()) {
        Ok(metadata) => ListedSecret::Held(Box::new(TokenCopy {
            metadata,
            checksum: entry.checksum,
            digest: entry.digest,
            keys: entry.keys,
        })),
        Err(error) => ListedSecret::Damaged(error.to_string()),
    };
    (path, listed)
}

/// The copy that an agent's answer to a read describes.
pub(super) fn read(answer: &ReadSecretResponse) -> Result<TokenCopy, StampError> {
    let keys = answer.secret_data.as_ref().map_or(0, |data| data.data.len());
    Ok(TokenCopy {
        metadata: metadata(answer.metadata.clone().unwrap_or_default())?,
        checksum: answer.checksum.clone(),
        digest: answer.digest.clone(),
        keys: u32::try_from(keys).unwrap_or(u32::MAX),
    })
}

fn metadata(message: SecretMetadata) -> Result<Metadata, StampError> {
    let mut labels = message.labels.into_iter().collect();
    Ok(Metadata {
        stamp: Stamp::take(&mut labels)?,
        labels,
        description: message.description,
        format: message.format,
        data_type: message.data_type,
        created_at: message.created_at,
        source: message.source,
    })
}

/// The beginning of a text that an agent has sent, on one line.
pub(super) fn bounded(text: &str) -> String {
    let clean = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    clean.take(256).collect()
}

#[cfg(test)]
mod tests;
