//! What is known of the tokens of a node, for the pod that comes after this one.
//!
//! A report goes with its pod; but which tokens are in use, and which of two was there first, has to outlast a roll-out. So what is
//! known is also kept in a file on the node, one for each HSMDevice. It is always whole: it is made beside its place and then
//! renamed, so it does not matter if the old pod still writes while the new one starts.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use trustplane_api::hsm::ReportedDevice;
use trustplane_hsm_core::usb::report::{LARGEST, Look, Reporter, written};
use trustplane_process::clock::Clock;

use crate::watch::Picture;

/// The file of an HSMDevice on this node.
#[derive(Debug, Clone)]
pub struct Memory {
    dir: PathBuf,
    file: PathBuf,
    /// What it is made as: no other process has this name.
    next: PathBuf,
    reporter: Reporter,
}

impl Memory {
    /// In a directory that stays with the node, for an HSMDevice of a namespace. `process` is a name that no other one has.
    pub fn new(dir: &Path, namespace: &str, reporter: Reporter, process: &str) -> Self {
        let dir = dir.join("known").join(namespace);
        Self {
            file: dir.join(format!("{}.json", reporter.device)),
            next: dir.join(format!("{process}.next")),
            dir,
            reporter,
        }
    }

    /// What the pod before this one knew; nothing if there was none, or if it makes no sense.
    pub fn recall(&self) -> Option<Vec<ReportedDevice>> {
        // Whatever else stands there is not opened.
        if !fs::symlink_metadata(&self.file).ok()?.is_file() {
            return None;
        }
        let most = u64::try_from(LARGEST).ok()?;
        let mut text = String::new();
        let file = File::open(&self.file).ok()?;
        file.take(most + 1).read_to_string(&mut text).ok()?;
        self.reporter.recall(&text)
    }

    /// Keeps what is known after each look that has seen all, until it is told to stop.
    pub async fn run(
        self,
        mut picture: watch::Receiver<Picture>,
        clock: Arc<dyn Clock>,
        stop: CancellationToken,
    ) {
        let mut is_new = true;
        loop {
            if is_new {
                self.take_in(&picture.borrow_and_update().clone(), &*clock);
            }
            // What was seen last is kept even if it came together with the end.
            if stop.is_cancelled() {
                return;
            }
            tokio::select! {
                () = stop.cancelled() => is_new = picture.has_changed().unwrap_or(false),
                changed = picture.changed() => match changed {
                    Ok(()) => is_new = true,
                    Err(_) => return,
                },
            }
        }
    }

    fn take_in(&self, picture: &Picture, clock: &dyn Clock) {
        if picture.look != Look::Done {
            return;
        }
        let report = self.reporter.report(&picture.devices, 0, &Look::Done);
        let text = written(&report, clock.now()).map_err(io::Error::from);
        if let Err(error) = text.and_then(|text| self.keep(&text)) {
            let file = self.file.display();
            tracing::warn!(%error, %file, "cannot keep what is known for the next pod");
        }
    }

    fn keep(&self, text: &str) -> io::Result<()> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(&self.dir)?;
        fs::write(&self.next, text)?;
        fs::rename(&self.next, &self.file)
    }
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};
    use trustplane_hsm_core::examples::tracked;
    use trustplane_hsm_core::usb::{Found, Tracker};
    use trustplane_process::clock::SystemClock;

    use super::*;

    fn memory(dir: &Path, device: &str, process: &str) -> Memory {
        let reporter = Reporter {
            device: device.to_owned(),
            node: "n1".to_owned(),
        };
        Memory::new(dir, "vault", reporter, process)
    }

    /// Lets a process know this, and end.
    async fn lived(memory: Memory, look: Look, devices: &[(&str, &str, i64)]) {
        let devices = devices.iter();
        let (sender, receiver) = watch::channel(Picture {
            devices: devices
                .map(|(serial, path, since)| tracked(Some(serial), path, true, *since))
                .collect(),
            left_out: 0,
            look,
        });
        drop(sender);
        let clock = Arc::new(SystemClock);
        memory.run(receiver, clock, CancellationToken::new()).await;
    }

    fn found(serial: &str, path: &str) -> Found {
        tracked(Some(serial), path, true, 0).found
    }

    /// What a new process makes of the first look: serial numbers, paths and times.
    fn begun(memory: &Memory, limit: Option<usize>, seen: Vec<Found>) -> Vec<(String, String, i64)> {
        let now = Timestamp::from_second(1_000).unwrap();
        let mut tracker = Tracker::new(limit, SignedDuration::from_secs(300));
        tracker.restore(&memory.recall().unwrap_or_default(), now);
        tracker.see(seen, now);
        let devices = tracker.devices().iter();
        let line = |device: &trustplane_hsm_core::usb::Tracked| {
            let found = &device.found;
            (
                found.serial.clone().unwrap_or_default(),
                found.device_path.clone(),
                device.since.as_second(),
            )
        };
        devices.map(line).collect()
    }

    #[tokio::test]
    async fn a_token_in_use_keeps_its_place_when_the_pod_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        lived(
            memory(dir.path(), "pico", "old"),
            Look::Done,
            &[("z", "/dev/z", 5_000)],
        )
        .await;
        let seen = vec![found("a", "/dev/a"), found("z", "/dev/z")];
        let new = memory(dir.path(), "pico", "new");
        let wanted = [("z".to_owned(), "/dev/z".to_owned(), 5)];
        assert_eq!(begun(&new, Some(1), seen.clone()), wanted);
        // Another HSMDevice knows nothing of it.
        assert_eq!(
            begun(&memory(dir.path(), "other", "new"), Some(1), seen)[0].0,
            "a"
        );
    }

    #[tokio::test]
    async fn of_two_tokens_with_one_serial_number_the_first_stays_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let twins = [("e6", "/dev/1", 9_000), ("e6", "/dev/2", 5_000)];
        lived(memory(dir.path(), "pico", "old"), Look::Done, &twins).await;
        let seen = vec![found("e6", "/dev/1"), found("e6", "/dev/2")];
        let times = begun(&memory(dir.path(), "pico", "new"), None, seen);
        let times: Vec<_> = times
            .iter()
            .map(|(_, path, since)| (path.as_str(), *since))
            .collect();
        assert_eq!(times, [("/dev/1", 9), ("/dev/2", 5)]);
    }

    #[tokio::test]
    async fn a_look_that_failed_is_not_kept() {
        let dir = tempfile::tempdir().unwrap();
        let new = memory(dir.path(), "pico", "new");
        assert_eq!(new.recall(), None);
        for look in [Look::None, Look::Failed("x".to_owned())] {
            lived(new.clone(), look, &[("z", "/dev/z", 5_000)]).await;
            assert_eq!(new.recall(), None);
        }
    }

    #[test]
    fn two_pods_that_write_at_once_leave_a_file_that_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let many = |length: usize| {
            let devices: Vec<_> = (0..length)
                .map(|n| tracked(Some("z"), &format!("/dev/{n}"), true, 0))
                .collect();
            let report = memory(dir.path(), "pico", "")
                .reporter
                .report(&devices, 0, &Look::Done);
            written(&report, Timestamp::UNIX_EPOCH).unwrap()
        };
        let (short, long) = (many(1), many(100));
        memory(dir.path(), "pico", "first").keep(&short).unwrap();
        std::thread::scope(|scope| {
            for (process, text) in [("old", &short), ("new", &long)] {
                let process = memory(dir.path(), "pico", process);
                scope.spawn(move || (0..500).for_each(|_| process.keep(text).unwrap()));
            }
            for _ in 0..500 {
                let recalled = memory(dir.path(), "pico", "reader").recall();
                assert!(matches!(recalled.map(|devices| devices.len()), Some(1 | 100)));
            }
        });
        let left = fs::read_dir(dir.path().join("known/vault")).unwrap();
        assert_eq!(left.count(), 1);
    }

    #[tokio::test]
    async fn nonsense_in_its_place_is_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let new = memory(dir.path(), "pico", "new");
        lived(new.clone(), Look::Done, &[("z", "/dev/z", 5_000)]).await;
        let good = fs::read_to_string(&new.file).unwrap();
        assert!(new.recall().is_some());
        let endless = format!("{good}{}", " ".repeat(LARGEST));
        for text in ["", "{", "[]", &good.replace("n1", "n2"), &endless] {
            fs::write(&new.file, text).unwrap();
            assert_eq!(new.recall(), None, "{text:.40}");
        }
        fs::remove_file(&new.file).unwrap();
        fs::create_dir(&new.file).unwrap();
        assert_eq!(new.recall(), None);
    }
}
