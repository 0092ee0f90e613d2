//! Looking again and again: each two seconds, and at once when the kernel says so.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};
use tokio_util::sync::CancellationToken;
use trustplane_hsm_core::usb::report::Look;
use trustplane_hsm_core::usb::{Found, Tracked, Tracker};
use trustplane_process::admin::Heartbeat;
use trustplane_process::backoff::Backoff;
use trustplane_process::clock::Clock;

use crate::eye::{Eye, LookError, Sight};
use crate::metrics::Counts;
use crate::uevent::{Event, Events, Source};

/// How often a look is due without any event.
const LOOK: Duration = Duration::from_secs(2);
/// How often it is a whole one, even if from afar all is as before.
const WHOLE_LOOK: Duration = Duration::from_secs(30);
/// The least time between two looks because of events. A storm of them costs no more than this.
const QUIET: Duration = Duration::from_millis(200);
/// How long to wait before listening again.
const LISTEN: Backoff = Backoff {
    first: Duration::from_secs(5),
    max: Duration::from_secs(300),
};

/// What is known of the devices of the node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Picture {
    /// They.
    pub devices: Vec<Tracked>,
    /// How many more are there than may be used.
    pub left_out: usize,
    /// How the last look went.
    pub look: Look,
}

/// Watches the devices of a node.
#[derive(Debug)]
pub struct Watcher {
    eye: Arc<Eye>,
    tracker: Tracker,
    clock: Arc<dyn Clock>,
    counts: Counts,
    picture: watch::Sender<Picture>,
    heartbeat: Option<Heartbeat>,
    /// What the last whole look has seen, and when.
    last: Option<(Instant, Sight)>,
}

impl Watcher {
    /// Nobody has looked yet. `tracker` may know more from before.
    pub fn new(eye: Eye, tracker: Tracker, clock: Arc<dyn Clock>, counts: Counts) -> Self {
        Self {
            eye: Arc::new(eye),
            tracker,
            clock,
            counts,
            picture: watch::Sender::default(),
            heartbeat: None,
            last: None,
        }
    }

    /// Beats with each look.
    #[must_use]
    pub fn beating(mut self, heartbeat: Heartbeat) -> Self {
        self.heartbeat = Some(heartbeat);
        self
    }

    /// What is known, now and later.
    pub fn picture(&self) -> watch::Receiver<Picture> {
        self.picture.subscribe()
    }

    /// Watches until it is told to stop. Whether events come, fail or end changes only how soon it looks.
    pub async fn run(mut self, source: impl Source, stop: CancellationToken) {
        let mut ear = Ear::new(source);
        let mut ticks = interval(LOOK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut due, mut last): (Option<Instant>, Option<Instant>) = (None, None);
        loop {
            let soon = async {
                match due {
                    Some(due) => sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = stop.cancelled() => return,
                _ = ticks.tick() => self.look(false).await,
                () = soon => {
                    (due, last) = (None, Some(Instant::now()));
                    self.look(true).await;
                }
                heard = ear.hear() => {
                    if self.matters(&heard) && due.is_none() {
                        let now = Instant::now();
                        due = Some(last.map_or(now, |last| now.max(last + QUIET)));
                    }
                }
            }
        }
    }

    /// Whether what was heard asks for a look.
    fn matters(&self, heard: &io::Result<Event>) -> bool {
        let (result, matters) = match heard {
            Ok(Event::Change { subsystem }) if self.eye.cares_about(subsystem) => ("taken", true),
            Ok(Event::Change { .. }) => ("passed_over", false),
            Ok(Event::Overrun) => ("overrun", true),
            Err(error) => {
                tracing::info!(%error, "no events of the kernel: devices are looked for each two seconds");
                ("failed", false)
            }
        };
        self.counts.event(result);
        matters
    }

    /// One look. A whole one if that is asked for, or if something may be different.
    async fn look(&mut self, whole: bool) {
        let eye = self.eye.clone();
        let known = self.last.as_ref().filter(|(at, sight)| {
            let complete = sight.without_node == 0;
            !whole && complete && at.elapsed() < WHOLE_LOOK
        });
        let known = known.map(|(_, sight)| sight.clone());
        // Files of sysfs may wait for a driver, so nobody else has to wait for them.
        let looked = tokio::task::spawn_blocking(move || see(&eye, known.as_ref())).await;
        let looked = looked.unwrap_or_else(|error| Err(Trouble::Panicked(error.to_string())));
        self.take(looked);
        if let Some(heartbeat) = &self.heartbeat {
            heartbeat.beat();
        }
    }

    fn take(&mut self, looked: Result<Option<Sight>, Trouble>) {
        let look = match looked {
            Ok(seen) => {
                self.counts.look(if seen.is_some() { "whole" } else { "same" });
                if let Some(sight) = seen {
                    self.last = Some((Instant::now(), sight));
                }
                let found = self.last.iter().flat_map(|(_, sight)| sight.found.clone());
                let found: Vec<Found> = found.collect();
                self.tracker.see(found, self.clock.now());
                Look::Done
            }
            Err(error) => {
                self.counts.look("failed");
                self.last = None;
                Look::Failed(error.to_string())
            }
        };
        self.publish(look);
    }

    fn publish(&self, look: Look) {
        let devices = self.tracker.devices().to_vec();
        let available = devices.iter().filter(|device| device.available).count();
        self.counts.devices(available, devices.len() - available);
        let picture = Picture {
            devices,
            left_out: self.tracker.left_out(),
            look,
        };
        self.picture.send_if_modified(|old| {
            let changed = *old != picture;
            if changed {
                tell(&picture);
                *old = picture;
            }
            changed
        });
    }
}

fn tell(picture: &Picture) {
    if let Look::Failed(error) = &picture.look {
        tracing::warn!(error, "could not look at the node");
    }
    if picture.left_out > 0 {
        tracing::warn!(
            left_out = picture.left_out,
            "more devices are there than may be used"
        );
    }
    for device in &picture.devices {
        let (found, available) = (&device.found, device.available);
        let serial = found.serial.as_deref().unwrap_or("none");
        tracing::info!(path = found.device_path, serial, available, "device");
    }
}

#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error(transparent)]
    Look(#[from] LookError),
    #[error("a look was broken off: {0}")]
    Panicked(String),
}

/// What there is to see; nothing if it is as it was known.
fn see(eye: &Eye, known: Option<&Sight>) -> Result<Option<Sight>, Trouble> {
    if let Some(known) = known
        && eye.sees_the_same(known)?
    {
        return Ok(None);
    }
    Ok(Some(eye.look()?))
}

/// Listens, and listens again after it has ended.
struct Ear<S: Source> {
    source: S,
    events: Option<S::Events>,
    failures: u32,
    again: Instant,
}

impl<S: Source> Ear<S> {
    fn new(source: S) -> Self {
        Self {
            source,
            events: None,
            failures: 0,
            again: Instant::now(),
        }
    }

    /// What is heard next. Nothing is lost when it is given up while waiting.
    async fn hear(&mut self) -> io::Result<Event> {
        if self.events.is_none() {
            sleep_until(self.again).await;
            match self.source.open() {
                Ok(events) => self.events = Some(events),
                Err(error) => return Err(self.deaf(error)),
            }
        }
        let Some(events) = &mut self.events else {
            return std::future::pending().await;
        };
        match events.next().await {
            Ok(event) => {
                self.failures = 0;
                Ok(event)
            }
            Err(error) => Err(self.deaf(error)),
        }
    }

    fn deaf(&mut self, error: io::Error) -> io::Error {
        self.events = None;
        self.again = Instant::now() + LISTEN.ceiling(self.failures);
        self.failures = self.failures.saturating_add(1);
        error
    }
}

#[cfg(test)]
mod tests;
