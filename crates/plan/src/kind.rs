//! Kinds of objects and the names of objects.

use std::{borrow::Cow, fmt, sync::Arc};

use serde::{Deserialize, Serialize};

/// Whether objects of a kind live in a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Scope {
    /// Each object belongs to a namespace.
    Namespaced,
    /// Objects belong to the cluster.
    Cluster,
}

/// A kind of object: known when we compile (a constant), or found at run time.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Kind {
    /// The API group; empty for the core group.
    pub group: Cow<'static, str>,
    /// The version, such as `v1`.
    pub version: Cow<'static, str>,
    /// The kind in CamelCase, such as `ConfigMap`.
    pub kind: Cow<'static, str>,
    /// The plural that stands in URLs, such as `configmaps`.
    pub plural: Cow<'static, str>,
    /// Where its objects live.
    pub scope: Scope,
}

impl Kind {
    /// A kind that is known when we compile.
    pub const fn new(
        group: &'static str,
        version: &'static str,
        kind: &'static str,
        plural: &'static str,
        scope: Scope,
    ) -> Self {
        Self {
            group: Cow::Borrowed(group),
            version: Cow::Borrowed(version),
            kind: Cow::Borrowed(kind),
            plural: Cow::Borrowed(plural),
            scope,
        }
    }

    /// `group/version`, or `version` for the core group: what stands in `apiVersion`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// The collection's path on the API server, for one namespace or for all.
    pub fn collection_path(&self, namespace: Option<&str>) -> String {
        let root = if self.group.is_empty() {
            format!("/api/{}", self.version)
        } else {
            format!("/apis/{}/{}", self.group, self.version)
        };
        match namespace {
            Some(namespace) if self.scope == Scope::Namespaced => {
                format!("{root}/namespaces/{namespace}/{}", self.plural)
            }
            _ => format!("{root}/{}", self.plural),
        }
    }

    /// One object's path on the API server.
    pub fn object_path(&self, object: &ObjectRef) -> String {
        format!("{}/{}", self.collection_path(object.namespace()), object.name())
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        Ok(())
    }
}

/// The name of an object among those of its kind. Cheap to clone: it is the key of stores and queues.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectRef {
    namespace: Option<Arc<str>>,
    name: Arc<str>,
}

impl ObjectRef {
    /// Names an object, in a namespace or in the cluster.
    pub fn new(namespace: Option<&str>, name: &str) -> Self {
        Self {
            namespace: namespace.filter(|n| !n.is_empty()).map(Arc::from),
            name: Arc::from(name),
        }
    }

    /// The namespace, for objects that live in one.
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace() {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

impl fmt::Debug for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// An object of some kind: what an event is about, who owns a child, where a status goes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Target {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub object: ObjectRef,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.kind, self.object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: Kind = Kind::new("", "v1", "Secret", "secrets", Scope::Namespaced);
    const ROLE: Kind = Kind::new(
        "rbac.authorization.k8s.io",
        "v1",
        "ClusterRole",
        "clusterroles",
        Scope::Cluster,
    );

    #[test]
    fn paths_of_core_and_grouped_kinds() {
        assert_eq!(
            SECRET.object_path(&ObjectRef::new(Some("a"), "b")),
            "/api/v1/namespaces/a/secrets/b"
        );
        assert_eq!(SECRET.collection_path(None), "/api/v1/secrets");
        assert_eq!(
            ROLE.object_path(&ObjectRef::new(None, "r")),
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/r"
        );
    }

    #[test]
    fn an_empty_namespace_is_no_namespace() {
        assert_eq!(ObjectRef::new(Some(""), "n"), ObjectRef::new(None, "n"));
        assert_eq!(ROLE.api_version(), "rbac.authorization.k8s.io/v1");
        assert_eq!(SECRET.api_version(), "v1");
    }
}
