//! Who of several processes does something: the one that holds the lock of a file.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use trustplane_process::lock::{self, Lock};

/// A lock that is held, of a file that goes with it.
#[derive(Debug)]
pub(super) struct Claim {
    file: File,
    path: PathBuf,
}

/// Which file a name stands for. A new file of the same name is another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
    /// The number of a file may be given out again; not at the same moment.
    changed: (i64, i64),
}

impl Identity {
    /// Of what is at a path; nothing if there is nothing.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let metadata = fs::symlink_metadata(path).ok()?;
        Some(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }
}

impl Claim {
    /// Takes the lock; nothing if another has it.
    pub(super) fn take(path: &Path) -> io::Result<Option<Self>> {
        let Lock::Ours(file) = lock::take(path)? else {
            return Ok(None);
        };
        let path = path.to_owned();
        let claim = Self { file, path };
        // Somebody may have removed the file while we waited for its lock: then others would lock another one.
        Ok(claim.holds().then_some(claim))
    }

    /// Whether the file is still the one of that name.
    pub(super) fn holds(&self) -> bool {
        let ours = self
            .file
            .metadata()
            .map(|metadata| (metadata.dev(), metadata.ino()));
        let there = fs::symlink_metadata(&self.path).map(|metadata| (metadata.dev(), metadata.ino()));
        matches!((ours, there), (Ok(ours), Ok(there)) if ours == there)
    }

    /// Removes the file, and lets go. Whoever has opened it meanwhile finds that it is no longer the one of that name.
    pub(super) fn remove(self) {
        if self.holds() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn one_holds_it_and_the_next_takes_it_afterwards() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let first = Claim::take(&path).unwrap().unwrap();
        assert!(first.holds());
        assert!(Claim::take(&path).unwrap().is_none());
        drop(first);
        assert!(Claim::take(&path).unwrap().is_some());
    }

    #[test]
    fn a_lock_on_a_file_that_was_removed_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let first = Claim::take(&path).unwrap().unwrap();
        fs::remove_file(&path).unwrap();
        assert!(!first.holds());
        let second = Claim::take(&path).unwrap().unwrap();
        assert!(second.holds() && !first.holds());
    }

    /// Each takes it, and removes it afterwards, while the others try the same.
    #[test]
    fn a_lock_that_is_removed_is_never_held_by_two() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let (holders, taken) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2_000 {
                        let Some(claim) = Claim::take(&path).unwrap() else {
                            continue;
                        };
                        assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0);
                        taken.fetch_add(1, Ordering::SeqCst);
                        assert!(claim.holds());
                        holders.fetch_sub(1, Ordering::SeqCst);
                        claim.remove();
                    }
                });
            }
        });
        assert!(taken.load(Ordering::SeqCst) > 0 && !path.exists());
    }

    #[test]
    fn a_file_that_was_made_anew_is_another_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        assert_eq!(Identity::of(&path), None);
        fs::write(&path, "").unwrap();
        let first = Identity::of(&path);
        assert_eq!(first, Identity::of(&path));
        // Both are there for a moment, so they have different numbers.
        fs::write(dir.path().join("next"), "").unwrap();
        fs::rename(dir.path().join("next"), &path).unwrap();
        assert_ne!(first, Identity::of(&path));
    }
}
