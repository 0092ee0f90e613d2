//! Offering tokens to kubelet: one resource for the type, and one for each token.
//!
//! A pod that requests the resource of a type gets any token of it; an agent requests the resource of its own token. Behind each
//! resource is a socket in kubelet's directory. Where two of our processes on a node want the same one, a lock decides who serves
//! it, and the other takes over when that one ends. Whoever serves a type offers the tokens of all: each process puts its own into a
//! file beside the lock.

mod claim;
mod endpoint;
mod offer;
mod service;
mod share;
mod wake;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use trustplane_process::backoff::Backoff;

use crate::metrics::Counts;
use crate::watch::Picture;
use endpoint::Endpoint;
pub use offer::Offer;
use offer::{by_token, offers};
use share::Share;
use wake::Woken;

/// How kubelet is reached, and what is offered to it.
#[derive(Debug, Clone)]
pub struct Plugin {
    /// Kubelet's directory for plugins.
    pub dir: PathBuf,
    /// Where the node has its device files: kubelet opens them there.
    pub dev: String,
    /// The resource of the type.
    pub resource: String,
    /// The name of the node.
    pub node: String,
    /// Who we are among all processes on this node, as a file name.
    pub owner: String,
    /// How often sockets, locks and files of others are looked at, if nothing wakes us.
    pub check: Duration,
    /// How long to wait after a failure.
    pub backoff: Backoff,
    /// Counts what happens.
    pub counts: Counts,
}

/// A resource that is being offered.
struct Offered {
    offers: watch::Sender<Vec<Offer>>,
    stop: CancellationToken,
}

impl Plugin {
    /// How often to look if nobody says otherwise.
    pub const CHECK: Duration = Duration::from_secs(2);

    /// Offers what there is until it is told to stop; then all sockets are gone.
    pub async fn run(self, mut picture: watch::Receiver<Picture>, stop: CancellationToken) {
        let mut tasks = JoinSet::new();
        let wake = wake::start(&self.dir, &mut tasks, &stop);
        let own = self.offer_type(&wake, &mut tasks, &stop);
        let mut tokens: BTreeMap<String, Offered> = BTreeMap::new();
        loop {
            let devices = picture.borrow_and_update().devices.clone();
            put(&own, offers(&self.node, &devices));
            let wanted = by_token(&self.node, &devices);
            tokens.retain(|resource, offered| {
                let stays = wanted.contains_key(resource);
                if !stays {
                    offered.stop.cancel();
                }
                stays
            });
            for (resource, offers) in wanted {
                match tokens.get(&resource) {
                    Some(offered) => put(&offered.offers, offers),
                    None => {
                        let offered = self.offer(&resource, offers, &wake, &mut tasks, &stop);
                        tokens.insert(resource, offered);
                    }
                }
            }
            while tasks.try_join_next().is_some() {}
            tokio::select! {
                () = stop.cancelled() => break,
                changed = picture.changed() => if changed.is_err() { break },
            }
        }
        stop.cancel();
        while tasks.join_next().await.is_some() {}
    }

    /// Offers the type: our own tokens, and those of the other processes.
    fn offer_type(
        &self,
        wake: &watch::Receiver<Woken>,
        tasks: &mut JoinSet<()>,
        stop: &CancellationToken,
    ) -> watch::Sender<Vec<Offer>> {
        let own = watch::Sender::default();
        let all = watch::Sender::default();
        let endpoint = Endpoint::new(self, &self.resource, all.subscribe(), wake.clone());
        let share = Share::new(self);
        tasks.spawn(share.run(own.subscribe(), all, self.check, stop.child_token()));
        tasks.spawn(endpoint.run(stop.child_token()));
        own
    }

    fn offer(
        &self,
        resource: &str,
        offers: Vec<Offer>,
        wake: &watch::Receiver<Woken>,
        tasks: &mut JoinSet<()>,
        stop: &CancellationToken,
    ) -> Offered {
        let (offers, stop) = (watch::Sender::new(offers), stop.child_token());
        let endpoint = Endpoint::new(self, resource, offers.subscribe(), wake.clone());
        tasks.spawn(endpoint.run(stop.clone()));
        Offered { offers, stop }
    }

    /// Where locks and files of our own are. Kubelet clears sockets out of its directory, and leaves directories alone.
    fn state_dir(&self) -> PathBuf {
        self.dir.join("hsm.j5t.io")
    }
}

fn put(sender: &watch::Sender<Vec<Offer>>, offers: Vec<Offer>) {
    sender.send_if_modified(|old| {
        let changed = *old != offers;
        if changed {
            *old = offers;
        }
        changed
    });
}
