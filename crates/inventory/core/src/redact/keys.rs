//! Keys of annotations that never pass, whatever their value is.

/// How a key is recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyRule {
    /// The key begins with this.
    Prefix(&'static str),
    /// The key has this somewhere.
    Contains(&'static str),
}

impl KeyRule {
    fn matches(self, key: &str) -> bool {
        match self {
            Self::Prefix(prefix) => key.starts_with(prefix),
            Self::Contains(part) => key.contains(part),
        }
    }
}

/// The keys that never pass, and what stands behind each of them.
#[rustfmt::skip]
pub const DROPPED_KEYS: [(KeyRule, &str); 9] = [
    (KeyRule::Prefix("kubectl.kubernetes.io/"), "kubectl: the manifest that was applied last"),
    (KeyRule::Prefix("kubernetes.io/"), "Kubernetes itself"),
    (KeyRule::Contains("last-applied"), "kubectl, Banzai Cloud, Crossplane, Kyverno and others: what was applied last"),
    (KeyRule::Contains("last-handled"), "kopf: the object that an operator handled last"),
    (KeyRule::Prefix("kapp.k14s.io/original"), "kapp: the manifest, its diff and its hash"),
    (KeyRule::Prefix("objectset.rio.cattle.io/applied"), "Rancher: the manifest, compressed"),
    (KeyRule::Prefix("configmanagement.gke.io/declared-config"), "Config Sync: the manifest"),
    (KeyRule::Prefix("workflows.argoproj.io/template"), "Argo Workflows: a template with the values of its environment"),
    (KeyRule::Prefix("openshift.io/token-secret.value"), "OpenShift: the token of a ServiceAccount"),
];

/// Whether an annotation with this key may pass, if its value does.
pub fn keeps_key(key: &str) -> bool {
    !DROPPED_KEYS.iter().any(|(rule, _)| rule.matches(key))
}
