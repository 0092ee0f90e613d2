//! The task of one platform: makes the requests that its sender wants, and tells the sender what became of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use jiff::Timestamp;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use trustplane_api::inventory::wire::SnapshotHead;
use trustplane_inventory_core::InventoryKind;
use trustplane_inventory_core::sender::{Answered, Call, Outcome, Report};
use trustplane_inventory_core::world::SenderId;

use crate::metrics::StreamMetrics;
use crate::platform::Platform;
use crate::shared::Shared;

/// How long what is pending may take to go out when the process ends.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// What one platform's task works with.
pub(crate) struct Peer {
    pub id: SenderId,
    pub wake: Arc<Notify>,
    pub shared: Shared,
    pub platform: Arc<Platform>,
    /// What snapshots say of the cluster, but for its uid.
    pub head: SnapshotHead,
    pub metrics: StreamMetrics,
    /// Hears when the report changes in a way that people see.
    pub changed: Arc<dyn Fn() + Send + Sync>,
}

type Running = FuturesUnordered<BoxFuture<'static, Done>>;

/// What ended.
enum Done {
    Call(Answered, Outcome),
    Renewal,
}

impl Peer {
    /// Serves the platform until `stop`; then what is pending goes out, within a bound. Ending it before that loses nothing that the
    /// next start does not send.
    pub async fn run(self, stop: CancellationToken) {
        let mut running = Running::new();
        let mut told = self.visible();
        loop {
            let wake = self.launch(&mut running);
            let renewal = self.platform.renewal();
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(done) = running.next() => self.finish(done),
                () = self.wake.notified() => {}
                () = at(wake) => {}
                () = at(renewal) => {
                    self.platform.renewing();
                    let platform = self.platform.clone();
                    running.push(async move { platform.renew().await; Done::Renewal }.boxed());
                }
            }
            let now = self.visible();
            if now != told {
                (self.changed)();
                told = now;
            }
        }
        if timeout(LAST_WORDS, self.flush(&mut running)).await.is_err() {
            tracing::warn!(
                "changes are still pending at the end of the process; the next start sends a snapshot"
            );
        }
        self.shared.remove(self.id);
        self.metrics.forget(self.id);
    }

    /// What people see: everything but what moves all the time.
    fn visible(&self) -> (Report, BTreeMap<InventoryKind, String>, bool) {
        let (report, unreadable, is_named) = self.shared.look(|world| {
            let report = world.report(self.id).unwrap_or_default();
            (report, world.unreadable(), world.cluster_uid().is_some())
        });
        self.metrics.pending(self.id, &report);
        let report = Report {
            last_sync: report.last_sync.map(|_| Timestamp::UNIX_EPOCH),
            pending: 0,
            pending_bytes: 0,
            sent: 0,
            ..report
        };
        (report, unreadable, is_named)
    }

    /// Sends what is pending, without waiting for anything else.
    async fn flush(&self, running: &mut Running) {
        while !self.shared.look(|world| world.is_idle(self.id)) {
            let wake = self.launch(running);
            tokio::select! {
                Some(done) = running.next() => self.finish(done),
                () = at(wake) => {}
            }
        }
    }

    /// Begins all requests that may be made now; answers when to ask again.
    fn launch(&self, running: &mut Running) -> Option<Instant> {
        // Without it no request can say which cluster it speaks of.
        let cluster_uid = self
            .shared
            .look(trustplane_inventory_core::world::World::cluster_uid)?;
        loop {
            let step = self.shared.step(self.id);
            let Some(call) = step.call else {
                return step.wake.map(Instant::from_std);
            };
            let head = SnapshotHead {
                cluster_uid: cluster_uid.clone(),
                ..self.head.clone()
            };
            running.push(request(self.platform.clone(), call, head, self.metrics.clone()).boxed());
        }
    }

    fn finish(&self, done: Done) {
        let Done::Call(what, outcome) = done else {
            return;
        };
        let (now, time) = (Instant::now().into_std(), Timestamp::now());
        self.shared.change(|world| {
            world.answered(self.id, &what, outcome, now, time);
            false
        });
    }
}

async fn request(platform: Arc<Platform>, call: Call, head: SnapshotHead, metrics: StreamMetrics) -> Done {
    let started = Instant::now();
    let outcome = platform.send(&call, &head).await;
    metrics.sent(&call, &outcome, started.elapsed());
    let what = match call {
        Call::Heartbeat => Answered::Heartbeat,
        Call::Snapshot(_) => Answered::Snapshot,
        Call::Event(record) => Answered::Event(record.uid),
    };
    Done::Call(what, outcome)
}

/// Waits until then; for ever if there is no time.
async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}
