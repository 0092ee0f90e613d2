//! What is kept of the objects that are watched.

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use trustplane_identity_core::health::Workload;

/// What is kept of an object of our five kinds: it may lack a spec, and a spec of another version is still there.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct SeenObject {
    /// What people wrote, as it is stored.
    pub spec: Value,
    /// What we wrote last.
    pub status: Value,
}

/// What is kept of a ConfigMap: whether it has a bundle.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct SeenConfigMap {
    #[serde(rename = "data", deserialize_with = "has_bundle")]
    pub has_bundle: bool,
}

/// What is kept of a StatefulSet, a DaemonSet or a Deployment.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct SeenWorkload(pub Workload);

#[derive(Deserialize)]
struct BundleData {
    #[serde(rename = "bundle.crt")]
    bundle: Option<NotEmpty>,
}

/// Whether a text has at least one character. The text itself is dropped.
struct NotEmpty(bool);

impl<'de> Deserialize<'de> for NotEmpty {
    fn deserialize<D: Deserializer<'de>>(text: D) -> Result<Self, D::Error> {
        Ok(Self(!String::deserialize(text)?.is_empty()))
    }
}

fn has_bundle<'de, D: Deserializer<'de>>(data: D) -> Result<bool, D::Error> {
    let data = Option::<BundleData>::deserialize(data)?;
    Ok(data.and_then(|data| data.bundle).is_some_and(|bundle| bundle.0))
}

/// An object that exists. None of its fields are kept.
#[derive(Debug, Deserialize)]
pub(crate) struct Exists {
    #[serde(rename = "metadata")]
    _metadata: IgnoredAny,
}

/// What is read of a Namespace: what its pods may do.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct SeenNamespace {
    pub metadata: NamespaceMeta,
}

/// The labels of a Namespace.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct NamespaceMeta {
    #[serde(default)]
    pub labels: std::collections::BTreeMap<String, String>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn config_map_has_a_bundle_when_its_key_is_not_empty() {
        let has = |object: Value| {
            serde_json::from_value::<SeenConfigMap>(object)
                .unwrap()
                .has_bundle
        };
        assert!(has(json!({"data": {"bundle.crt": "PEM", "other": "x"}})));
        assert!(!has(json!({"data": {"bundle.crt": ""}})));
        assert!(!has(json!({"data": {"other": "x"}})));
        assert!(!has(json!({"data": null})));
        assert!(!has(json!({})));
    }
}
