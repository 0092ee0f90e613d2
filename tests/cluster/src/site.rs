//! The directory of a cluster, and the two things that happen to it under its lock: building and teardown.

mod construction;

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};

use crate::cache::{Cache, Lock};
use crate::identity::Identity;
use crate::interrupt;
use crate::resource::remove_directory;
use crate::state::{ClusterName, State};

pub use construction::Construction;

const STATE_FILE: &str = "state.json";

/// Where a cluster is kept, whether it exists or not.
#[derive(Debug, Clone)]
pub struct Site {
    cache: Cache,
    name: ClusterName,
}

impl Site {
    /// The site of a cluster in a cache.
    pub fn new(cache: &Cache, name: ClusterName) -> Self {
        Self {
            cache: cache.clone(),
            name,
        }
    }

    /// Every cluster that the cache holds, running or not.
    pub fn all(cache: &Cache) -> Result<Vec<Self>> {
        let entries = match fs::read_dir(cache.clusters()) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error).context("list the clusters"),
        };
        let mut names: Vec<ClusterName> = entries
            .flatten()
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .collect();
        names.sort();
        Ok(names.into_iter().map(|name| Self::new(cache, name)).collect())
    }

    /// The cluster's name.
    pub fn name(&self) -> &ClusterName {
        &self.name
    }

    /// The cluster's directory.
    pub fn dir(&self) -> PathBuf {
        self.cache.clusters().join(self.name.as_str())
    }

    /// What is recorded of it; nothing when it does not exist.
    pub fn state(&self) -> Result<Option<State>> {
        State::read(&self.dir().join(STATE_FILE))
    }

    /// Takes the cluster's lock, waiting for another command that works on it.
    pub fn lock(&self) -> Result<LockedSite> {
        let path = self.cache.clusters().join(format!("{}.lock", self.name));
        let lock = Lock::wait(&path, &format!("cluster {}", self.name))?;
        Ok(LockedSite {
            site: self.clone(),
            lock,
        })
    }
}

/// A site that no other command can change.
#[derive(Debug)]
pub struct LockedSite {
    site: Site,
    lock: Lock,
}

impl LockedSite {
    /// The state of the cluster if it came up and all its processes still run.
    pub fn running(&self) -> Result<Option<State>> {
        let Some(state) = self.site.state()? else {
            return Ok(None);
        };
        for (_, identity) in state.processes() {
            if !identity.alive()? {
                return Ok(None);
            }
        }
        Ok(state.ready().then_some(state))
    }

    /// Removes everything that is recorded, newest first, and then the directory. What cannot be removed stays
    /// recorded and does not keep the rest from being removed.
    fn tear_down(&self) -> Result<()> {
        let dir = self.site.dir();
        let path = dir.join(STATE_FILE);
        let Some(mut state) = self.site.state()? else {
            return remove_directory(&dir);
        };
        state.set_unready();
        state.write(&path)?;
        let mut failures = Vec::new();
        for resource in state.resources().to_vec().iter().rev() {
            let survivors: Vec<Identity> = state.processes().map(|(_, identity)| identity.clone()).collect();
            match resource.remove(&dir, &survivors) {
                Ok(()) => {
                    state.forget(resource);
                    state.write(&path)?;
                }
                Err(error) => failures.push(format!("{error:#}")),
            }
        }
        if failures.is_empty() {
            return remove_directory(&dir);
        }
        Err(anyhow!(
            "remove cluster {}: {}",
            self.site.name,
            failures.join("; ")
        ))
    }

    /// The same, and gives up the name: not even the lock's file remains.
    pub fn remove(&self) -> Result<()> {
        self.tear_down()?;
        self.lock.unlink()
    }

    /// Clears away what an earlier run may have left and begins a new cluster.
    pub fn build(self, owner: Option<Identity>) -> Result<Construction> {
        let guard = interrupt::Guard::begin()?;
        interrupt::check()?;
        self.tear_down().context("clear away what an earlier run left")?;
        let dir = self.site.dir();
        // The keys of the cluster lie in here.
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&dir)
            .with_context(|| format!("create {}", dir.display()))?;
        Construction::begin(self, owner, guard)
    }

    /// Goes back to a cluster that exists, to change a part of it. Dropping the construction then removes nothing.
    pub fn reopen(self) -> Result<Construction> {
        let guard = interrupt::Guard::begin()?;
        Construction::resume(self, guard)
    }
}

/// Ends a cluster; one that does not exist is no error.
pub fn down(cache: &Cache, name: &ClusterName) -> Result<()> {
    let _guard = interrupt::Guard::begin()?;
    Site::new(cache, name.clone()).lock()?.remove()
}

/// Ends a cluster and all whose names continue its name after a `-`: one run of tests names its clusters so.
pub fn down_family(cache: &Cache, name: &ClusterName) -> Result<()> {
    let prefix = format!("{name}-");
    for site in Site::all(cache)? {
        if site.name == *name || site.name.as_str().starts_with(&prefix) {
            down(cache, &site.name)?;
        }
    }
    Ok(())
}

/// Ends every cluster whose owner has ended, and says which.
pub fn down_orphans(cache: &Cache) -> Result<Vec<ClusterName>> {
    let mut ended = Vec::new();
    for site in Site::all(cache)? {
        let orphaned =
            |site: &Site| -> Result<bool> { site.state()?.map_or(Ok(false), |state| state.orphaned()) };
        if !orphaned(&site)? {
            continue;
        }
        let locked = site.lock()?;
        // Someone else may have made it anew while we waited for the lock.
        if orphaned(&site)? {
            locked.remove()?;
            ended.push(site.name.clone());
        } else if site.state()?.is_none() {
            // Someone else has ended it: what is left is the file of our lock.
            locked.remove()?;
        }
    }
    Ok(ended)
}

#[cfg(test)]
mod tests;
