//! A cluster in the making.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;

use super::{LockedSite, STATE_FILE, Site};
use crate::cache::{Cache, Lock};
use crate::daemon::Daemon;
use crate::identity::Identity;
use crate::interrupt;
use crate::ports;
use crate::resource::Resource;
use crate::state::{ClusterName, State};

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
    pub(super) fn begin(site: LockedSite, owner: Option<Identity>, guard: interrupt::Guard) -> Result<Self> {
        let construction = Self {
            site,
            state: State::new(owner),
            finished: false,
            _guard: guard,
        };
        construction.save()?;
        Ok(construction)
    }

    pub(super) fn resume(site: LockedSite, guard: interrupt::Guard) -> Result<Self> {
        let state = site
            .site
            .state()?
            .with_context(|| format!("cluster {} does not exist", site.site.name))?;
        Ok(Self {
            site,
            state,
            finished: true,
            _guard: guard,
        })
    }

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
