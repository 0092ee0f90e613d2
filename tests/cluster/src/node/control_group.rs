//! The control groups of a node: where kubelet puts its pods, and where `down` finds what runs in them.
//!
//! A process does not leave its group by itself, so a group names every process of every container, whatever became
//! of kubelet, containerd and the shims. Machines differ in their hierarchies (one, one per controller, or both);
//! the node's group is made in each.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::io::Errno;
use rustix::process::Signal;

use crate::identity::Identity;
use crate::wait;

/// What containers may take to end by themselves. Nothing of them is kept, so they are only given the chance.
const GRACE: Duration = Duration::from_secs(2);
/// What the kernel may take to end killed processes and to let go of their groups.
const KILL_LIMIT: Duration = Duration::from_secs(15);

/// What kubelet wants to see at its root, and what the runtime limits containers by.
const CONTROLLERS: [&str; 6] = ["cpu", "cpuset", "hugetlb", "io", "memory", "pids"];

/// The directories of a group, one per hierarchy of the machine.
pub(super) fn directories(group: &str) -> Result<Vec<PathBuf>> {
    let table = fs::read_to_string("/proc/self/mountinfo").context("read the mount table")?;
    let found: Vec<_> = hierarchies(&table).map(|root| root.join(group)).collect();
    if found.is_empty() {
        bail!("no control group file system is mounted");
    }
    Ok(found)
}

/// Mount points of the types `cgroup` and `cgroup2`. The type stands behind a dash, as the fields before it vary.
fn hierarchies(table: &str) -> impl Iterator<Item = PathBuf> {
    table.lines().filter_map(|line| {
        let (mount, source) = line.split_once(" - ")?;
        let kind = source.split(' ').next()?;
        let root = mount.split(' ').nth(4)?;
        ["cgroup", "cgroup2"].contains(&kind).then(|| PathBuf::from(root))
    })
}

/// Makes a group in one hierarchy, with its parents, so that kubelet can use it as its root.
pub(super) fn create(directory: &Path) -> Result<()> {
    let parent = directory
        .parent()
        .with_context(|| format!("{} has no parent", directory.display()))?;
    if !parent.exists() {
        create(parent)?;
    }
    let attempt = || -> std::io::Result<()> {
        pass_controllers_on(parent)?;
        fs::create_dir_all(directory)?;
        inherit_processors(parent, directory)
    };
    attempt().with_context(|| format!("create the control group {}", directory.display()))
}

/// In the unified hierarchy a group has the controllers that its parent passes on.
fn pass_controllers_on(parent: &Path) -> std::io::Result<()> {
    let Some(controllers) = read_if_present(&parent.join("cgroup.controllers"))? else {
        return Ok(());
    };
    let needed = controllers
        .split_ascii_whitespace()
        .filter(|name| CONTROLLERS.contains(name));
    for controller in needed {
        fs::write(parent.join("cgroup.subtree_control"), format!("+{controller}"))?;
    }
    Ok(())
}

/// In a hierarchy of its own, cpuset gives a new group no processors and no memory, and then takes no process in.
fn inherit_processors(parent: &Path, directory: &Path) -> std::io::Result<()> {
    for file in ["cpuset.cpus", "cpuset.mems"] {
        let own = read_if_present(&directory.join(file))?;
        if own.is_some_and(|value| value.trim().is_empty())
            && let Some(value) = read_if_present(&parent.join(file))?
        {
            fs::write(directory.join(file), value)?;
        }
    }
    Ok(())
}

/// Ends every process in a group and below it, and removes the group. One that is not there is no error.
pub(crate) fn remove(directory: &Path) -> Result<()> {
    end_members(directory).with_context(|| format!("empty the control group {}", directory.display()))?;
    let removed = wait::patiently(KILL_LIMIT, || remove_empty(directory));
    if !removed.with_context(|| format!("remove the control group {}", directory.display()))? {
        bail!(
            "the control group {} is still busy {KILL_LIMIT:?} after its last process",
            directory.display()
        );
    }
    Ok(())
}

fn end_members(directory: &Path) -> Result<()> {
    let mut seen = members(directory)?;
    for member in &seen {
        member.signal(Signal::TERM)?;
    }
    let empty = || Ok(process_ids(directory)?.is_empty());
    if !wait::patiently(GRACE, empty)? {
        // Again and again, as a member may fork between the look and the signal.
        wait::patiently(KILL_LIMIT, || {
            let members = self::members(directory)?;
            for member in &members {
                member.signal(Signal::KILL)?;
            }
            seen.extend(members);
            empty()
        })?;
    }
    // A process that is about to end has left its group, but not yet its namespaces.
    let gone = wait::patiently(KILL_LIMIT, || {
        let alive = seen.iter().map(Identity::alive).collect::<Result<Vec<_>>>()?;
        Ok(!alive.contains(&true) && empty()?)
    })?;
    if !gone {
        bail!(
            "processes {:?} have not ended {KILL_LIMIT:?} after SIGKILL",
            process_ids(directory)?
        );
    }
    Ok(())
}

/// The processes of a group. Those whose pid went to another process while we looked are not among them: that pid no
/// longer stands in the group.
fn members(directory: &Path) -> Result<Vec<Identity>> {
    let mut members = Vec::new();
    for pid in process_ids(directory)? {
        members.extend(Identity::of(pid)?);
    }
    let still = process_ids(directory)?;
    members.retain(|member| still.contains(&member.pid()));
    Ok(members)
}

fn process_ids(directory: &Path) -> Result<Vec<i32>> {
    let mut pids = Vec::new();
    for group in groups(directory)? {
        let list =
            read_if_present(&group.join("cgroup.procs")).context("list the processes of a control group")?;
        pids.extend(
            list.unwrap_or_default()
                .lines()
                .filter_map(|line| line.parse::<i32>().ok()),
        );
    }
    Ok(pids)
}

/// The group and all below it, children before their parents.
fn groups(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if gone(&error) => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| format!("list {}", directory.display())),
    };
    let mut found = Vec::new();
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(groups(&entry.path())?);
        }
    }
    found.push(directory.to_owned());
    Ok(found)
}

/// Whether all are gone; the kernel may hold an empty group for a moment after its last process.
fn remove_empty(directory: &Path) -> Result<bool> {
    for group in groups(directory)? {
        match fs::remove_dir(&group) {
            Err(error) if Errno::from_io_error(&error) == Some(Errno::BUSY) => return Ok(false),
            Err(error) if !gone(&error) => return Err(error.into()),
            _ => {}
        }
    }
    Ok(true)
}

fn read_if_present(path: &Path) -> std::io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if gone(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A group may vanish between being named and being read.
fn gone(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::NotFound || Errno::from_io_error(error) == Some(Errno::NODEV)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_hierarchy_are_found_whatever_optional_fields_a_mount_has() {
        let table = "24 1 0:21 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
                     25 24 0:22 / /sys/fs/cgroup/cpu rw shared:9 master:1 - cgroup cgroup rw,cpu\n\
                     26 24 0:23 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let found: Vec<_> = hierarchies(table).collect();
        assert_eq!(
            found,
            [
                Path::new("/sys/fs/cgroup/cpu"),
                Path::new("/sys/fs/cgroup/unified")
            ]
        );
    }
}
