//! Offering tokens to kubelet: one resource for each token, and one for the type if the admin wants that.
//!
//! An agent requests the resource of its own token. A pod that requests the resource of a type gets any token of it, also one that
//! an agent serves, so no type is offered by default. Behind each resource is a socket in kubelet's directory. Where two of our
//! processes on a node want the same resource, a lock decides which process serves it, and the other takes over when the first one
//! ends. The process that serves a type offers the tokens of all: each process puts its own into a file beside the lock.

mod claim;
mod endpoint;
mod offer;
mod service;
mod share;
mod wake;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;
use trustplane_hsm_core::usb::by_token;
use trustplane_process::backoff::Backoff;

use crate::metrics::Counts;
use crate::watch::Picture;
use endpoint::Endpoint;
pub use offer::Offer;
use offer::offers;
use share::Share;
use wake::Woken;

/// How kubelet is reached, and what is offered to it.
#[derive(Debug, Clone)]
pub struct Plugin {
    /// Kubelet's directory for plugins.
    pub dir: PathBuf,
    /// Where the node has its device files: kubelet opens them there.
    pub dev: String,
    /// The resource of the type, if the type is offered.
    pub type_resource: Option<String>,
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

/// A part of the plugin broke. Nobody else would do its work, so the process has to start anew.
#[derive(Debug, thiserror::Error)]
#[error("a part of the device plugin broke: {0}")]
pub struct Broken(#[from] JoinError);

/// A resource that is being offered.
struct Offered {
    offers: watch::Sender<Vec<Offer>>,
    stop: CancellationToken,
}

impl Plugin {
    /// How often to look if nobody says otherwise.
    pub const CHECK: Duration = Duration::from_secs(2);

    /// Offers what there is until it is told to stop; then all sockets are gone.
    pub async fn run(self, picture: watch::Receiver<Picture>, stop: CancellationToken) -> Result<(), Broken> {
        let (mut tasks, stop) = (JoinSet::new(), stop.child_token());
        let ended = self.attend(&mut tasks, picture, &stop).await;
        stop.cancel();
        while tasks.join_next().await.is_some() {}
        ended
    }

    async fn attend(
        &self,
        tasks: &mut JoinSet<()>,
        mut picture: watch::Receiver<Picture>,
        stop: &CancellationToken,
    ) -> Result<(), Broken> {
        let wake = wake::start(&self.dir, tasks, stop);
        let own = self.type_resource.as_deref();
        let own = own.map(|resource| self.offer_type(resource, &wake, tasks, stop));
        let mut tokens: BTreeMap<String, Offered> = BTreeMap::new();
        loop {
            let devices = picture.borrow_and_update().devices.clone();
            if let Some(own) = &own {
                put(own, offers(&self.node, &devices));
            }
            let wanted = by_token(&devices);
            tokens.retain(|resource, offered| {
                let stays = wanted.contains_key(resource);
                if !stays {
                    offered.stop.cancel();
                }
                stays
            });
            for (resource, tracked) in wanted {
                let offers = vec![Offer::of(&self.node, tracked)];
                match tokens.get(&resource) {
                    Some(offered) => put(&offered.offers, offers),
                    None => {
                        let offered = self.offer(&resource, offers, &wake, tasks, stop);
                        tokens.insert(resource, offered);
                    }
                }
            }
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                changed = picture.changed() => if changed.is_err() { return Ok(()) },
                broken = broken(tasks) => return Err(broken),
            }
        }
    }

    /// Offers the type: our own tokens, and those of the other processes.
    fn offer_type(
        &self,
        resource: &str,
        wake: &watch::Receiver<Woken>,
        tasks: &mut JoinSet<()>,
        stop: &CancellationToken,
    ) -> watch::Sender<Vec<Offer>> {
        let own = watch::Sender::default();
        let all = watch::Sender::default();
        let endpoint = Endpoint::new(self, resource, all.subscribe(), wake.clone());
        let share = Share::new(self, resource);
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
}

/// Where locks and files of our own are. Kubelet clears sockets out of its directory, and leaves directories alone.
pub(crate) fn state_dir(plugins: &Path) -> PathBuf {
    plugins.join("hsm.j5t.io")
}

/// Waits until a task breaks. Those that have ended as they were told are passed over.
async fn broken(tasks: &mut JoinSet<()>) -> Broken {
    loop {
        match tasks.join_next().await {
            Some(Err(error)) => return Broken(error),
            Some(Ok(())) => {}
            None => std::future::pending().await,
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A panic in a task is nobody's error until somebody asks for it: the resource would never be offered again.
    #[tokio::test]
    async fn a_part_that_panics_is_the_end_of_the_plugin() {
        let dir = tempfile::tempdir().unwrap();
        let plugin = Plugin {
            dir: dir.path().to_owned(),
            dev: "/dev".to_owned(),
            type_resource: Some("hsm.j5t.io/picohsm".to_owned()),
            node: "n1".to_owned(),
            owner: "one".to_owned(),
            check: Plugin::CHECK,
            backoff: Backoff::default(),
            counts: Counts::default(),
        };
        let picture: watch::Sender<Picture> = watch::Sender::default();
        let mut tasks = JoinSet::new();
        tasks.spawn(async {});
        tasks.spawn(async { panic!("an endpoint broke") });
        let stop = CancellationToken::new();
        let ended = plugin.attend(&mut tasks, picture.subscribe(), &stop).await;
        let told = ended.unwrap_err().to_string();
        assert!(told.contains("an endpoint broke"), "{told}");
    }
}
