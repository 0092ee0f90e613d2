//! Telling the cluster what the node has: one annotation of our own pod.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use trustplane_api::hsm::DeviceReport;
use trustplane_hsm_core::usb::report::{Cadence, Look, Reporter, written};
use trustplane_process::admin::Check;
use trustplane_process::backoff::Backoff;
use trustplane_process::clock::Clock;

use crate::metrics::Counts;
use crate::watch::Picture;

/// How long the first look may take before the report says that there was none yet.
const FIRST_LOOK: Duration = Duration::from_secs(5);

/// Where reports go.
pub trait Sink: Send + Sync + 'static {
    /// Why a report was not written. It is told to people.
    type Error: std::fmt::Display + Send;

    /// Puts a report in the place of the last one. It answers within a bounded time.
    fn write(&self, report: String) -> impl Future<Output = Result<(), Self::Error>> + Send;
}

/// Writes reports: the newest, as soon as it can be written.
#[derive(Debug)]
pub struct Herald<S> {
    /// Whose reports.
    pub reporter: Reporter,
    /// Where they go.
    pub sink: S,
    /// When they are due.
    pub cadence: Cadence,
    /// How long to wait after a failure.
    pub backoff: Backoff,
    /// Tells the time of a report.
    pub clock: Arc<dyn Clock>,
    /// Counts them.
    pub counts: Counts,
}

/// The last report that was written, and when.
struct Last {
    report: DeviceReport,
    at: Instant,
}

impl<S: Sink> Herald<S> {
    /// Reports until it is told to stop. `check` is ready while the last report is one that was written.
    pub async fn run(
        self,
        mut picture: watch::Receiver<Picture>,
        check: Option<Check>,
        stop: CancellationToken,
    ) {
        let patience = Instant::now() + FIRST_LOOK;
        let (mut last, mut failures, mut not_before): (Option<Last>, u32, Option<Instant>) = (None, 0, None);
        loop {
            let (report, looked) = {
                let now = picture.borrow_and_update();
                let report = self.reporter.report(&now.devices, now.left_out, &now.look);
                (report, now.look != Look::None)
            };
            let due = match not_before {
                Some(not_before) => not_before,
                None if looked || last.is_some() => self.due(last.as_ref(), &report),
                None => patience,
            };
            tokio::select! {
                () = stop.cancelled() => return,
                changed = picture.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    continue;
                }
                () = sleep_until(due) => {}
            }
            match self.write(&report).await {
                Ok(()) => {
                    (failures, not_before) = (0, None);
                    let at = Instant::now();
                    last = Some(Last { report, at });
                    check.iter().for_each(Check::ready);
                }
                Err(error) => {
                    tracing::warn!(error, failures, "could not write the report");
                    not_before = Some(Instant::now() + self.backoff.jittered(failures));
                    failures = failures.saturating_add(1);
                    check
                        .iter()
                        .for_each(|check| check.not_ready("the report could not be written"));
                }
            }
        }
    }

    fn due(&self, last: Option<&Last>, report: &DeviceReport) -> Instant {
        let different = last.is_none_or(|last| last.report != *report);
        let age = last.map(|last| last.at.elapsed());
        Instant::now() + self.cadence.wait(age, different)
    }

    async fn write(&self, report: &DeviceReport) -> Result<(), String> {
        let text = written(report, self.clock.now()).map_err(|error| error.to_string())?;
        let done = self.sink.write(text).await.map_err(|error| error.to_string());
        self.counts
            .report(if done.is_ok() { "written" } else { "failed" });
        done
    }
}

#[cfg(test)]
mod tests;
