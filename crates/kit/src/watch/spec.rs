//! What somebody wants to watch.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde::{Deserialize, Serialize};
use trustplane_plan::{Kind, ObjectRef, Scope};

/// Where to look.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum WatchScope {
    /// Everywhere.
    Cluster,
    /// In these namespaces. A kind whose objects live in no namespace is watched as a whole all the same.
    Namespaces(BTreeSet<String>),
}

/// What to watch, and how much of each object to keep.
#[derive(Debug, Clone)]
pub struct WatchSpec<P> {
    /// The kind; it need not be known when we compile, and need not be served yet.
    pub kind: Kind,
    /// Where to look.
    pub scope: WatchScope,
    /// A label selector.
    pub labels: Option<String>,
    /// A field selector.
    pub fields: Option<String>,
    /// What to keep of each object.
    pub project: P,
    /// Where an earlier watch stopped.
    pub resume: Option<Resume>,
}

impl<P> WatchSpec<P> {
    /// All objects of a kind.
    pub fn new(kind: Kind, project: P) -> Self {
        Self {
            kind,
            scope: WatchScope::Cluster,
            labels: None,
            fields: None,
            project,
            resume: None,
        }
    }

    /// Only in these namespaces.
    #[must_use]
    pub fn namespaces<N: Into<String>>(mut self, namespaces: impl IntoIterator<Item = N>) -> Self {
        self.scope = WatchScope::Namespaces(namespaces.into_iter().map(Into::into).collect());
        self
    }

    /// Only what this label selector selects.
    #[must_use]
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.labels = Some(selector.into());
        self
    }

    /// Only what this field selector selects.
    #[must_use]
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.fields = Some(selector.into());
        self
    }

    /// Goes on where an earlier watch stopped.
    #[must_use]
    pub fn resume(mut self, resume: Resume) -> Self {
        self.resume = Some(resume);
        self
    }

    /// The collections that the watch consists of: namespaces, or the empty name for the whole.
    pub(super) fn collections(&self) -> BTreeSet<Arc<str>> {
        match &self.scope {
            WatchScope::Namespaces(namespaces) if self.kind.scope == Scope::Namespaced => {
                namespaces.iter().map(|name| Arc::from(name.as_str())).collect()
            }
            _ => [Arc::from("")].into(),
        }
    }
}

/// How far a watch has come: a resourceVersion for the whole, or for each namespace. Made to be stored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Versions(BTreeMap<String, String>);

impl Versions {
    /// The version of a namespace, or of the whole cluster.
    pub fn get(&self, namespace: Option<&str>) -> Option<&str> {
        self.0.get(namespace.unwrap_or_default()).map(String::as_str)
    }

    /// Sets the version of a namespace, or of the whole cluster.
    pub fn set(&mut self, namespace: Option<&str>, version: &str) {
        self.put(namespace.unwrap_or_default(), version);
    }

    pub(super) fn forget(&mut self, collection: &str) {
        self.0.remove(collection);
    }

    pub(super) fn put(&mut self, collection: &str, version: &str) {
        match self.0.get_mut(collection) {
            Some(known) => {
                known.clear();
                known.push_str(version);
            }
            None => {
                self.0.insert(collection.to_owned(), version.to_owned());
            }
        }
    }
}

/// Where an earlier watch of the same thing stopped.
///
/// The watch asks for what happened since, so the store holds only what has changed ([`super::Store::is_complete`] says
/// no) until something makes a list necessary: an expired version, [`super::Store::relist`], or a subscriber that joins
/// without a resume. The subscriber counts as having heard of the `known` objects: their deletion is reported, whether an
/// event or a list shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resume {
    /// How far the earlier watch came. A namespace without a version is listed.
    pub versions: Versions,
    /// The objects that existed then, with their uids.
    pub known: Vec<(ObjectRef, Arc<str>)>,
}

/// Whether one version is older than another, where both are numbers as every API server makes them.
pub(crate) fn is_older(one: &str, other: &str) -> bool {
    match (one.parse::<u64>(), other.parse::<u64>()) {
        (Ok(one), Ok(other)) => one < other,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use trustplane_plan::kinds::{NODE, POD};

    use super::*;

    #[test]
    fn a_kind_without_namespace_is_one_collection() {
        assert_eq!(
            WatchSpec::new(NODE, ()).namespaces(["a", "b"]).collections(),
            [Arc::from("")].into()
        );
        assert_eq!(
            WatchSpec::new(POD, ())
                .namespaces(["a", "b", "a"])
                .collections()
                .len(),
            2
        );
    }

    #[test]
    fn versions_survive_being_stored() {
        let mut versions = Versions::default();
        versions.set(Some("a"), "5");
        versions.set(None, "7");
        let text = serde_json::to_string(&versions).unwrap();
        assert_eq!(serde_json::from_str::<Versions>(&text).unwrap(), versions);
        assert_eq!(
            (versions.get(Some("a")), versions.get(None)),
            (Some("5"), Some("7"))
        );
    }

    #[test]
    fn versions_compare_as_numbers_or_not_at_all() {
        assert!(is_older("9", "10") && !is_older("10", "9") && !is_older("9", "9"));
        assert!(!is_older("a", "b") && !is_older("", "1"));
    }
}
