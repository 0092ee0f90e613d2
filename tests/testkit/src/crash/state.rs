//! The state of a namespace, without what differs from run to run.

use anyhow::{Context, Result};
use kube::Api;
use kube::api::{ApiResource, DynamicObject, ListParams};
use serde_json::Value;

use crate::Sandbox;

/// Which objects make up the end state of a scenario.
#[derive(Debug, Clone, Default)]
pub struct Picture {
    kinds: Vec<Selected>,
    dropped: Vec<String>,
}

#[derive(Debug, Clone)]
struct Selected {
    resource: ApiResource,
    labels: Option<String>,
    is_cluster_scoped: bool,
}

impl Picture {
    /// Adds the objects of a kind.
    #[must_use]
    pub fn kind<K>(self) -> Self
    where
        K: kube::Resource,
        K::DynamicType: Default,
    {
        self.resource::<K>(None, false)
    }

    /// Adds the objects of a kind that a label selector selects.
    #[must_use]
    pub fn labelled<K>(self, selector: &str) -> Self
    where
        K: kube::Resource,
        K::DynamicType: Default,
    {
        self.resource::<K>(Some(selector.to_owned()), false)
    }

    /// Adds the objects of a kind without a namespace: only on a control plane of one's own, or a borrowed one.
    #[must_use]
    pub fn cluster_scoped<K>(self, selector: Option<&str>) -> Self
    where
        K: kube::Resource,
        K::DynamicType: Default,
    {
        self.resource::<K>(selector.map(str::to_owned), true)
    }

    fn resource<K>(mut self, labels: Option<String>, is_cluster_scoped: bool) -> Self
    where
        K: kube::Resource,
        K::DynamicType: Default,
    {
        self.kinds.push(Selected {
            resource: ApiResource::erase::<K>(&K::DynamicType::default()),
            labels,
            is_cluster_scoped,
        });
        self
    }

    /// Does not look at a field of this name, wherever it stands: one that is random by design.
    #[must_use]
    pub fn without(mut self, field: &str) -> Self {
        self.dropped.push(field.to_owned());
        self
    }

    /// Takes the picture of a namespace.
    pub async fn of(&self, sandbox: &Sandbox) -> Result<Value> {
        let mut all = Vec::new();
        for Selected {
            resource,
            labels,
            is_cluster_scoped,
        } in &self.kinds
        {
            let api: Api<DynamicObject> = match is_cluster_scoped {
                true => Api::all_with(sandbox.client(), resource),
                false => Api::namespaced_with(sandbox.client(), sandbox.namespace(), resource),
            };
            let params = ListParams {
                label_selector: labels.clone(),
                ..ListParams::default()
            };
            let list = api.list(&params).await;
            for live in list.with_context(|| format!("list {}", resource.plural))? {
                let mut value = serde_json::to_value(&live)?;
                value["kind"] = resource.kind.clone().into();
                all.push(self.normal(value, sandbox.namespace()));
            }
        }
        all.sort_by_key(|value| format!("{} {}", value["kind"], value["metadata"]["name"]));
        Ok(Value::Array(all))
    }

    fn normal(&self, value: Value, namespace: &str) -> Value {
        match value {
            Value::Object(map) => map
                .into_iter()
                .filter(|(key, _)| !VOLATILE.contains(&key.as_str()) && !self.dropped.contains(key))
                .map(|(key, value)| {
                    let value = self.normal(value, namespace);
                    // The order of the managers depends on the second in which they wrote.
                    let value = if key == "managedFields" {
                        sorted(value)
                    } else {
                        value
                    };
                    (anonymous(key), value)
                })
                .collect(),
            Value::Array(list) => list
                .into_iter()
                .map(|value| self.normal(value, namespace))
                .collect(),
            Value::String(text) if text == namespace => "the namespace".into(),
            other => other,
        }
    }
}

/// A key that names an item of a list by its uid, without the uid.
fn anonymous(key: String) -> String {
    if key.starts_with("k:{\"uid\":") {
        "k:{\"uid\"}".into()
    } else {
        key
    }
}

fn sorted(value: Value) -> Value {
    let Value::Array(mut list) = value else {
        return value;
    };
    list.sort_by_key(ToString::to_string);
    Value::Array(list)
}

/// What the API server makes anew in every run, and times.
const VOLATILE: [&str; 8] = [
    "creationTimestamp",
    "deletionTimestamp",
    "generation",
    "lastTransitionTime",
    "observedGeneration",
    "resourceVersion",
    "time",
    "uid",
];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_differs_from_run_to_run_is_left_out_and_nothing_else() {
        let live = |namespace: &str, uid: &str, value: &str| {
            json!({
                "metadata": {
                    "name": "a", "namespace": namespace, "uid": uid, "resourceVersion": uid,
                    "annotations": {"x/fingerprint": uid},
                    "managedFields": [{"manager": "m", "time": uid, "fieldsV1": {format!("k:{{\"uid\":\"{uid}\"}}"): {}}}],
                },
                "data": {"key": value},
            })
        };
        let picture = Picture::default().without("x/fingerprint");
        let one = picture.normal(live("ns-1", "u1", "v"), "ns-1");
        assert_eq!(one, picture.normal(live("ns-2", "u2", "v"), "ns-2"));
        assert_ne!(one, picture.normal(live("ns-1", "u1", "w"), "ns-1"));
        assert_eq!(one["metadata"]["managedFields"][0]["manager"], "m");
    }
}
