//! What a cluster leaves on the machine, and how each kind of it is removed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::mount::{UnmountFlags, unmount};
use serde::{Deserialize, Serialize};

use crate::daemon;
use crate::identity::Identity;
use crate::node::control_group;
use crate::wait;

/// What it may take until no process is left that left its parent.
const DESCENDANTS_LIMIT: Duration = Duration::from_secs(60);

/// One thing that `up` made. All but processes are recorded before they are made, so removing one that does not
/// exist is no error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Resource {
    /// A running program.
    Process {
        /// Its name in the cluster.
        name: String,
        /// Which process.
        identity: Identity,
        /// How long it may take to end by itself.
        grace: Duration,
    },
    /// Processes that left their parent, such as the shims of containerd: whatever carries the cluster's marker
    /// and is not recorded by itself. Record it before the parent, so that it is removed after it.
    Descendants,
    /// A mount point, with everything mounted below it.
    Mount {
        /// Where.
        target: PathBuf,
    },
    /// A network namespace made by `ip netns add`.
    NetworkNamespace {
        /// Its name.
        name: String,
    },
    /// A network interface in the namespace that the command runs in.
    Link {
        /// Its name.
        name: String,
    },
    /// A control group, with those below it and the processes in them.
    ControlGroup {
        /// Its directory.
        path: PathBuf,
    },
    /// A directory outside the cluster's own.
    Directory {
        /// Where.
        path: PathBuf,
    },
}

impl Resource {
    /// Whether it is a process of that name.
    pub(crate) fn is_process(&self, wanted: &str) -> bool {
        matches!(self, Self::Process { name, .. } if name == wanted)
    }

    /// Removes it if it is there. `survivors` are the recorded processes that are not removed yet.
    pub(crate) fn remove(&self, cluster_dir: &Path, survivors: &[Identity]) -> Result<()> {
        match self {
            Self::Process {
                name,
                identity,
                grace,
            } => identity.stop(*grace).with_context(|| format!("stop {name}")),
            Self::Descendants => end_descendants(cluster_dir, survivors),
            Self::Mount { target } => unmount_below(target),
            Self::NetworkNamespace { name } => {
                remove_with_ip(&Path::new("/run/netns").join(name), &["netns", "delete", name])
            }
            Self::Link { name } => {
                remove_with_ip(&Path::new("/sys/class/net").join(name), &["link", "delete", name])
            }
            Self::ControlGroup { path } => control_group::remove(path),
            Self::Directory { path } => remove_directory(path),
        }
    }
}

fn end_descendants(cluster_dir: &Path, survivors: &[Identity]) -> Result<()> {
    // Again and again, as one may fork between the look and its end.
    let ended = wait::patiently(DESCENDANTS_LIMIT, || {
        let mut left = daemon::marked(cluster_dir)?;
        left.retain(|process| !survivors.contains(process));
        for process in &left {
            process.stop(Duration::from_secs(2))?;
        }
        Ok(left.is_empty())
    })?;
    if !ended {
        bail!("after {DESCENDANTS_LIMIT:?} of ending them, processes of the cluster are still there");
    }
    Ok(())
}

/// Removes a directory tree after everything mounted in it, so that nothing of a mounted file system is deleted.
pub(crate) fn remove_directory(path: &Path) -> Result<()> {
    unmount_below(path)?;
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// Unmounts what is mounted at or below a path, the latest first, and makes sure that nothing is left.
fn unmount_below(path: &Path) -> Result<()> {
    for target in mounts_below(path)?.iter().rev() {
        // Detached, not forced: a file still open keeps its file system alive, but no longer holds up the removal.
        unmount(target, UnmountFlags::DETACH).with_context(|| format!("unmount {}", target.display()))?;
    }
    match mounts_below(path)?.first() {
        Some(left) => bail!("{} is still mounted", left.display()),
        None => Ok(()),
    }
}

fn mounts_below(path: &Path) -> Result<Vec<PathBuf>> {
    let table = fs::read_to_string("/proc/self/mountinfo").context("read the mount table")?;
    Ok(mount_points(&table)
        .filter(|target| target.starts_with(path))
        .collect())
}

/// The fifth field of each line, with its octal escapes undone.
fn mount_points(table: &str) -> impl Iterator<Item = PathBuf> {
    table
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .map(|field| PathBuf::from(unescape(field)))
}

fn unescape(field: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(field.to_owned(), |text, (escape, character)| {
            text.replace(escape, character)
        })
}

fn remove_with_ip(evidence: &Path, arguments: &[&str]) -> Result<()> {
    if !evidence.exists() {
        return Ok(());
    }
    let output = Command::new("ip").args(arguments).output().context("run ip")?;
    // Deleting one end of a pair takes the other along, perhaps between the look and the call.
    if !output.status.success() && evidence.exists() {
        bail!(
            "ip {}: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_are_read_with_their_escapes() {
        let table = "1 2 0:1 / /a rw - tmpfs t rw\n2 1 0:2 / /a/b\\040c rw - tmpfs t rw\n";
        assert_eq!(
            mount_points(table).collect::<Vec<_>>(),
            [PathBuf::from("/a"), PathBuf::from("/a/b c")]
        );
    }

    #[test]
    fn removing_what_is_not_there_is_no_error() {
        let dir = tempfile::tempdir().unwrap();
        let absent = dir.path().join("absent");
        for resource in [
            Resource::Descendants,
            Resource::Mount {
                target: absent.clone(),
            },
            Resource::NetworkNamespace {
                name: "trustplane-absent".into(),
            },
            Resource::Link {
                name: "tpabsent0".into(),
            },
            Resource::ControlGroup { path: absent.clone() },
            Resource::Directory { path: absent.clone() },
        ] {
            resource.remove(dir.path(), &[]).unwrap();
        }
    }
}
