//! The tokens of a type from all processes of a node, whoever of them serves the type.
//!
//! Each process writes its own into a file, and holds the lock of another file beside it for as long as it lives. A file whose lock
//! is free is that of a process that has ended: it is passed over and removed.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::claim::Claim;
use super::{Offer, Plugin, put, state_dir};

/// The files of a process: its list, the list that it is about to put there, and the lock that it holds.
const FILES: [&str; 3] = ["json", "next", "lock"];
/// The largest file of another process that is read.
const LARGEST: u64 = 1024 * 1024;
/// The most processes that are listened to.
const MOST: usize = 256;

/// Our place among the processes that offer a type.
#[derive(Debug)]
pub(super) struct Share {
    dir: PathBuf,
    owner: String,
    claim: Option<Claim>,
}

impl Share {
    pub(super) fn new(plugin: &Plugin, resource: &str) -> Self {
        Self {
            dir: state_dir(&plugin.dir).join(resource.replace('/', "_")),
            owner: plugin.owner.clone(),
            claim: None,
        }
    }

    /// Tells the others what we have, and says what all have together, until it is told to stop.
    pub(super) async fn run(
        mut self,
        mut own: watch::Receiver<Vec<Offer>>,
        all: watch::Sender<Vec<Offer>>,
        check: Duration,
        stop: CancellationToken,
    ) {
        let mut failing = false;
        loop {
            let ours = own.borrow_and_update().clone();
            let together = self.publish(&ours).and_then(|()| self.others());
            if let Err(error) = &together
                && !failing
            {
                tracing::warn!(%error, dir = %self.dir.display(), "cannot share devices with other processes");
            }
            failing = together.is_err();
            put(&all, merged(&ours, together.unwrap_or_default()));
            tokio::select! {
                () = stop.cancelled() => break,
                changed = own.changed() => if changed.is_err() { break },
                () = tokio::time::sleep(check) => {}
            }
        }
        self.withdraw();
    }

    /// Writes down what we have, in one step.
    fn publish(&mut self, ours: &[Offer]) -> io::Result<()> {
        if self.claim.as_ref().is_none_or(|claim| !claim.holds()) {
            let mut builder = fs::DirBuilder::new();
            builder.recursive(true).mode(0o700).create(&self.dir)?;
            self.claim = Claim::take(&self.file("lock"))?;
        }
        if self.claim.is_none() {
            return Err(io::Error::other("another process has our name"));
        }
        let text = serde_json::to_vec(ours)?;
        if fs::read(self.file("json")).is_ok_and(|old| old == text) {
            return Ok(());
        }
        fs::write(self.file("next"), text)?;
        fs::rename(self.file("next"), self.file("json"))
    }

    /// What the others have, as far as they live. Whatever a process has left that does not is removed: its name will not come back.
    fn others(&self) -> io::Result<Vec<Offer>> {
        let mut owners = BTreeSet::new();
        for entry in fs::read_dir(&self.dir)?.take(MOST * 3) {
            let path = entry?.path();
            let extension = path.extension().and_then(OsStr::to_str);
            if extension.is_some_and(|extension| FILES.contains(&extension)) {
                owners.insert(path.with_extension(""));
            }
        }
        owners.remove(&self.dir.join(&self.owner));
        let mut offers = Vec::new();
        for owner in owners {
            let file = |extension: &str| {
                let mut name = owner.clone().into_os_string();
                name.push(format!(".{extension}"));
                PathBuf::from(name)
            };
            match Claim::take(&file("lock"))? {
                None => offers.extend(read(&file("json"))),
                Some(claim) => {
                    let _ = fs::remove_file(file("json"));
                    let _ = fs::remove_file(file("next"));
                    claim.remove();
                }
            }
        }
        Ok(offers)
    }

    fn withdraw(&mut self) {
        let _ = fs::remove_file(self.file("json"));
        if let Some(claim) = self.claim.take() {
            claim.remove();
        }
    }

    fn file(&self, extension: &str) -> PathBuf {
        self.dir.join(format!("{}.{extension}", self.owner))
    }
}

/// The list of another process; nothing if it makes no sense.
fn read(path: &Path) -> Vec<Offer> {
    let mut text = Vec::new();
    let read = File::open(path).and_then(|file| file.take(LARGEST).read_to_end(&mut text));
    let offers: Vec<Offer> = read
        .ok()
        .and_then(|_| serde_json::from_slice(&text).ok())
        .unwrap_or_default();
    offers.into_iter().filter(Offer::is_sound).collect()
}

/// Each device once. What two see differently cannot be used until they agree.
fn merged(ours: &[Offer], others: Vec<Offer>) -> Vec<Offer> {
    let mut all: BTreeMap<String, Offer> = BTreeMap::new();
    for offer in ours.iter().cloned().chain(others) {
        let healthy = offer.healthy;
        let known = all.entry(offer.id.clone()).or_insert(offer);
        known.healthy &= healthy;
    }
    all.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(id: &str, healthy: bool) -> Offer {
        Offer {
            id: id.to_owned(),
            path: format!("/dev/{id}"),
            node: format!("/dev/{id}"),
            serial: None,
            healthy,
        }
    }

    fn share(dir: &Path, owner: &str) -> Share {
        Share {
            dir: dir.join("hsm.j5t.io/hsm.j5t.io_picohsm"),
            owner: owner.to_owned(),
            claim: None,
        }
    }

    fn ids(offers: &[Offer]) -> Vec<(&str, bool)> {
        offers
            .iter()
            .map(|offer| (offer.id.as_str(), offer.healthy))
            .collect()
    }

    #[test]
    fn all_see_what_all_have() {
        let dir = tempfile::tempdir().unwrap();
        let (mut one, mut other) = (share(dir.path(), "one"), share(dir.path(), "other"));
        let (ours, theirs) = (vec![offer("a", true)], vec![offer("b", true), offer("c", false)]);
        one.publish(&ours).unwrap();
        other.publish(&theirs).unwrap();
        assert_eq!(
            ids(&merged(&ours, one.others().unwrap())),
            [("a", true), ("b", true), ("c", false)]
        );
        assert_eq!(
            merged(&ours, one.others().unwrap()),
            merged(&theirs, other.others().unwrap())
        );
    }

    #[test]
    fn what_a_process_had_goes_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let (mut one, mut other) = (share(dir.path(), "one"), share(dir.path(), "other"));
        one.publish(&[offer("a", true)]).unwrap();
        other.publish(&[offer("b", true)]).unwrap();
        // As if it had been killed: nothing is tidied up, but the lock is free.
        other.claim = None;
        assert_eq!(one.others().unwrap(), []);
        assert!(!other.file("json").exists() && !other.file("lock").exists());
        // Or before it had a list, or while it changed one.
        for left in [&["lock"][..], &["next"], &["next", "lock"], &["json", "next"]] {
            for extension in left {
                fs::write(other.file(extension), "[]").unwrap();
            }
            assert_eq!(one.others().unwrap(), []);
            let files = fs::read_dir(&one.dir).unwrap();
            let names: BTreeSet<_> = files.map(|file| file.unwrap().file_name()).collect();
            assert_eq!(names, ["one.json", "one.lock"].map(Into::into).into(), "{left:?}");
        }
        // Its successor of the same name starts anew.
        other.publish(&[offer("b", true)]).unwrap();
        assert_eq!(one.others().unwrap(), [offer("b", true)]);
        other.withdraw();
        assert_eq!(one.others().unwrap(), []);
    }

    #[test]
    fn a_device_that_two_have_is_counted_once_and_is_healthy_only_for_both() {
        let all = merged(
            &[offer("a", true), offer("b", true)],
            vec![offer("a", false), offer("b", true)],
        );
        assert_eq!(ids(&all), [("a", false), ("b", true)]);
    }

    #[test]
    fn nonsense_of_others_is_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let mut one = share(dir.path(), "one");
        one.publish(&[]).unwrap();
        let evil = r#"[{"id":"x","path":"/etc/shadow","node":"/etc/shadow","healthy":true}]"#;
        let _held: Vec<_> = [("evil", evil), ("broken", "{"), ("empty", "")]
            .into_iter()
            .map(|(owner, text)| {
                let other = share(dir.path(), owner);
                fs::write(other.file("json"), text).unwrap();
                Claim::take(&other.file("lock")).unwrap().unwrap()
            })
            .collect();
        assert_eq!(one.others().unwrap(), []);
    }
}
