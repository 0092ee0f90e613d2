use std::fs;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::mpsc;
use trustplane_hsm_core::usb::Selection;
use trustplane_process::clock::ManualClock;
use trustplane_process::metrics::Metrics;

use super::*;
use crate::fake::{PICO, Plug, Tree};

mod promises;

/// Nobody who could tell anything.
struct Silence;

impl Events for mpsc::UnboundedReceiver<Event> {
    async fn next(&mut self) -> io::Result<Event> {
        self.recv().await.ok_or_else(|| io::ErrorKind::BrokenPipe.into())
    }
}

impl Source for Silence {
    type Events = mpsc::UnboundedReceiver<Event>;

    fn open(&mut self) -> io::Result<Self::Events> {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

/// Tells what the test says, until the test hangs up; then it can be opened again.
struct Told(mpsc::UnboundedSender<mpsc::UnboundedSender<Event>>);

impl Source for Told {
    type Events = mpsc::UnboundedReceiver<Event>;

    fn open(&mut self) -> io::Result<Self::Events> {
        let (teller, events) = mpsc::unbounded_channel();
        self.0.send(teller).map_err(io::Error::other)?;
        Ok(events)
    }
}

fn told() -> (Told, mpsc::UnboundedReceiver<mpsc::UnboundedSender<Event>>) {
    let (tellers, opened) = mpsc::unbounded_channel();
    (Told(tellers), opened)
}

fn usb() -> Event {
    Event::Change {
        subsystem: "usb".to_owned(),
    }
}

struct Stage {
    tree: Tree,
    clock: Arc<ManualClock>,
    metrics: Metrics,
    picture: watch::Receiver<Picture>,
    _stop: tokio_util::sync::DropGuard,
}

impl Stage {
    /// A watcher on an empty tree that has looked once.
    async fn new(source: impl Source) -> Self {
        let tree = Tree::new();
        let clock = Arc::new(ManualClock::new(Timestamp::from_second(1_000_000).unwrap()));
        let selection: Selection = serde_json::from_str(r#"{"auto":{"ccid":true}}"#).unwrap();
        let eye = Eye::new(vec![tree.sysfs()], vec![tree.dev()], selection).unwrap();
        let tracker = Tracker::new(None, SignedDuration::from_secs(300));
        let metrics = Metrics::new();
        let watcher = Watcher::new(eye, tracker, clock.clone(), Counts::register(&metrics));
        let (picture, stop) = (watcher.picture(), CancellationToken::new());
        tokio::spawn(watcher.run(source, stop.clone()));
        let mut stage = Self {
            tree,
            clock,
            metrics,
            picture,
            _stop: stop.drop_guard(),
        };
        stage.until(|picture| picture.look == Look::Done).await;
        stage
    }

    /// How long it took, on a clock that stands still unless everybody waits.
    async fn until(&mut self, wanted: impl FnMut(&Picture) -> bool) -> Duration {
        let start = Instant::now();
        let waited = tokio::time::timeout(Duration::from_secs(120), self.picture.wait_for(wanted));
        assert!(waited.await.is_ok_and(|seen| seen.is_ok()), "waited in vain");
        start.elapsed()
    }

    async fn until_at(&mut self, path: &str) -> Duration {
        let there = |picture: &Picture| {
            let mut devices = picture.devices.iter();
            devices.any(|device| device.available && device.found.device_path == path)
        };
        self.until(there).await
    }

    fn looks(&self, result: &str) -> u64 {
        let name = format!("trustplane_hsm_discovery_looks_total{{result=\"{result}\"}} ");
        let text = self.metrics.encode();
        let line = text.lines().find_map(|line| line.strip_prefix(&name));
        line.map_or(0, |count| count.parse().unwrap())
    }
}

const PATH: &str = "/dev/bus/usb/001/015";

#[tokio::test(start_paused = true)]
async fn a_token_that_is_plugged_in_is_seen_with_the_next_look() {
    let mut stage = Stage::new(Silence).await;
    stage.tree.plug(PICO);
    assert!(stage.until_at(PATH).await <= LOOK);
}

#[tokio::test(start_paused = true)]
async fn an_event_makes_the_look_come_at_once() {
    let (source, mut opened) = told();
    let mut stage = Stage::new(source).await;
    let kernel = opened.recv().await.unwrap();
    stage.tree.plug(PICO);
    kernel.send(usb()).unwrap();
    assert!(stage.until_at(PATH).await < QUIET);
}

#[tokio::test(start_paused = true)]
async fn events_of_others_ask_for_nothing() {
    let (source, mut opened) = told();
    let mut stage = Stage::new(source).await;
    let kernel = opened.recv().await.unwrap();
    let before = stage.looks("whole");
    for subsystem in ["net", "block", "drivers"] {
        let subsystem = subsystem.to_owned();
        kernel.send(Event::Change { subsystem }).unwrap();
    }
    tokio::time::sleep(LOOK * 3).await;
    assert_eq!(stage.looks("whole"), before);
    kernel.send(usb()).unwrap();
    stage.tree.plug(PICO);
    stage.until_at(PATH).await;
}

#[tokio::test(start_paused = true)]
async fn a_storm_of_events_costs_few_looks_and_the_last_change_is_seen() {
    let (source, mut opened) = told();
    let mut stage = Stage::new(source).await;
    let kernel = opened.recv().await.unwrap();
    let before = stage.looks("whole");
    for _ in 0..1000 {
        kernel.send(usb()).unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    stage.tree.plug(PICO);
    kernel.send(usb()).unwrap();
    assert!(stage.until_at(PATH).await <= QUIET);
    let looks = stage.looks("whole") - before;
    assert!((2..=8).contains(&looks), "{looks}");
}

#[tokio::test(start_paused = true)]
async fn after_an_overrun_everything_is_looked_at() {
    let (source, mut opened) = told();
    let mut stage = Stage::new(source).await;
    let kernel = opened.recv().await.unwrap();
    stage.tree.plug(PICO);
    stage.until_at(PATH).await;
    // This does not show from afar.
    fs::write(stage.tree.device(PICO.port).join("serial"), "another").unwrap();
    kernel.send(Event::Overrun).unwrap();
    let other = |picture: &Picture| picture.devices[0].found.serial.as_deref() == Some("another");
    assert!(stage.until(other).await <= QUIET);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_read_while_all_is_as_before_but_now_and_then_everything_is() {
    let mut stage = Stage::new(Silence).await;
    stage.tree.plug(PICO);
    stage.until_at(PATH).await;
    let whole = stage.looks("whole");
    tokio::time::sleep(LOOK * 5).await;
    assert_eq!(stage.looks("whole"), whole);
    assert!(stage.looks("same") >= 4);
    fs::write(stage.tree.device(PICO.port).join("serial"), "another").unwrap();
    let other = |picture: &Picture| {
        let mut devices = picture.devices.iter();
        devices.any(|device| device.found.serial.as_deref() == Some("another"))
    };
    assert!(stage.until(other).await <= WHOLE_LOOK + LOOK);
}

/// In the original the channel of events is closed once and never opened again, and a second end is a crash.
#[tokio::test(start_paused = true)]
async fn w15_when_events_end_they_are_asked_for_again_and_looks_go_on() {
    let (source, mut opened) = told();
    let mut stage = Stage::new(source).await;
    for round in 0..3_u16 {
        drop(opened.recv().await.unwrap());
        let plug = Plug {
            number: 20 + round,
            ..PICO
        };
        stage.tree.plug(plug);
        let took = stage
            .until_at(&format!("/dev/bus/usb/001/{:03}", plug.number))
            .await;
        assert!(took <= LOOK);
        stage.tree.unplug(plug);
    }
    let kernel = opened.recv().await.unwrap();
    stage
        .until(|picture| picture.devices.iter().all(|device| !device.available))
        .await;
    stage.tree.plug(PICO);
    kernel.send(usb()).unwrap();
    assert!(stage.until_at(PATH).await <= QUIET);
    // It waits longer from time to time, and never spins.
    let text = stage.metrics.encode();
    assert!(
        text.contains("trustplane_hsm_discovery_events_total{result=\"failed\"} 3\n"),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_replug_between_two_looks_is_the_same_token_at_its_new_file() {
    let mut stage = Stage::new(Silence).await;
    stage.tree.plug(PICO);
    stage.until_at(PATH).await;
    stage.tree.unplug(PICO);
    stage.tree.plug(Plug { number: 16, ..PICO });
    assert!(stage.until_at("/dev/bus/usb/001/016").await <= LOOK);
    assert_eq!(stage.picture.borrow().devices.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn two_tokens_with_one_serial_number_are_both_seen_and_marked() {
    let mut stage = Stage::new(Silence).await;
    stage.tree.plug(PICO);
    stage.until_at(PATH).await;
    stage.tree.plug(Plug {
        port: "1-4",
        number: 16,
        ..PICO
    });
    stage.until_at("/dev/bus/usb/001/016").await;
    let picture = stage.picture.borrow().clone();
    assert_eq!(picture.devices.len(), 2);
    assert!(
        picture
            .devices
            .iter()
            .all(|device| device.available && device.found.info["duplicate-serial"] == "2")
    );
}

#[tokio::test(start_paused = true)]
async fn a_lost_token_is_remembered_for_the_grace_period() {
    let mut stage = Stage::new(Silence).await;
    stage.tree.plug(PICO);
    stage.until_at(PATH).await;
    stage.tree.unplug(PICO);
    let lost = |picture: &Picture| picture.devices.len() == 1 && !picture.devices[0].available;
    stage.until(lost).await;
    stage.clock.advance(SignedDuration::from_secs(299));
    tokio::time::sleep(LOOK * 2).await;
    assert!(lost(&stage.picture.borrow()));
    stage.clock.advance(SignedDuration::from_secs(1));
    assert!(stage.until(|picture| picture.devices.is_empty()).await <= LOOK);
}

#[tokio::test(start_paused = true)]
async fn a_tree_that_cannot_be_read_is_told_and_what_was_known_stays() {
    let mut stage = Stage::new(Silence).await;
    stage.tree.plug(PICO);
    stage.until_at(PATH).await;
    let aside = stage.tree.sysfs().with_file_name("aside");
    fs::rename(stage.tree.sysfs(), &aside).unwrap();
    stage
        .until(|picture| matches!(picture.look, Look::Failed(_)))
        .await;
    assert!(stage.picture.borrow().devices[0].available);
    fs::rename(&aside, stage.tree.sysfs()).unwrap();
    stage.until(|picture| picture.look == Look::Done).await;
    assert!(stage.picture.borrow().devices[0].available);
}

#[tokio::test(start_paused = true)]
async fn a_device_whose_file_comes_late_is_looked_for_again() {
    let mut stage = Stage::new(Silence).await;
    stage.tree.plug(PICO);
    let node = stage.tree.dev().join("bus/usb/001/015");
    fs::remove_file(&node).unwrap();
    tokio::time::sleep(LOOK * 2).await;
    assert!(stage.picture.borrow().devices.is_empty());
    // Nothing of the bus changes with it.
    fs::write(&node, "").unwrap();
    assert!(stage.until_at(PATH).await <= LOOK);
}
