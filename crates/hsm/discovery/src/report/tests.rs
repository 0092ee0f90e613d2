use std::sync::Mutex;

use jiff::Timestamp;
use tokio::sync::mpsc;
use trustplane_api::hsm::DiscoveryStatus;
use trustplane_hsm_core::usb::{Found, Tracked};
use trustplane_process::clock::ManualClock;

use super::*;

/// Takes reports, unless it is told to fail.
struct Notes {
    taken: mpsc::UnboundedSender<(Instant, DeviceReport)>,
    failing: Arc<Mutex<bool>>,
    tried: mpsc::UnboundedSender<()>,
}

impl Sink for Notes {
    type Error = &'static str;

    async fn write(&self, report: String) -> Result<(), Self::Error> {
        self.tried.send(()).unwrap();
        if *self.failing.lock().unwrap() {
            return Err("the API server is away");
        }
        let report = serde_json::from_str(&report).unwrap();
        self.taken.send((Instant::now(), report)).unwrap();
        Ok(())
    }
}

struct Stage {
    picture: watch::Sender<Picture>,
    taken: mpsc::UnboundedReceiver<(Instant, DeviceReport)>,
    tried: mpsc::UnboundedReceiver<()>,
    failing: Arc<Mutex<bool>>,
    started: Instant,
    _stop: tokio_util::sync::DropGuard,
}

impl Stage {
    fn new(grace: u64) -> Self {
        let (taken, received) = mpsc::unbounded_channel();
        let (tries, tried) = mpsc::unbounded_channel();
        let failing = Arc::new(Mutex::new(false));
        let herald = Herald {
            reporter: Reporter {
                device: "pico".to_owned(),
                node: "n1".to_owned(),
            },
            sink: Notes {
                taken,
                failing: failing.clone(),
                tried: tries,
            },
            cadence: Cadence::new(Duration::from_secs(grace)),
            backoff: Backoff::default(),
            clock: Arc::new(ManualClock::new(Timestamp::UNIX_EPOCH)),
            counts: Counts::default(),
        };
        let (picture, stop) = (watch::Sender::default(), CancellationToken::new());
        tokio::spawn(herald.run(picture.subscribe(), None, stop.clone()));
        Self {
            picture,
            taken: received,
            tried,
            failing,
            started: Instant::now(),
            _stop: stop.drop_guard(),
        }
    }

    fn show(&self, serials: &[&str]) {
        let devices = serials.iter().map(|serial| Tracked {
            found: Found {
                device_path: format!("/dev/{serial}"),
                node: format!("/dev/{serial}"),
                serial: Some((*serial).to_owned()),
                info: [].into(),
            },
            available: true,
            since: Timestamp::UNIX_EPOCH,
        });
        let devices = devices.collect();
        let look = Look::Done;
        self.picture.send_replace(Picture {
            devices,
            left_out: 0,
            look,
        });
    }

    /// The next report, and how many seconds after the start it came.
    async fn next(&mut self) -> (u64, DeviceReport) {
        let (at, report) = self.taken.recv().await.unwrap();
        ((at - self.started).as_secs(), report)
    }
}

fn serials(report: &DeviceReport) -> Vec<&str> {
    let devices = report.discovered_devices.iter();
    devices
        .filter_map(|device| device.serial_number.as_deref())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn changes_are_written_at_once_and_a_quiet_node_gives_signs_of_life() {
    let mut stage = Stage::new(300);
    stage.show(&["a"]);
    let (at, report) = stage.next().await;
    assert_eq!((at, serials(&report)), (0, vec!["a"]));
    assert_eq!(report.discovery_status, DiscoveryStatus::Completed);
    // In the original the time of a quiet node's report goes stale.
    for beat in [100, 200] {
        let (at, report) = stage.next().await;
        assert_eq!((at, serials(&report)), (beat, vec!["a"]));
    }
    stage.show(&["a", "b"]);
    let (at, report) = stage.next().await;
    assert_eq!((at, serials(&report)), (200 + 1, vec!["a", "b"]));
    assert_eq!(stage.next().await.0, 301);
}

#[tokio::test(start_paused = true)]
async fn a_device_that_comes_and_goes_does_not_flood_the_cluster() {
    let mut stage = Stage::new(300);
    for round in 0..400 {
        stage.show(if round % 2 == 0 { &["a"] } else { &[] });
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    stage.show(&["z"]);
    let mut written = 0;
    loop {
        let (_, report) = stage.next().await;
        written += 1;
        if serials(&report) == ["z"] {
            break;
        }
    }
    assert!(written <= 6, "{written}");
}

#[tokio::test(start_paused = true)]
async fn while_the_api_server_is_away_it_goes_on_and_then_the_newest_is_written() {
    let mut stage = Stage::new(300);
    *stage.failing.lock().unwrap() = true;
    stage.show(&["a"]);
    for serial in ["b", "c", "d"] {
        stage.tried.recv().await.unwrap();
        stage.show(&[serial]);
    }
    *stage.failing.lock().unwrap() = false;
    let (_, report) = stage.next().await;
    assert_eq!(serials(&report), ["d"]);
    // Nothing of what was tried before comes later.
    assert_eq!(serials(&stage.next().await.1), ["d"]);
}

#[tokio::test(start_paused = true)]
async fn a_look_that_takes_long_is_told_as_such() {
    let mut stage = Stage::new(300);
    let (at, report) = stage.next().await;
    assert_eq!((at, report.discovery_status), (5, DiscoveryStatus::Discovering));
    stage.show(&[]);
    let (_, report) = stage.next().await;
    assert_eq!(report.discovery_status, DiscoveryStatus::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_look_that_failed_is_told_with_its_reason() {
    let mut stage = Stage::new(300);
    let look = Look::Failed("no sysfs at /sys".to_owned());
    let devices = Vec::new();
    stage.picture.send_replace(Picture {
        devices,
        left_out: 0,
        look,
    });
    let (_, report) = stage.next().await;
    assert_eq!(report.discovery_status, DiscoveryStatus::Error);
    assert_eq!(report.error.as_deref(), Some("no sysfs at /sys"));
}
