//! The installation's CA, kept in one Secret that all replicas share.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use serde_json::{Map, Value};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use trustplane_plan::{Apply, Conflicts, Expect, Kind, Manifest, Scope};
use trustplane_process::{
    ca::{Authority, AuthorityState, CaError, Policy},
    metrics::Metrics,
};

use crate::{
    apply::{WriteError, Writer},
    clients::Clients,
    rights::Rights,
};

const SECRET: Kind = Kind::new("", "v1", "Secret", "secrets", Scope::Namespaced);
const MANAGER: &str = "trustplane-authority";
/// How often the Secret is read. A new CA signs only after [`Policy::propagation`], which is far longer. Reading one
/// Secret by name needs less power than a watch would.
const POLL: Duration = Duration::from_secs(60);

/// The CA cannot be read or kept.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// The Secret cannot be read.
    #[error("failed to read the certificate authority from Secret {name}: {source}")]
    Read {
        /// The Secret.
        name: String,
        /// Why.
        source: Box<kube::Error>,
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
    #[error("failed to fill Secret {name}: it changed each time it was read")]
    Contended {
        /// The Secret.
        name: String,
    },
    /// The content of the Secret is not a CA of ours, or one cannot be made.
    #[error("failed to use the certificate authority in Secret {name}: {source}")]
    Authority {
        /// The Secret.
        name: String,
        /// Why.
        source: CaError,
    },
}

/// The installation's CA. Each replica issues its own certificates from it; the leader rotates it.
pub struct SharedAuthority {
    secrets: Api<Secret>,
    /// Fills the Secret where it is empty: any replica may do that at any time.
    anyone: Writer,
    /// Changes what is there: the leader alone.
    leader: Writer,
    namespace: String,
    name: String,
    policy: Policy,
    seen: Expect,
    current: watch::Sender<Arc<Authority>>,
}

impl SharedAuthority {
    /// Reads the CA, or makes it where there is none. Two replicas that start at once end up with the same one.
    pub async fn open(
        clients: &Clients,
        (namespace, name): (&str, &str),
        policy: Policy,
        metrics: &Metrics,
    ) -> Result<Self, AuthorityError> {
        let failed = |source| AuthorityError::Authority {
            name: name.to_owned(),
            source,
        };
        let fresh = Authority::create("trustplane", policy, Timestamp::now()).map_err(failed)?;
        let mut shared = Self {
            secrets: Api::namespaced(clients.call.clone(), namespace),
            anyone: Writer::new(clients.unfenced.clone(), MANAGER, metrics),
            leader: Writer::new(clients.call.clone(), MANAGER, metrics),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            policy,
            seen: Expect::Absent,
            current: watch::Sender::new(Arc::new(fresh)),
        };
        // Whoever is second to fill the Secret reads what the first wrote.
        if !shared.read().await? && !shared.fill().await? && !shared.read().await? {
            return Err(AuthorityError::Contended {
                name: name.to_owned(),
            });
        }
        Ok(shared)
    }

    /// What keeping the CA needs on the API server. The installation makes the Secret, empty, and removes it: so no right
    /// to create Secrets is needed, and nothing stays behind.
    pub fn rights(name: &str) -> Rights {
        Rights::none().on_objects_at_home("", &["secrets"], &["get", "patch"], &[name])
    }

    /// The CA as it is now and as it changes.
    pub fn subscribe(&self) -> watch::Receiver<Arc<Authority>> {
        self.current.subscribe()
    }

    /// Follows the Secret, and rotates the CA while this process leads. A failure is tried again with the next look:
    /// there are months for it.
    pub async fn run(mut self, leading: watch::Receiver<bool>, stop: CancellationToken) {
        loop {
            let leads = *leading.borrow();
            if let Err(error) = self.look(leads).await {
                tracing::warn!(%error, "will try again");
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(POLL) => {}
            }
        }
    }

    async fn look(&mut self, leads: bool) -> Result<(), AuthorityError> {
        // Somebody emptied the Secret, or made it anew: the CA that everybody trusts is still in memory.
        if !self.read().await? {
            self.fill().await?;
        }
        if leads {
            self.rotate(Timestamp::now()).await?;
        }
        Ok(())
    }

    async fn rotate(&mut self, now: Timestamp) -> Result<(), AuthorityError> {
        let step = self
            .current
            .borrow()
            .step(now)
            .map_err(|source| self.unusable(source))?;
        let Some(next) = step.next else { return Ok(()) };
        let written = self
            .leader
            .apply(&self.wish(&next))
            .await
            .map_err(|source| self.refused(source))?;
        tracing::info!(
            secret = self.name,
            "the certificate authority took a step of its rotation"
        );
        self.seen = Expect::Seen {
            uid: written.uid,
            resource_version: written.resource_version,
        };
        self.current.send_replace(Arc::new(next));
        Ok(())
    }

    /// Whether the Secret holds a CA, which becomes the current one.
    async fn read(&mut self) -> Result<bool, AuthorityError> {
        let unread = |error| AuthorityError::Read {
            name: self.name.clone(),
            source: Box::new(error),
        };
        let secret = self.secrets.get(&self.name).await.map_err(unread)?;
        let data = secret.data.unwrap_or_default();
        let seen = Expect::Seen {
            uid: secret.metadata.uid.unwrap_or_default().into(),
            resource_version: secret.metadata.resource_version.unwrap_or_default().into(),
        };
        if data.is_empty() || seen == self.seen {
            self.seen = seen;
            return Ok(!data.is_empty());
        }
        let data: BTreeMap<_, _> = data.into_iter().map(|(key, value)| (key, value.0)).collect();
        let authority = AuthorityState::from_data(&data)
            .and_then(|state| Authority::resume("trustplane", self.policy, state))
            .map_err(|source| self.unusable(source))?;
        self.seen = seen;
        self.current.send_replace(Arc::new(authority));
        Ok(true)
    }

    /// Puts the CA in memory into the Secret. Whether we did it; if not, somebody else was faster.
    async fn fill(&mut self) -> Result<bool, AuthorityError> {
        let wish = self.wish(&self.current.borrow());
        match self.anyone.apply(&wish).await {
            Ok(written) => {
                self.seen = Expect::Seen {
                    uid: written.uid,
                    resource_version: written.resource_version,
                };
                Ok(true)
            }
            Err(error) if error.is_stale() => Ok(false),
            Err(error) => Err(self.refused(error)),
        }
    }

    fn wish(&self, authority: &Authority) -> Apply {
        let data = authority.state().to_data().into_iter();
        let data: Map<_, _> = data
            .map(|(key, value)| (key, Value::from(STANDARD.encode(value.expose()))))
            .collect();
        Apply {
            manifest: Manifest::new(SECRET, Some(&self.namespace), &self.name)
                .with("data", Value::Object(data)),
            expect: self.seen.clone(),
            conflicts: Conflicts::Force,
        }
    }

    fn refused(&self, source: WriteError) -> AuthorityError {
        AuthorityError::Write {
            name: self.name.clone(),
            source,
        }
    }

    fn unusable(&self, source: CaError) -> AuthorityError {
        AuthorityError::Authority {
            name: self.name.clone(),
            source,
        }
    }
}
