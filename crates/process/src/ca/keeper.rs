//! Keeps one leaf fresh.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::CaError;
use super::authority::Authority;
use super::leaf::{Leaf, LeafRequest};
use super::meters::LeafMeters;
use crate::clock::{Clock, SystemClock};
use crate::metrics::Metrics;
use crate::tls::{Material, Reload};

/// The wall clock may be set, so it is looked at this often however far away the renewal is.
const LOOK: Duration = Duration::from_secs(60);
/// How soon to try again what failed. The old leaf has a third of its life left.
const RETRY: Duration = Duration::from_secs(10);

/// Renews a leaf after two thirds of its life, and hands it with the newest bundle to whoever uses them.
///
/// A leaf whose issuer has left the bundle is renewed at once: so also a replaced authority heals without a restart.
pub struct LeafKeeper {
    authority: watch::Receiver<Arc<Authority>>,
    request: LeafRequest,
    sinks: Vec<Arc<dyn Reload>>,
    clock: Arc<dyn Clock>,
    meters: Option<LeafMeters>,
    held: Option<Held>,
}

struct Held {
    leaf: Leaf,
    bundle: String,
}

impl LeafKeeper {
    /// A keeper that has not issued yet. The authority comes from whoever stores and steps it.
    pub fn new(
        authority: watch::Receiver<Arc<Authority>>,
        request: LeafRequest,
        sinks: Vec<Arc<dyn Reload>>,
    ) -> Self {
        Self {
            authority,
            request,
            sinks,
            clock: Arc::new(SystemClock),
            meters: None,
            held: None,
        }
    }

    /// Lives by another clock.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Reports when the leaf ends, under the name of the request: text from code, since it is a metric label.
    #[must_use]
    pub fn metrics(mut self, metrics: &Metrics) -> Self {
        self.meters = Some(LeafMeters::new(metrics, &self.request.name));
        self
    }

    /// Does what is due now, and says when something will be due again.
    pub fn tick(&mut self) -> Result<Timestamp, CaError> {
        let renewed = self.renew();
        if let (Err(_), Some(meters)) = (&renewed, &self.meters) {
            meters.failed();
        }
        renewed
    }

    fn renew(&mut self) -> Result<Timestamp, CaError> {
        let authority = self.authority.borrow_and_update().clone();
        let now = self.clock.now();
        let bundle = authority.bundle_pem();
        let fresh = |held: &Held| now < held.leaf.renew_at() && authority.vouches_for(&held.leaf);
        let leaf = match &self.held {
            Some(held) if fresh(held) && held.bundle == bundle => return Ok(held.leaf.renew_at()),
            Some(held) if fresh(held) => held.leaf.clone(),
            _ => {
                let leaf = authority.issue(&self.request, now)?;
                tracing::info!(name = self.request.name, expires = %leaf.expires(), "certificate issued");
                leaf
            }
        };
        let material = Material {
            identity: Some(leaf.certified_key()?),
            trust: authority.roots()?,
        };
        for sink in &self.sinks {
            sink.reload(&material)?;
        }
        if let Some(meters) = &self.meters {
            meters.expires(leaf.expires());
        }
        let again = leaf.renew_at();
        self.held = Some(Held { leaf, bundle });
        Ok(again)
    }

    /// Keeps the leaf fresh until `stop`.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut authority = self.authority.clone();
        loop {
            // Before the look, so that a change during it is not missed.
            authority.mark_unchanged();
            let wait = match self.tick() {
                Ok(again) => {
                    let left = again.duration_since(self.clock.now());
                    Duration::try_from(left).unwrap_or_default().min(LOOK)
                }
                Err(error) => {
                    tracing::warn!(name = self.request.name, %error, "certificate not renewed; the old one stays");
                    RETRY
                }
            };
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                // Without a sender the authority stays as it is, and leaves are still renewed.
                Ok(()) = authority.changed() => {}
                () = stop.cancelled() => return,
            }
        }
    }
}

impl std::fmt::Debug for LeafKeeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LeafKeeper")
            .field("request", &self.request)
            .finish_non_exhaustive()
    }
}
