//! What open pages hear of: changes of objects, and of the state of clusters.
//!
//! Changes are gathered for half a second, so a page hears at most two of each cluster in a second, however many there are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sqlx::SqlitePool;
use tokio::sync::{Notify, broadcast};
use tokio_util::sync::CancellationToken;
use trustplane_process::clock::Clock;

use crate::state::ClusterState;
use crate::store::clusters::clusters;
use crate::store::writer::{Observer, Touched};
use crate::time::Millis;

/// How long changes are gathered.
pub const GATHER: Duration = Duration::from_millis(500);
/// How often the states of clusters are judged: silence changes them too.
const JUDGE: Duration = Duration::from_secs(5);
/// How many notices a slow page may be behind. Beyond that it is told to read everything again.
pub(crate) const BEHIND: usize = 256;

/// What a page hears.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// Objects of a cluster changed.
    Change {
        /// The row of the cluster.
        cluster: i64,
        /// Of these kinds.
        kinds: Vec<String>,
        /// When.
        at: Millis,
    },
    /// The cluster itself changed.
    Cluster {
        /// Its row.
        cluster: i64,
    },
}

/// Gathers what was committed and tells open pages.
#[derive(Debug)]
pub struct Live {
    gathered: Mutex<BTreeMap<i64, Gathered>>,
    wake: Notify,
    notices: broadcast::Sender<Notice>,
}

#[derive(Debug, Default)]
struct Gathered {
    kinds: BTreeSet<String>,
    itself: bool,
    at: Millis,
}

impl Default for Live {
    fn default() -> Self {
        let (notices, _) = broadcast::channel(BEHIND);
        Self {
            gathered: Mutex::default(),
            wake: Notify::new(),
            notices,
        }
    }
}

impl Observer for Live {
    fn committed(&self, touched: &BTreeMap<i64, Touched>, at: Millis) {
        let mut gathered = self.gathered.lock().unwrap_or_else(PoisonError::into_inner);
        for (cluster, touched) in touched {
            let entry = gathered.entry(*cluster).or_default();
            entry.kinds.extend(touched.kinds.iter().cloned());
            entry.itself |= touched.itself;
            entry.at = at;
        }
        drop(gathered);
        self.wake.notify_one();
    }
}

impl Live {
    /// Hears of everything from now on.
    pub fn subscribe(&self) -> broadcast::Receiver<Notice> {
        self.notices.subscribe()
    }

    /// Tells pages what was gathered, until `stop`.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = self.wake.notified() => {}
                () = stop.cancelled() => return,
            }
            self.tell();
            tokio::select! {
                () = tokio::time::sleep(GATHER) => {}
                () = stop.cancelled() => return,
            }
        }
    }

    pub(crate) fn tell(&self) {
        let gathered = std::mem::take(&mut *self.gathered.lock().unwrap_or_else(PoisonError::into_inner));
        for (cluster, Gathered { kinds, itself, at }) in gathered {
            // Without an open page there is no subscriber.
            if !kinds.is_empty() {
                let kinds = kinds.into_iter().collect();
                let _ = self.notices.send(Notice::Change { cluster, kinds, at });
            }
            if itself {
                let _ = self.notices.send(Notice::Cluster { cluster });
            }
        }
    }

    /// Tells pages when the state of a cluster changes by itself, until `stop`.
    pub async fn watch_states(
        self: Arc<Self>,
        readers: SqlitePool,
        clock: Arc<dyn Clock>,
        stop: CancellationToken,
    ) {
        let mut known: BTreeMap<i64, ClusterState> = BTreeMap::new();
        loop {
            tokio::select! {
                () = tokio::time::sleep(JUDGE) => {}
                () = stop.cancelled() => return,
            }
            let rows = match clusters(&readers).await {
                Ok(rows) => rows,
                Err(error) => {
                    tracing::warn!(%error, "cannot judge the states of clusters");
                    continue;
                }
            };
            let now = clock.now().as_millisecond();
            let states: BTreeMap<i64, ClusterState> =
                rows.iter().map(|row| (row.row, row.state(now).0)).collect();
            for (cluster, state) in &states {
                if known.get(cluster) != Some(state) {
                    let _ = self.notices.send(Notice::Cluster { cluster: *cluster });
                }
            }
            known = states;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touched(kinds: &[&str]) -> Touched {
        Touched {
            changes: 1,
            kinds: kinds.iter().map(|kind| (*kind).to_owned()).collect(),
            itself: false,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn changes_of_half_a_second_are_told_together() {
        let (live, stop) = (Arc::new(Live::default()), CancellationToken::new());
        let mut heard = live.subscribe();
        tokio::spawn(live.clone().run(stop.clone()));
        live.committed(&BTreeMap::from([(1, touched(&["Pod"]))]), 5);
        let first = heard.recv().await.unwrap();
        assert_eq!(
            first,
            Notice::Change {
                cluster: 1,
                kinds: vec!["Pod".to_owned()],
                at: 5
            }
        );
        live.committed(&BTreeMap::from([(1, touched(&["Pod"]))]), 6);
        live.committed(&BTreeMap::from([(1, touched(&["Node", "Pod"]))]), 7);
        let before = tokio::time::Instant::now();
        let second = heard.recv().await.unwrap();
        assert!(before.elapsed() >= GATHER);
        let kinds = vec!["Node".to_owned(), "Pod".to_owned()];
        assert_eq!(
            second,
            Notice::Change {
                cluster: 1,
                kinds,
                at: 7
            }
        );
        assert!(heard.try_recv().is_err());
    }
}
