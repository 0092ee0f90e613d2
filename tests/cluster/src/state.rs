//! The state file of a cluster: everything that was made for it, in the order in which it was made.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::cache;
use crate::identity::Identity;
use crate::resource::Resource;

/// The name of a cluster: a DNS label of at most 32 characters, so that file, namespace and node names can hold it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClusterName(String);

impl ClusterName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ClusterName {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> Result<Self> {
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if name.is_empty() || name.len() > 32 || !name.chars().all(allowed) {
            bail!("the cluster name {name:?} is not made of 1 to 32 characters a-z, 0-9 and -");
        }
        if name.starts_with('-') || name.ends_with('-') {
            bail!("the cluster name {name:?} begins or ends with -");
        }
        Ok(Self(name.to_owned()))
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What the state file holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct State {
    created: Timestamp,
    /// Set by the last step of `up`; a cluster without it is a remainder to clear away.
    ready: bool,
    /// The process the cluster lives for. Once it has ended, the cluster is an orphan.
    owner: Option<Identity>,
    /// Reserved for this cluster as long as it exists.
    ports: Vec<u16>,
    resources: Vec<Resource>,
    /// What each part wants to find again: addresses, options.
    notes: BTreeMap<String, serde_json::Value>,
}

impl State {
    pub(crate) fn new(owner: Option<Identity>) -> Self {
        Self {
            created: Timestamp::now(),
            ready: false,
            owner,
            ports: Vec::new(),
            resources: Vec::new(),
            notes: BTreeMap::new(),
        }
    }

    pub(crate) fn read(path: &Path) -> Result<Option<Self>> {
        match fs::read(path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .with_context(|| format!("understand {}", path.display()))
                .map(Some),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("read {}", path.display())),
        }
    }

    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        cache::write_atomically(path, &serde_json::to_vec_pretty(self)?)
    }

    /// How long ago it was made.
    pub fn age(&self) -> Duration {
        Timestamp::now().duration_since(self.created).unsigned_abs()
    }

    /// Whether `up` came to its end.
    pub fn ready(&self) -> bool {
        self.ready
    }

    /// Whether the process it was made for has ended.
    pub fn orphaned(&self) -> Result<bool> {
        match &self.owner {
            Some(owner) => Ok(!owner.alive()?),
            None => Ok(false),
        }
    }

    /// The ports that are its own.
    pub fn ports(&self) -> &[u16] {
        &self.ports
    }

    /// Everything that was made for it, oldest first.
    pub fn resources(&self) -> &[Resource] {
        &self.resources
    }

    /// Its processes by name, oldest first.
    pub fn processes(&self) -> impl Iterator<Item = (&str, &Identity)> {
        self.resources.iter().filter_map(|resource| match resource {
            Resource::Process { name, identity, .. } => Some((name.as_str(), identity)),
            _ => None,
        })
    }

    /// The latest process of that name.
    pub fn process(&self, wanted: &str) -> Option<&Identity> {
        self.processes()
            .filter(|(name, _)| *name == wanted)
            .last()
            .map(|(_, identity)| identity)
    }

    /// What a part of the cluster noted under this name.
    pub fn note<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>> {
        let Some(value) = self.notes.get(name) else {
            return Ok(None);
        };
        serde_json::from_value(value.clone())
            .with_context(|| format!("understand the note {name}"))
            .map(Some)
    }

    pub(crate) fn set_note(&mut self, name: &str, value: &impl Serialize) -> Result<()> {
        self.notes.insert(name.to_owned(), serde_json::to_value(value)?);
        Ok(())
    }

    pub(crate) fn set_ready(&mut self) {
        self.ready = true;
    }

    pub(crate) fn set_unready(&mut self) {
        self.ready = false;
    }

    pub(crate) fn add_ports(&mut self, ports: &[u16]) {
        self.ports.extend_from_slice(ports);
    }

    pub(crate) fn push(&mut self, resource: Resource) {
        self.resources.push(resource);
    }

    pub(crate) fn forget(&mut self, gone: &Resource) {
        self.resources.retain(|resource| resource != gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_labels() {
        for good in ["a", "dev", "test-2", "0", &"x".repeat(32)] {
            good.parse::<ClusterName>().unwrap();
        }
        for bad in ["", "-a", "a-", "A", "a_b", "a/b", "..", &"x".repeat(33)] {
            assert!(bad.parse::<ClusterName>().is_err(), "{bad} was accepted");
        }
    }

    #[test]
    fn a_state_survives_being_written_and_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.json");
        assert_eq!(State::read(&path).unwrap(), None);
        let mut state = State::new(Some(Identity::own().unwrap()));
        state.add_ports(&[1, 2]);
        state.push(Resource::Link { name: "tp0".into() });
        state.set_note("greeting", &"hello").unwrap();
        state.write(&path).unwrap();
        let read = State::read(&path).unwrap().unwrap();
        assert_eq!(read, state);
        assert_eq!(read.note::<String>("greeting").unwrap().as_deref(), Some("hello"));
        assert!(!read.orphaned().unwrap());
    }
}
