//! An operand that inherits the name of the cluster, seen by a watch.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use futures::{StreamExt, pin_mut};
use kube::api::{DynamicObject, WatchEvent, WatchParams};
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use trustplane_api::identity::names::SINGLETON;
use trustplane_api::identity::{SPIRE_AGENT, SPIRE_SERVER};
use trustplane_plan::Kind;

use crate::stage::api;

/// The operands that inherit the name of the cluster.
pub const FOLLOWERS: [Kind; 2] = [SPIRE_SERVER, SPIRE_AGENT];

/// When a change counts as lost.
const LOST: Duration = Duration::from_secs(60);

/// The name that an operand has, and since when it is known.
type Seen = (String, Instant);

/// What is seen of the operands while this lives.
pub struct Followers {
    seen: Vec<watch::Receiver<Seen>>,
    _watches: JoinSet<()>,
}

impl Followers {
    pub async fn watch(client: &Client) -> Result<Self> {
        let (mut seen, mut watches) = (Vec::new(), JoinSet::new());
        for kind in FOLLOWERS {
            let objects = api(client, &kind);
            let live = objects.get(SINGLETON).await?;
            let version = live.metadata.resource_version.clone().unwrap_or_default();
            let (sender, receiver) = watch::channel((name(&live), Instant::now()));
            seen.push(receiver);
            watches.spawn(async move {
                let ended = follow(&objects, &version, &sender).await;
                eprintln!("the watch of {} ended: {ended:?}", kind.kind);
            });
        }
        Ok(Self {
            seen,
            _watches: watches,
        })
    }

    /// Waits until all have a name; tells when the last of them was seen to have it.
    pub async fn have(&mut self, wanted: &str) -> Result<Instant> {
        let mut last = None;
        for seen in &mut self.seen {
            let waited = timeout(LOST, seen.wait_for(|(name, _)| name == wanted)).await;
            let seen = waited.with_context(|| format!("{wanted} did not arrive in {LOST:?}"))??;
            last = last.max(Some(seen.1));
        }
        last.context("no operand inherits the name of the cluster")
    }
}

/// Tells of the name whenever the operand changes.
async fn follow(objects: &Api<DynamicObject>, version: &str, sender: &watch::Sender<Seen>) -> Result<()> {
    let only = WatchParams::default()
        .fields(&format!("metadata.name={SINGLETON}"))
        .timeout(290);
    let (mut version, mut ended) = (version.to_owned(), false);
    while !ended {
        let events = objects.watch(&only, &version).await?;
        pin_mut!(events);
        while let Some(event) = events.next().await {
            match event? {
                WatchEvent::Added(live) | WatchEvent::Modified(live) => {
                    version = live.metadata.resource_version.clone().unwrap_or_default();
                    ended = sender.send((name(&live), Instant::now())).is_err();
                }
                WatchEvent::Bookmark(_) => {}
                WatchEvent::Deleted(_) => bail!("it was deleted"),
                WatchEvent::Error(status) => return Err(anyhow!("{status}")),
            }
        }
    }
    Ok(())
}

fn name(live: &DynamicObject) -> String {
    live.data["spec"]["clusterName"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}
