//! Decides which namespace may have the secret at a location on the tokens.
//!
//! The claims of all namespaces are in one ConfigMap, with a key for each namespace and a path on each line, so that a person can
//! read the claims and remove a line.

use std::collections::{BTreeMap, BTreeSet};

use trustplane_api::hsm::TokenPlace;

use super::{Situation, Tenancy, oldest};
use crate::path::SecretPath;

/// The most bytes of all claims together: what the API server takes in one ConfigMap, with room for its metadata.
pub const MOST_BYTES: usize = 1_000_000;

/// The claims: which namespace has which location.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Locations(BTreeMap<SecretPath, String>);

/// There is no room for another claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the claims of all namespaces have more than {MOST_BYTES} bytes together: use --hsm-tenancy=namespaced"
)]
pub struct Full;

impl Locations {
    /// Reads the ConfigMap. A line that is no path is left out. A path under two namespaces belongs to the first of them.
    pub fn read(data: &BTreeMap<String, String>) -> Self {
        let mut claims = BTreeMap::new();
        for (namespace, lines) in data {
            for path in lines
                .lines()
                .filter_map(|line| SecretPath::parse(line.trim()).ok())
            {
                claims.entry(path).or_insert_with(|| namespace.clone());
            }
        }
        Self(claims)
    }

    /// The data of the ConfigMap.
    pub fn data(&self) -> BTreeMap<String, String> {
        let mut data: BTreeMap<String, String> = BTreeMap::new();
        for (path, namespace) in &self.0 {
            let lines = data.entry(namespace.clone()).or_default();
            lines.push_str(path.as_str());
            lines.push('\n');
        }
        data
    }

    /// The namespace that has claimed a path.
    pub fn tenant(&self, path: &SecretPath) -> Option<&str> {
        self.0.get(path).map(String::as_str)
    }

    /// Claims a path for a namespace, unless a namespace has claimed it already. Answers the namespace that has it after that.
    pub fn claim(&mut self, path: &SecretPath, namespace: &str) -> Result<&str, Full> {
        if !self.0.contains_key(path) {
            let bytes: usize = self.0.keys().map(|path| path.as_str().len() + 1).sum();
            if bytes + path.as_str().len() > MOST_BYTES {
                return Err(Full);
            }
        }
        let tenant = self.0.entry(path.clone()).or_insert_with(|| namespace.to_owned());
        Ok(tenant)
    }

    /// Ends a claim of a namespace.
    pub fn release(&mut self, path: &SecretPath, namespace: &str) {
        if self.tenant(path) == Some(namespace) {
            self.0.remove(path);
        }
    }
}

/// Whether a namespace may have the secret at a location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Tenant {
    /// The namespace may have the secret.
    Ours,
    /// No namespace has claimed the location, and this one asked first: it may have the secret once its claim is written.
    Free,
    /// The namespace may not have the secret. The text says why.
    Theirs(String),
}

impl Tenant {
    /// Decides whether the namespace of an HSMSecret may have the secret at its location.
    pub fn of(situation: &Situation) -> Self {
        let namespace = situation.namespace();
        if situation.tenancy == Tenancy::Namespaced {
            return Self::Ours;
        }
        if let Some(listed) = &situation.listed {
            return match listed.contains(namespace) {
                true => Self::Ours,
                false => Self::Theirs("an HSMDevice lists it in spec.places for other namespaces".to_owned()),
            };
        }
        match situation.tenant.as_deref() {
            Some(tenant) if tenant == namespace => return Self::Ours,
            Some(tenant) => return Self::Theirs(format!("namespace {tenant} has claimed it")),
            None => {}
        }
        let all = situation.sharers.iter().chain([&situation.object]);
        match oldest(all).filter(|first| first.object.namespace() != Some(namespace)) {
            Some(first) => Self::Theirs(format!("HSMSecret {} asked for it first", first.object)),
            None => Self::Free,
        }
    }
}

/// The namespaces that the places list for a path; `None` if no place covers the path.
pub fn listed<'a>(
    places: impl IntoIterator<Item = &'a TokenPlace>,
    path: &SecretPath,
) -> Option<BTreeSet<String>> {
    let covering = places.into_iter().filter(|place| covers(&place.path, path));
    let all = covering.flat_map(|place| place.namespaces.iter().cloned());
    let all: BTreeSet<String> = all.collect();
    // A place that is valid lists at least one namespace.
    (!all.is_empty()).then_some(all)
}

/// Whether a place covers a path: it is the path, or it ends with `/**` and the path is below it.
fn covers(place: &str, path: &SecretPath) -> bool {
    match place.strip_suffix("/**") {
        Some(above) => path
            .as_str()
            .strip_prefix(above)
            .is_some_and(|below| below.starts_with('/')),
        None => place == path.as_str(),
    }
}
