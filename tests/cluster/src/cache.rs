//! Where everything that outlives a command is kept, and the locks that order the commands that use it.

use std::fs::{self, File, TryLockError};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::interrupt;

/// The cache directory: built tools, clusters and CI's cargo target directory, never anything in the work tree.
///
/// ```
/// let cache = trustplane_cluster::cache::Cache::at("/var/cache/trustplane");
/// assert!(cache.tools().ends_with("tools"));
/// ```
#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
}

impl Cache {
    /// The cache of this user: `$TRUSTPLANE_CACHE`, else `$XDG_CACHE_HOME/trustplane`, else `~/.cache/trustplane`.
    pub fn locate() -> Result<Self> {
        Self::from_environment(|name| std::env::var_os(name).map(PathBuf::from))
    }

    fn from_environment(variable: impl Fn(&str) -> Option<PathBuf>) -> Result<Self> {
        // The XDG rules ask to ignore relative paths; ours is refused below instead, as it was set for us alone.
        let root = variable("TRUSTPLANE_CACHE")
            .filter(|path| !path.as_os_str().is_empty())
            .or_else(|| {
                variable("XDG_CACHE_HOME")
                    .filter(|path| path.is_absolute())
                    .map(|path| path.join("trustplane"))
            })
            .or_else(|| variable("HOME").map(|home| home.join(".cache/trustplane")))
            .context("find the cache directory: neither TRUSTPLANE_CACHE, XDG_CACHE_HOME nor HOME is set")?;
        if !root.is_absolute() {
            bail!("the cache directory {} is not an absolute path", root.display());
        }
        Ok(Self { root })
    }

    /// A cache in a directory of the caller's choice.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The directory itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Built tools, one directory per tool and hash of its inputs.
    pub fn tools(&self) -> PathBuf {
        self.root.join("tools")
    }

    /// One directory per cluster.
    pub fn clusters(&self) -> PathBuf {
        self.root.join("clusters")
    }

    /// The cargo target directory of CI, so that a fresh clone does not compile the world again.
    pub fn target(&self) -> PathBuf {
        self.root.join("target")
    }
}

/// An exclusive lock between processes, held until it is dropped or its holder ends in any way.
#[derive(Debug)]
pub struct Lock {
    _file: File,
    path: PathBuf,
}

impl Lock {
    /// Takes the lock, and tells the user after a moment what is being waited for.
    pub fn wait(path: &Path, purpose: &str) -> Result<Self> {
        let started = Instant::now();
        let mut told = false;
        loop {
            if let Some(lock) = Self::try_take(path)? {
                return Ok(lock);
            }
            interrupt::check()?;
            if !told && started.elapsed() > Duration::from_millis(500) {
                told = true;
                let holder = fs::read_to_string(path).unwrap_or_default();
                let _ = writeln!(
                    std::io::stderr(),
                    "waiting for another run (process {}) that holds the lock of {purpose}",
                    holder.trim()
                );
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Takes the lock if nobody holds it.
    pub fn try_take(path: &Path) -> Result<Option<Self>> {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).with_context(|| format!("create {}", parent.display()))?;
        }
        let mut file = File::options()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(path)
            .with_context(|| format!("open the lock file {}", path.display()))?;
        match file.try_lock() {
            Ok(()) if Self::is_current(&file, path) => {
                // The pid is for people who wait; the lock itself is the kernel's.
                file.set_len(0)?;
                writeln!(file, "{}", std::process::id())?;
                Ok(Some(Self {
                    _file: file,
                    path: path.to_owned(),
                }))
            }
            Ok(()) | Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error).with_context(|| format!("lock {}", path.display())),
        }
    }

    /// Removes the file of the lock, which is held until it is dropped nevertheless. Who waits for it starts anew
    /// with a new file.
    pub fn unlink(&self) -> Result<()> {
        fs::remove_file(&self.path).with_context(|| format!("remove {}", self.path.display()))
    }

    /// A file that was removed while we waited for its lock excludes nobody any more.
    fn is_current(file: &File, path: &Path) -> bool {
        let inode = |metadata: &fs::Metadata| (metadata.dev(), metadata.ino());
        matches!((file.metadata(), fs::metadata(path)), (Ok(ours), Ok(now)) if inode(&ours) == inode(&now))
    }
}

/// Writes a file so that a reader, or a crash at any moment, sees the old content or the new and nothing between.
pub fn write_atomically(path: &Path, content: &[u8]) -> Result<()> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let attempt = || -> std::io::Result<()> {
        let mut file = File::create(&partial)?;
        file.write_all(content)?;
        file.sync_data()?;
        fs::rename(&partial, path)
    };
    attempt().with_context(|| format!("write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn located(variables: &[(&str, &str)]) -> Option<PathBuf> {
        let lookup = |name: &str| {
            variables
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| PathBuf::from(value))
        };
        Cache::from_environment(lookup).ok().map(|cache| cache.root)
    }

    #[test]
    fn the_most_specific_variable_decides_where_the_cache_is() {
        let all = [
            ("TRUSTPLANE_CACHE", "/a"),
            ("XDG_CACHE_HOME", "/b"),
            ("HOME", "/c"),
        ];
        assert_eq!(located(&all), Some("/a".into()));
        assert_eq!(located(&all[1..]), Some("/b/trustplane".into()));
        assert_eq!(located(&all[2..]), Some("/c/.cache/trustplane".into()));
        assert_eq!(
            located(&[("XDG_CACHE_HOME", "relative"), ("HOME", "/c")]),
            Some("/c/.cache/trustplane".into())
        );
        assert_eq!(located(&[("TRUSTPLANE_CACHE", "relative"), ("HOME", "/c")]), None);
        assert_eq!(located(&[]), None);
    }

    #[test]
    fn a_lock_excludes_until_it_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("nested/thing.lock");
        let first = Lock::try_take(&path).unwrap().expect("a free lock is given");
        assert!(
            Lock::try_take(&path).unwrap().is_none(),
            "a held lock was given twice"
        );
        let waiter = std::thread::spawn({
            let path = path.clone();
            move || Lock::wait(&path, "the thing").map(drop)
        });
        drop(first);
        waiter.join().unwrap().unwrap();
        assert!(Lock::try_take(&path).unwrap().is_some());
    }

    #[test]
    fn a_lock_whose_file_was_removed_is_not_given() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("thing.lock");
        let stale = File::create(&path).unwrap();
        Lock::try_take(&path).unwrap().unwrap().unlink().unwrap();
        assert!(!path.exists());
        let _fresh = Lock::try_take(&path).unwrap().unwrap();
        assert!(!Lock::is_current(&stale, &path));
    }
}
