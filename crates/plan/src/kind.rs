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

    /// The collection's path on the API server, for one namespace or for all. Every part is escaped by [`path_part`].
    pub fn collection_path(&self, namespace: Option<&str>) -> String {
        let (version, plural) = (path_part(&self.version), path_part(&self.plural));
        let root = if self.group.is_empty() {
            format!("/api/{version}")
        } else {
            format!("/apis/{}/{version}", path_part(&self.group))
        };
        match namespace {
            Some(namespace) if self.scope == Scope::Namespaced => {
                format!("{root}/namespaces/{}/{plural}", path_part(namespace))
            }
            _ => format!("{root}/{plural}"),
        }
    }

    /// One object's path on the API server, whatever the name is: it never leads to a collection or to another object.
    pub fn object_path(&self, object: &ObjectRef) -> String {
        let collection = self.collection_path(object.namespace());
        format!("{collection}/{}", path_part(object.name()))
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

/// One part of a path on the API server, escaped: no text can end the part, begin a query, or stand for another part.
///
/// The API server splits a path after it has decoded it. So what would still split it then is escaped twice: `/`, and a part
/// that is empty, `.` or `..`. The API server takes the result for a name that no object has.
pub fn path_part(text: &str) -> String {
    let is_dots = matches!(text, "." | "..");
    let mut part = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'/' => part.push_str("%252F"),
            b'.' if is_dots => part.push_str("%252E"),
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b':' | b'@' => {
                part.push(char::from(byte));
            }
            other => part.push_str(&format!("%{other:02X}")),
        }
    }
    if part.is_empty() {
        part.push_str("%25");
    }
    part
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
    use proptest::prelude::*;

    use super::*;
    use crate::kinds::{SECRET, VALIDATING_WEBHOOKS};

    #[test]
    fn paths_of_core_and_grouped_kinds() {
        assert_eq!(
            SECRET.object_path(&ObjectRef::new(Some("a"), "b")),
            "/api/v1/namespaces/a/secrets/b"
        );
        assert_eq!(SECRET.collection_path(None), "/api/v1/secrets");
        assert_eq!(
            VALIDATING_WEBHOOKS.object_path(&ObjectRef::new(None, "w")),
            "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/w"
        );
    }

    #[test]
    fn a_name_cannot_change_what_a_path_asks_for() {
        let path = |name: &str| SECRET.object_path(&ObjectRef::new(Some("a"), name));
        for (name, part) in [
            ("system:node:x", "system:node:x"),
            ("?", "%3F"),
            ("b?watch=1", "b%3Fwatch%3D1"),
            ("b#", "b%23"),
            ("b%2fc", "b%252fc"),
            ("b/c", "b%252Fc"),
            ("..", "%252E%252E"),
            ("", "%25"),
            ("ä b", "%C3%A4%20b"),
        ] {
            assert_eq!(path(name), format!("/api/v1/namespaces/a/secrets/{part}"));
        }
        assert_eq!(
            SECRET.collection_path(Some("a/secrets/b?x=")),
            "/api/v1/namespaces/a%252Fsecrets%252Fb%3Fx%3D/secrets"
        );
    }

    proptest! {
        /// As the API server reads a path: without its query, decoded, and then split.
        #[test]
        fn a_path_has_the_parts_it_was_made_of(namespace in "[ -~ä]{1,12}", name in "[ -~ä]{0,12}") {
            let path = SECRET.object_path(&ObjectRef::new(Some(&namespace), &name));
            prop_assert!(!path.contains(['?', '#', ' ']) && path.is_ascii());
            let decoded = decode(&path);
            let parts: Vec<&str> = decoded.split('/').collect();
            prop_assert_eq!(parts.len(), 7, "{}", decoded);
            prop_assert!(parts[1..].iter().all(|part| !matches!(*part, "" | "." | "..")), "{}", decoded);
            prop_assert_eq!([parts[3], parts[5]], ["namespaces", "secrets"]);
            let is_plain = |text: &str| !text.contains('/') && !matches!(text, "" | "." | "..");
            if is_plain(&name) {
                prop_assert_eq!(parts[6], name);
            }
        }
    }

    fn decode(path: &str) -> String {
        let (mut bytes, mut rest) = (Vec::new(), path.as_bytes());
        while let [first, tail @ ..] = rest {
            match (first, tail) {
                (b'%', [high, low, after @ ..]) => {
                    let digits = [*high, *low];
                    bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap());
                    rest = after;
                }
                _ => {
                    bytes.push(*first);
                    rest = tail;
                }
            }
        }
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn an_empty_namespace_is_no_namespace() {
        assert_eq!(ObjectRef::new(Some(""), "n"), ObjectRef::new(None, "n"));
        assert_eq!(
            VALIDATING_WEBHOOKS.api_version(),
            "admissionregistration.k8s.io/v1"
        );
        assert_eq!(SECRET.api_version(), "v1");
    }
}
