//! The installation's CA, which all replicas share.

use std::{future::Future, sync::Arc, time::Duration};

use tokio::sync::{Mutex, watch};
use tokio_util::sync::CancellationToken;
use trustplane_plan::Expect;
use trustplane_process::{
    ca::{Authority, CaError, Policy},
    clock::{Clock, SystemClock},
    metrics::Metrics,
};

use super::kept::KeptSecret;
use crate::{
    apply::{WriteError, Writer},
    clients::Clients,
    rights::{Place, Rights},
    watch::{Change, Watches, is_older},
};

const MANAGER: &str = "trustplane-authority";
/// The name in the certificates.
const NAME: &str = "trustplane";
/// How often the leader looks whether a step of the rotation is due. A look at the clock costs nothing on the API server.
const DUE: Duration = Duration::from_secs(60);
/// How often a replica that starts meets another one that was faster, before it gives up.
const RACES: usize = 5;

/// The CA cannot be read or kept. No text in it holds a value of the Secret.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// The Secret cannot be read.
    #[error("failed to read the certificate authority from Secret {name}: {source}")]
    Read {
        /// The Secret.
        name: String,
        /// Why.
        source: WriteError,
    },
    /// The Secret cannot be written.
    #[error("failed to keep the certificate authority in Secret {name}: {source}")]
    Write {
        /// The Secret.
        name: String,
        /// Why.
        source: WriteError,
    },
    /// Others write the Secret all the time.
    #[error("failed to fill Secret {0}: it changed each time it was read")]
    Contended(String),
    /// The content of the Secret is not a CA of ours, or a step of it cannot be made.
    #[error("failed to use the certificate authority in Secret {name}: {source}")]
    Unusable {
        /// The Secret.
        name: String,
        /// Why.
        source: CaError,
    },
}

/// How a CA lives.
#[derive(Debug, Clone)]
pub struct AuthorityOptions {
    /// How long its certificates live.
    pub policy: Policy,
    /// Tells the date.
    pub clock: Arc<dyn Clock>,
}

impl Default for AuthorityOptions {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            clock: Arc::new(SystemClock),
        }
    }
}

/// The installation's CA. Each replica issues its own certificates from it; the leader rotates it. A cheap clone.
///
/// Every write names the version of the Secret that it replaces. So of two replicas that make the first CA one wins and the
/// other takes the winner's, and a step that lands late does nothing.
#[derive(Clone)]
pub struct SharedAuthority(Arc<Inner>);

struct Inner {
    kept: KeptSecret,
    /// Puts a CA where there is none that could sign: any replica may do that at any time.
    anyone: Writer,
    /// Changes a CA that works: the leader alone.
    leader: Writer,
    options: AuthorityOptions,
    /// The version of the Secret that `current` is. Whoever reads or writes the Secret holds it.
    seen: Mutex<Expect>,
    current: watch::Sender<Arc<Authority>>,
}

impl SharedAuthority {
    /// Reads the CA. Where there is none, or where it has expired and can no longer sign, it makes one: there is no trust
    /// that this could break, and waiting for a leader would not help a process that cannot serve.
    pub async fn open(
        clients: &Clients,
        (namespace, name): (&str, &str),
        options: AuthorityOptions,
        metrics: &Metrics,
    ) -> Result<Self, AuthorityError> {
        let kept = KeptSecret::new(clients.call.clone(), namespace, name);
        let anyone = Writer::new(clients.unfenced.clone(), MANAGER, metrics);
        let unusable = |source| AuthorityError::Unusable {
            name: name.to_owned(),
            source,
        };
        for _ in 0..RACES {
            let found = kept.read().await?;
            let now = options.clock.now();
            let stored = found
                .state
                .map(|state| Authority::resume(NAME, options.policy, state));
            let (authority, seen) = match stored.transpose().map_err(unusable)? {
                Some(stored) if stored.can_sign(now) => (stored, Some(found.seen)),
                stored => {
                    let made = match stored {
                        Some(expired) => expired.revive(now),
                        None => Authority::create(NAME, options.policy, now),
                    };
                    let made = made.map_err(unusable)?;
                    let written = kept.write(&anyone, &made, &found.seen).await?;
                    (made, written)
                }
            };
            if let Some(seen) = seen {
                return Ok(Self(Arc::new(Inner {
                    kept,
                    anyone,
                    leader: Writer::new(clients.call.clone(), MANAGER, metrics),
                    options,
                    seen: Mutex::new(seen),
                    current: watch::Sender::new(Arc::new(authority)),
                })));
            }
        }
        Err(AuthorityError::Contended(name.to_owned()))
    }

    /// The CA for a dry run, which writes nothing: where there is none that could sign, it has one of its own.
    pub async fn rehearse(
        clients: &Clients,
        (namespace, name): (&str, &str),
        options: AuthorityOptions,
    ) -> Result<Authority, AuthorityError> {
        let unusable = |source| AuthorityError::Unusable {
            name: name.to_owned(),
            source,
        };
        let kept = KeptSecret::new(clients.call.clone(), namespace, name);
        let (found, now) = (kept.read().await?, options.clock.now());
        let stored = found
            .state
            .map(|state| Authority::resume(NAME, options.policy, state));
        match stored.transpose().map_err(unusable)? {
            Some(stored) if stored.can_sign(now) => Ok(stored),
            _ => Authority::create(NAME, options.policy, now).map_err(unusable),
        }
    }

    /// What keeping the CA needs on the API server. The installation makes the Secret, empty, and removes it: so no right
    /// to create Secrets is needed, and nothing stays behind.
    pub fn rights(name: &str) -> Rights {
        let verbs = &["get", "list", "watch", "patch"];
        Rights::none().on_objects(Place::Home, "", &["secrets"], verbs, &[name])
    }

    /// The CA as it is now and as it changes.
    pub fn subscribe(&self) -> watch::Receiver<Arc<Authority>> {
        self.0.current.subscribe()
    }

    /// The CA as the Secret holds it now. If somebody has emptied the Secret, the CA that everybody trusts is still in
    /// memory, and is put back.
    pub async fn refresh(&self) -> Result<Arc<Authority>, AuthorityError> {
        let Inner { kept, anyone, .. } = &*self.0;
        let mut seen = self.0.seen.lock().await;
        let found = kept.read().await?;
        match found.state {
            Some(_) if found.seen == *seen => {}
            Some(state) => {
                let authority = Authority::resume(NAME, self.0.options.policy, state);
                self.take(authority.map_err(|source| self.unusable(source))?);
                *seen = found.seen;
            }
            None => {
                let current = self.0.current.borrow().clone();
                // Somebody else may have been faster; then it is theirs, and the next look takes it.
                if let Some(written) = kept.write(anyone, &current, &found.seen).await? {
                    tracing::warn!(
                        secret = kept.name(),
                        "the certificate authority was gone and is put back"
                    );
                    *seen = written;
                }
            }
        }
        Ok(self.0.current.borrow().clone())
    }

    /// Takes the step of the rotation that is due, if one is. Only a leader can: anybody else's write is held back.
    pub async fn rotate(&self) -> Result<(), AuthorityError> {
        let mut seen = self.0.seen.lock().await;
        let step = self.0.current.borrow().step(self.0.options.clock.now());
        let Some(next) = step.map_err(|source| self.unusable(source))?.next else {
            return Ok(());
        };
        // A write that came too late was another leader's turn: the next look takes theirs.
        if let Some(written) = self.0.kept.write(&self.0.leader, &next, &seen).await? {
            let secret = self.0.kept.name();
            tracing::info!(secret, "the certificate authority took a step of its rotation");
            *seen = written;
            self.take(next);
        }
        Ok(())
    }

    /// Follows the Secret by a watch of its metadata, and rotates the CA while this process leads. The Secret is read when its
    /// version is another one, and not at rest. A failure is tried again with the next look: there are months for it.
    pub fn run(
        self,
        watches: &Watches,
        mut leading: watch::Receiver<bool>,
        stop: CancellationToken,
    ) -> impl Future<Output = ()> + Send + use<> {
        let mut changes = watches.subscribe(self.0.kept.watched());
        let propagation = Duration::try_from(self.0.options.policy.propagation).unwrap_or_default();
        let pause = DUE.min(propagation / 4);
        async move {
            // What was read at the start may be old by now.
            let mut is_old = true;
            loop {
                let leads = *leading.borrow_and_update();
                match self.look(is_old, leads).await {
                    Ok(()) => is_old = false,
                    Err(error) => {
                        is_old = true;
                        tracing::warn!(%error, "will try again");
                    }
                }
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(pause) => {}
                    Ok(()) = leading.changed() => {}
                    Some(change) = changes.next() => is_old |= self.is_news(&change).await,
                }
            }
        }
    }

    async fn look(&self, is_old: bool, leads: bool) -> Result<(), AuthorityError> {
        if is_old {
            self.refresh().await?;
        }
        if leads {
            self.rotate().await?;
        }
        Ok(())
    }

    /// Whether the Secret has another version than the one that was read or written last. A watch that lags still shows
    /// versions from before that one, which are no news.
    async fn is_news(&self, change: &Change<()>) -> bool {
        let Change::Applied { object, .. } = change else {
            return true;
        };
        match &*self.0.seen.lock().await {
            Expect::Seen {
                uid,
                resource_version,
            } if *uid == object.meta.uid => {
                let now = &object.meta.resource_version;
                now != resource_version && !is_older(now, resource_version)
            }
            _ => true,
        }
    }

    fn take(&self, authority: Authority) {
        self.0.current.send_replace(Arc::new(authority));
    }

    fn unusable(&self, source: CaError) -> AuthorityError {
        AuthorityError::Unusable {
            name: self.0.kept.name().to_owned(),
            source,
        }
    }
}

impl std::fmt::Debug for SharedAuthority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedAuthority")
            .field("secret", &self.0.kept.name())
            .finish_non_exhaustive()
    }
}
