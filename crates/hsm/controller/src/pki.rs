//! The CA of the capability: it signs for the manager and for agents, and for nothing else.

use std::future::Future;
use std::sync::Arc;

use jiff::SignedDuration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use trustplane_api::hsm::v1::MANAGER;
use trustplane_kit::admission::{AuthorityError, AuthorityOptions, SharedAuthority};
use trustplane_kit::manager::Workbench;
use trustplane_kit::rights::Rights;
use trustplane_kit::watch::Watches;
use trustplane_process::ca::{Authority, CaError, LeafKeeper, LeafRequest, Policy, Usage};
use trustplane_process::clock::Clock;
use trustplane_process::tls::{Material, ReloadingClientConfig, TlsError};

/// The Secret with the CA, as the original calls it. The installation makes it, empty.
pub(crate) const AUTHORITY: &str = "hsm-mtls-ca";
/// A CA lives at least so long. The certificates of agents are replaced as soon as another one signs.
const CA_LIFE: SignedDuration = SignedDuration::from_hours(24 * 365 * 3);
/// The manager writes a new bundle at once, and kubelets bring it to agents within minutes.
const PROPAGATION: SignedDuration = SignedDuration::from_hours(1);

/// How long the certificates of agents live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lives {
    /// From their issue to their end.
    pub leaf: SignedDuration,
    /// From their replacement to their end.
    pub renew_before: SignedDuration,
    /// How long a new bundle may take to reach every agent.
    pub propagation: SignedDuration,
}

impl Default for Lives {
    fn default() -> Self {
        Self {
            leaf: SignedDuration::from_hours(2160),
            renew_before: SignedDuration::from_hours(720),
            propagation: PROPAGATION,
        }
    }
}

impl Lives {
    /// The lives of a CA that leave room for its rotation.
    fn policy(self) -> Policy {
        let room = self.leaf.saturating_add(self.propagation.saturating_mul(4));
        Policy {
            ca_life: CA_LIFE.max(room.saturating_mul(3)),
            leaf_life: self.leaf,
            propagation: self.propagation,
        }
    }
}

/// There are no certificates.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PkiError {
    /// The CA cannot be read or kept.
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    /// The CA does not sign.
    #[error(transparent)]
    Issue(#[from] CaError),
    /// What it signed cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// The CA, and who the manager is to agents. Each replica has a certificate of its own, in memory.
pub(crate) struct Pki {
    /// Follows and rotates the CA; not in a rehearsal, which writes nothing.
    shared: Option<SharedAuthority>,
    authority: watch::Receiver<Arc<Authority>>,
    /// How the manager reaches agents.
    pub client: Arc<ReloadingClientConfig>,
    keeper: LeafKeeper,
}

impl Pki {
    /// What the CA needs on the API server.
    pub fn rights() -> Rights {
        SharedAuthority::rights(AUTHORITY)
    }

    /// Reads the CA, or makes it.
    pub async fn open(bench: &Workbench, lives: Lives, clock: Arc<dyn Clock>) -> Result<Self, PkiError> {
        let options = AuthorityOptions {
            policy: lives.policy(),
            clock: clock.clone(),
        };
        let home = (&*bench.namespace, AUTHORITY);
        if bench.dry_run {
            let authority = SharedAuthority::rehearse(&bench.clients, home, options).await?;
            let authority = watch::Sender::new(Arc::new(authority)).subscribe();
            return Self::with(None, authority, bench, clock);
        }
        let shared = SharedAuthority::open(&bench.clients, home, options, &bench.metrics).await?;
        let authority = shared.subscribe();
        Self::with(Some(shared), authority, bench, clock)
    }

    fn with(
        shared: Option<SharedAuthority>,
        authority: watch::Receiver<Arc<Authority>>,
        bench: &Workbench,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, PkiError> {
        let now = authority.borrow().clone();
        let nobody = Material {
            identity: None,
            trust: now.roots()?,
        };
        let client = ReloadingClientConfig::only_tls13(nobody, &["h2"], clock.clone())?;
        let mut keeper = LeafKeeper::new(authority.clone(), request(), vec![client.clone()])
            .clock(clock)
            .metrics(&bench.metrics);
        // The first certificate is there before the first call.
        keeper.tick()?;
        Ok(Self {
            shared,
            authority,
            client,
            keeper,
        })
    }

    /// The CA as it is now and as it changes.
    pub fn authority(&self) -> watch::Receiver<Arc<Authority>> {
        self.authority.clone()
    }

    /// Keeps the certificate of the manager fresh, and follows the CA, which the leader rotates.
    pub fn run(
        self,
        watches: &Watches,
        leading: watch::Receiver<bool>,
        stop: CancellationToken,
    ) -> impl Future<Output = ()> + Send + use<> {
        let Self { shared, keeper, .. } = self;
        let followed = shared.map(|shared| shared.run(watches, leading, stop.clone()));
        async move {
            let followed = async {
                match followed {
                    Some(followed) => followed.await,
                    None => stop.cancelled().await,
                }
            };
            tokio::join!(keeper.run(stop.clone()), followed);
        }
    }
}

/// Who the manager is.
fn request() -> LeafRequest {
    LeafRequest {
        name: MANAGER.to_owned(),
        dns: vec![MANAGER.to_owned()],
        usage: Usage::Client,
        // Only in memory, so that it costs nothing to replace it often.
        life: Some(SignedDuration::from_hours(24)),
        ..LeafRequest::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_life_of_a_leaf_leaves_room_for_a_rotation() {
        for hours in [1, 2160, 24 * 365 * 2, 24 * 365 * 20] {
            let lives = Lives {
                leaf: SignedDuration::from_hours(hours),
                ..Lives::default()
            };
            lives.policy().validate().unwrap();
        }
        assert_eq!(Lives::default().policy().ca_life, CA_LIFE);
    }
}
