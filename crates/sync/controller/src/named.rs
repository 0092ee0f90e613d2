//! Which Secrets pods name, and which pods name a Secret.

use std::collections::{BTreeMap, BTreeSet};

use trustplane_plan::ObjectRef;

/// What each pod named when it was last heard of, to be found by pod and by Secret.
#[derive(Default)]
pub(crate) struct Named {
    by_pod: BTreeMap<ObjectRef, Vec<ObjectRef>>,
    by_secret: BTreeMap<ObjectRef, BTreeSet<ObjectRef>>,
}

impl Named {
    /// The pods that name a Secret.
    pub fn pods(&self, secret: &ObjectRef) -> Vec<ObjectRef> {
        let pods = self.by_secret.get(secret).into_iter().flatten();
        pods.cloned().collect()
    }

    /// All Secrets that are named, or those of one namespace.
    pub fn secrets(&self, namespace: Option<&str>) -> BTreeSet<ObjectRef> {
        let first = ObjectRef::new(namespace, "");
        let named = self.by_secret.range(first..).map(|(secret, _)| secret);
        named
            .take_while(|secret| namespace.is_none() || secret.namespace() == namespace)
            .cloned()
            .collect()
    }

    /// A pod names these now. Answers with them and those that it named before.
    pub fn set(&mut self, pod: &ObjectRef, secrets: Vec<ObjectRef>) -> BTreeSet<ObjectRef> {
        let before = self.by_pod.remove(pod).unwrap_or_default();
        for secret in &before {
            if let Some(pods) = self.by_secret.get_mut(secret) {
                pods.remove(pod);
                if pods.is_empty() {
                    self.by_secret.remove(secret);
                }
            }
        }
        for secret in &secrets {
            let pods = self.by_secret.entry(secret.clone()).or_default();
            pods.insert(pod.clone());
        }
        let concerned = before.into_iter().chain(secrets.iter().cloned()).collect();
        if !secrets.is_empty() {
            self.by_pod.insert(pod.clone(), secrets);
        }
        concerned
    }

    /// The same for a pod that was not heard of yet; nothing if it was. What it named before is then left to those who hear of
    /// its change.
    pub fn set_first(&mut self, pod: &ObjectRef, secrets: Vec<ObjectRef>) {
        if !self.by_pod.contains_key(pod) {
            self.set(pod, secrets);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str) -> ObjectRef {
        ObjectRef::new(Some("shop"), name)
    }

    fn objects<C: FromIterator<ObjectRef>>(names: &[&str]) -> C {
        names.iter().map(|name| object(name)).collect()
    }

    #[test]
    fn pods_are_found_by_what_they_name_now() {
        let mut named = Named::default();
        assert_eq!(
            named.set(&object("web"), objects(&["a", "b"])),
            objects(&["a", "b"])
        );
        named.set(&object("api"), objects(&["b"]));
        assert_eq!(named.pods(&object("b")), objects::<Vec<_>>(&["api", "web"]));
        assert_eq!(
            named.set(&object("web"), objects(&["c"])),
            objects(&["a", "b", "c"]),
            "those of before are concerned"
        );
        assert_eq!(named.pods(&object("b")), objects::<Vec<_>>(&["api"]));
        assert_eq!(named.set(&object("web"), Vec::new()), objects(&["c"]));
        assert_eq!(named.secrets(None), objects(&["b"]));
        assert_eq!(
            (named.by_pod.len(), named.by_secret.len()),
            (1, 1),
            "nothing is left behind"
        );
    }

    #[test]
    fn secrets_are_listed_by_namespace() {
        let mut named = Named::default();
        named.set(&object("web"), objects(&["a"]));
        let other = ObjectRef::new(Some("zoo"), "z");
        named.set(&ObjectRef::new(Some("zoo"), "web"), vec![other.clone()]);
        assert_eq!(named.secrets(Some("shop")), objects(&["a"]));
        assert_eq!(named.secrets(Some("zoo")), [other].into());
        assert!(named.secrets(Some("none")).is_empty());
    }

    #[test]
    fn first_list_does_not_hide_what_a_pod_named_before() {
        let mut named = Named::default();
        named.set(&object("web"), objects(&["a"]));
        named.set_first(&object("web"), objects(&["b"]));
        assert_eq!(
            named.set(&object("web"), objects(&["b"])),
            objects(&["a", "b"]),
            "the Secret that it left is looked at"
        );
    }
}
