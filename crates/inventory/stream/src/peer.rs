//! The task of one platform: makes the requests that its sender wants, and tells the sender what became of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use jiff::Timestamp;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use trustplane_api::inventory::wire::SnapshotHead;
use trustplane_inventory_core::InventoryKind;
use trustplane_inventory_core::sender::{Answered, Call, Outcome, Report, Trouble};
use trustplane_inventory_core::world::SenderId;

use crate::metrics::StreamMetrics;
use crate::platform::Platform;
use crate::shared::Shared;

/// How long what is pending may take to go out when the process ends.
const FLUSH_DEADLINE: Duration = Duration::from_secs(10);

/// What one platform's task works with.
pub(crate) struct Peer {
    pub id: SenderId,
    pub wake: Arc<Notify>,
    pub shared: Shared,
    /// The platform by the present credentials and settings: they change while the task runs.
    pub platform: watch::Receiver<Arc<Platform>>,
    /// What snapshots say of the cluster, but for its uid and its name.
    pub head: SnapshotHead,
    pub metrics: StreamMetrics,
    /// Hears when the report changes in a way that people see.
    pub changed: Arc<dyn Fn() + Send + Sync>,
}

type Running = FuturesUnordered<BoxFuture<'static, Done>>;

/// What ended.
enum Done {
    /// A request, made with this platform.
    Call(Answered, Outcome, Arc<Platform>),
    Renewal,
}

impl Peer {
    /// Serves the platform until `stop`; then what is pending goes out, within a bound. Ending it before that loses nothing that the
    /// next start does not send.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut running = Running::new();
        let mut told = self.visible();
        loop {
            let wake = self.launch(&mut running);
            let platform = self.platform();
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(done) = running.next() => self.finish(done),
                () = self.wake.notified() => {}
                () = at(wake) => {}
                Ok(()) = self.platform.changed() => {}
                () = at(platform.renewal()) => {
                    platform.renewing();
                    running.push(async move { platform.renew().await; Done::Renewal }.boxed());
                }
            }
            let now = self.visible();
            if now != told {
                (self.changed)();
                told = now;
            }
        }
        if timeout(FLUSH_DEADLINE, self.flush(&mut running)).await.is_err() {
            tracing::warn!(
                "changes are still pending at the end of the process; the next start sends a snapshot"
            );
        }
        self.shared.remove(self.id);
        self.metrics.forget(self.id);
    }

    fn platform(&self) -> Arc<Platform> {
        self.platform.borrow().clone()
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
            ..unquoted(&report)
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
        let platform = self.platform();
        loop {
            let step = self.shared.step(self.id);
            let Some(call) = step.call else {
                return step.wake.map(Instant::from_std);
            };
            let head = SnapshotHead {
                cluster_uid: cluster_uid.clone(),
                cluster_name: platform.cluster_name().to_owned(),
                ..self.head.clone()
            };
            running.push(request(platform.clone(), call, head, self.metrics.clone()).boxed());
        }
    }

    fn finish(&self, done: Done) {
        let Done::Call(what, outcome, platform) = done else {
            return;
        };
        let outcome = match Arc::ptr_eq(&platform, &self.platform.borrow()) {
            true => outcome,
            false => outdated(outcome),
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
    Done::Call(what, outcome, platform)
}

/// What an answer means for the sender if the credentials or settings of its request are no longer those of the agent: trouble by
/// them is over, and the request is made again at once.
fn outdated(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Unauthorized(_) | Outcome::Forbidden(_) | Outcome::Unreachable(_) => {
            Outcome::Throttled(Some(Duration::ZERO))
        }
        other => other,
    }
}

/// The report with the words that people were told before, for as long as the trouble is the same. Platforms put request ids into
/// their answers: with the newest words the status would change at each probe.
pub(crate) fn steady(told: &Report, now: Report) -> Report {
    let (before, after) = (unquoted(told), unquoted(&now));
    let mut report = now;
    if before.trouble == after.trouble {
        report.trouble.clone_from(&told.trouble);
    }
    if before.snapshot_failed == after.snapshot_failed {
        report.snapshot_failed.clone_from(&told.snapshot_failed);
    }
    if before.heartbeat_refused == after.heartbeat_refused {
        report.heartbeat_refused.clone_from(&told.heartbeat_refused);
    }
    report
}

/// The report without the words of the platform.
fn unquoted(report: &Report) -> Report {
    let own = |text: &String| own_words(text).unwrap_or(text).to_owned();
    let only_own = |text: &String| own_words(text).unwrap_or_default().to_owned();
    Report {
        trouble: report.trouble.as_ref().map(|trouble| match trouble {
            Trouble::Unreachable(why) => Trouble::Unreachable(why.clone()),
            Trouble::Unauthorized(why) => Trouble::Unauthorized(only_own(why)),
            Trouble::Forbidden(why) => Trouble::Forbidden(only_own(why)),
        }),
        snapshot_failed: report.snapshot_failed.as_ref().map(own),
        heartbeat_refused: report.heartbeat_refused.as_ref().map(own),
        ..report.clone()
    }
}

/// What stands before the words of the platform: they follow a status, as in `422: …`.
fn own_words(text: &str) -> Option<&str> {
    let parts = text.match_indices(": ").map(|(at, _)| &text[..at]);
    let mut statuses = parts.filter(|part| {
        let last = part.as_bytes().rchunks(3).next();
        last.is_some_and(|last| last.len() == 3 && last.iter().all(u8::is_ascii_digit))
    });
    statuses.next()
}

/// Waits until then; for ever if there is no time.
async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
