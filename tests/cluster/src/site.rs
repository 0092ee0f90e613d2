//! The directory of a cluster, and the two things that happen to it under its lock: building and teardown.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use serde::Serialize;

use crate::cache::{Cache, Lock};
use crate::daemon::Daemon;
use crate::identity::Identity;
use crate::interrupt;
use crate::ports;
use crate::resource::{Resource, remove_directory};
use crate::state::{ClusterName, State};

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
        let construction = Construction {
            site: self,
            state: State::new(owner),
            finished: false,
            _guard: guard,
        };
        construction.save()?;
        Ok(construction)
    }

    /// Goes back to a cluster that exists, to change a part of it. Dropping the construction then removes nothing.
    pub fn reopen(self) -> Result<Construction> {
        let guard = interrupt::Guard::begin()?;
        let state = self
            .site
            .state()?
            .with_context(|| format!("cluster {} does not exist", self.site.name))?;
        Ok(Construction {
            site: self,
            state,
            finished: true,
            _guard: guard,
        })
    }
}

/// A cluster that is being made. Unless it is finished, dropping it removes all that was made, so an error or an
/// interruption in the middle of `up` leaves nothing behind.
#[derive(Debug)]
pub struct Construction {
    site: LockedSite,
    state: State,
    finished: bool,
    _guard: interrupt::Guard,
}

impl Construction {
    /// The cluster's name.
    pub fn name(&self) -> &ClusterName {
        &self.site.site.name
    }

    /// The cluster's directory.
    pub fn dir(&self) -> PathBuf {
        self.site.site.dir()
    }

    /// What is recorded so far.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Records a thing that is about to be made.
    pub fn record(&mut self, resource: Resource) -> Result<()> {
        self.state.push(resource);
        self.save()
    }

    /// Starts a process, recorded before it runs.
    pub fn start(&mut self, daemon: &Daemon) -> Result<Identity> {
        interrupt::check()?;
        let dir = self.dir();
        daemon.start(&dir, |identity| {
            self.record(Resource::Process {
                name: daemon.name().to_owned(),
                identity: identity.clone(),
                grace: daemon.grace_period(),
            })
        })
    }

    /// Ends the processes of that name and forgets them.
    pub fn stop(&mut self, name: &str, grace: Duration) -> Result<()> {
        let named: Vec<Resource> = self
            .state
            .resources()
            .iter()
            .filter(|it| it.is_process(name))
            .cloned()
            .collect();
        for resource in named {
            if let Resource::Process { identity, .. } = &resource {
                identity.stop(grace).with_context(|| format!("stop {name}"))?;
            }
            self.state.forget(&resource);
            self.save()?;
        }
        Ok(())
    }

    /// Finds free ports and keeps them for this cluster as long as it exists.
    pub fn reserve_ports<const N: usize>(&mut self) -> Result<[u16; N]> {
        let _lock = Lock::wait(&self.cache().clusters().join(".ports.lock"), "the list of ports")?;
        let mut taken = self.state.ports().to_vec();
        for site in Site::all(self.cache())? {
            // A state file that cannot be read belongs to a cluster that is being removed.
            if let Ok(Some(state)) = site.state() {
                taken.extend_from_slice(state.ports());
            }
        }
        let ports = ports::free(&taken)?;
        self.state.add_ports(&ports);
        self.save()?;
        Ok(ports)
    }

    /// Notes something to be found again by [`State::note`].
    pub fn note(&mut self, name: &str, value: &impl Serialize) -> Result<()> {
        self.state.set_note(name, value)?;
        self.save()
    }

    /// Declares the cluster made. From now on only `down` removes it.
    pub fn finish(mut self) -> Result<State> {
        interrupt::check()?;
        self.state.set_ready();
        self.save()?;
        self.finished = true;
        Ok(self.state.clone())
    }

    fn cache(&self) -> &Cache {
        &self.site.site.cache
    }

    fn save(&self) -> Result<()> {
        self.state.write(&self.dir().join(STATE_FILE))
    }
}

impl Drop for Construction {
    fn drop(&mut self) {
        if !self.finished
            && let Err(error) = self.site.remove()
        {
            report(&error);
        }
    }
}

/// A destructor has nobody to return an error to.
fn report(error: &anyhow::Error) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "could not clean up: {error:#}");
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
        }
    }
    Ok(ended)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(cache: &Cache, name: &str) -> Site {
        Site::new(cache, name.parse().unwrap())
    }

    fn sleeper(name: &str) -> Daemon {
        Daemon::new(name, "sleep")
            .arg("600")
            .grace(Duration::from_secs(5))
    }

    #[test]
    fn a_construction_that_is_not_finished_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path());
        let mut construction = site(&cache, "half").lock().unwrap().build(None).unwrap();
        let process = construction.start(&sleeper("one")).unwrap();
        let outside = dir.path().join("outside");
        construction
            .record(Resource::Directory {
                path: outside.clone(),
            })
            .unwrap();
        fs::create_dir(&outside).unwrap();
        assert!(process.alive().unwrap());
        drop(construction);
        assert!(!process.alive().unwrap());
        assert!(!outside.exists());
        assert!(!site(&cache, "half").dir().exists());
    }

    #[test]
    fn down_ends_what_up_started_and_can_be_repeated() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path());
        let place = site(&cache, "whole");
        let mut construction = place.lock().unwrap().build(None).unwrap();
        let [port] = construction.reserve_ports().unwrap();
        let process = construction.start(&sleeper("one")).unwrap();
        construction.finish().unwrap();
        let running = place
            .lock()
            .unwrap()
            .running()
            .unwrap()
            .expect("a finished cluster runs");
        assert_eq!(
            (running.process("one"), running.ports()),
            (Some(&process), &[port][..])
        );
        down(&cache, place.name()).unwrap();
        assert!(!process.alive().unwrap());
        assert!(place.state().unwrap().is_none());
        down(&cache, place.name()).unwrap();
    }

    #[test]
    fn the_remains_of_a_killed_run_are_cleared_by_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path());
        let place = site(&cache, "killed");
        let mut construction = place.lock().unwrap().build(None).unwrap();
        let process = construction.start(&sleeper("one")).unwrap();
        // What SIGKILL leaves: the state file and the process, but neither a lock nor a destructor that runs.
        let state = construction.state().clone();
        construction.finish().unwrap();
        state.write(&place.dir().join(STATE_FILE)).unwrap();
        let again = place.lock().unwrap();
        assert!(
            again.running().unwrap().is_none(),
            "an unfinished cluster counts as running"
        );
        let next = again.build(None).unwrap();
        assert!(!process.alive().unwrap());
        assert_eq!(next.state().resources(), []);
    }

    #[test]
    fn what_cannot_be_removed_stays_recorded_and_does_not_keep_the_rest() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path());
        let place = site(&cache, "stuck");
        let mut construction = place.lock().unwrap().build(None).unwrap();
        let process = construction.start(&sleeper("one")).unwrap();
        let obstacle = dir.path().join("group");
        fs::create_dir(&obstacle).unwrap();
        fs::write(
            obstacle.join("file"),
            "a control group directory that refuses to go",
        )
        .unwrap();
        let stuck = Resource::ControlGroup {
            path: obstacle.clone(),
        };
        construction.record(stuck.clone()).unwrap();
        construction.finish().unwrap();
        assert!(down(&cache, place.name()).is_err());
        assert!(!process.alive().unwrap());
        assert_eq!(place.state().unwrap().unwrap().resources(), [stuck]);
        fs::remove_file(obstacle.join("file")).unwrap();
        down(&cache, place.name()).unwrap();
        assert!(!place.dir().exists());
    }

    #[test]
    fn only_clusters_whose_owner_has_ended_are_orphans() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path());
        let mut owner = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let owner_identity = Identity::of(owner.id().cast_signed()).unwrap();
        for (name, owner) in [
            ("kept", Some(Identity::own().unwrap())),
            ("free", None),
            ("lost", owner_identity),
        ] {
            site(&cache, name)
                .lock()
                .unwrap()
                .build(owner)
                .unwrap()
                .finish()
                .unwrap();
        }
        assert_eq!(down_orphans(&cache).unwrap(), []);
        owner.kill().unwrap();
        owner.wait().unwrap();
        assert_eq!(down_orphans(&cache).unwrap(), ["lost".parse().unwrap()]);
        let left: Vec<String> = Site::all(&cache)
            .unwrap()
            .iter()
            .map(|site| site.name().to_string())
            .collect();
        assert_eq!(left, ["free", "kept"]);
    }

    #[test]
    fn a_family_ends_together_and_takes_no_neighbour_along() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path());
        for name in ["test-1", "test-1-pool", "test-12"] {
            site(&cache, name)
                .lock()
                .unwrap()
                .build(None)
                .unwrap()
                .finish()
                .unwrap();
        }
        down_family(&cache, &"test-1".parse().unwrap()).unwrap();
        let left: Vec<String> = Site::all(&cache)
            .unwrap()
            .iter()
            .map(|site| site.name().to_string())
            .collect();
        assert_eq!(left, ["test-12"]);
    }

    #[test]
    fn clusters_side_by_side_never_share_a_port() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path());
        let mut one = site(&cache, "one").lock().unwrap().build(None).unwrap();
        let mut two = site(&cache, "two").lock().unwrap().build(None).unwrap();
        let first: [u16; 4] = one.reserve_ports().unwrap();
        let second: [u16; 4] = two.reserve_ports().unwrap();
        assert!(
            first.iter().all(|port| !second.contains(port)),
            "{first:?} {second:?}"
        );
    }
}
