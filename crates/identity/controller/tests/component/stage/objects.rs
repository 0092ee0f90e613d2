//! What people do with objects, and what they see of them.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use trustplane_api::identity::ZTWIM;
use trustplane_api::identity::names::SINGLETON;
use trustplane_plan::kinds::CONFIG_MAP;
use trustplane_plan::{Kind, Scope};
use trustplane_testkit::{DEADLINE, Select, eventually, wait_for, wait_for_some};

use super::{KINDS, OPERANDS, Stage};
use crate::children::children_of;

const QUICKSTART: &str = include_str!("../../../../../../docs/guide/examples/identity/quickstart.yaml");

impl Stage {
    /// Objects of a kind, for the hand of the test: those in the namespace of SPIRE, if the kind has namespaces.
    pub fn api(&self, kind: &Kind) -> Api<DynamicObject> {
        let gvk = GroupVersionKind::gvk(&kind.group, &kind.version, &kind.kind);
        let resource = ApiResource::from_gvk_with_plural(&gvk, &kind.plural);
        match kind.scope {
            Scope::Namespaced => Api::namespaced_with(self.sandbox.client(), self.namespace(), &resource),
            Scope::Cluster => Api::all_with(self.sandbox.client(), &resource),
        }
    }

    /// Makes one of the five objects, or writes its spec, as a person does with kubectl, with strict validation. Null leaves the spec out.
    pub async fn apply(&self, kind: &Kind, spec: Value) -> Result<Value> {
        let mut wish = json!({
            "apiVersion": kind.api_version(), "kind": kind.kind, "metadata": { "name": SINGLETON },
        });
        if !spec.is_null() {
            wish["spec"] = spec;
        }
        let hand = PatchParams::apply("hand").force().validation_strict();
        let made = self.api(kind).patch(SINGLETON, &hand, &Patch::Apply(&wish)).await;
        let made = made.with_context(|| format!("apply the {}", kind.kind))?;
        Ok(serde_json::to_value(made)?)
    }

    /// Makes the objects of the quickstart.
    pub async fn quickstart(&self) -> Result<()> {
        let objects: Vec<Value> = serde_saphyr::from_multiple(QUICKSTART)?;
        for object in objects {
            let kind = KINDS.into_iter().find(|kind| object["kind"] == *kind.kind);
            self.apply(&kind.context("a kind of ours")?, object["spec"].clone())
                .await?;
        }
        Ok(())
    }

    /// Changes an object by a merge patch.
    pub async fn patch(&self, kind: &Kind, name: &str, patch: Value) -> Result<Value> {
        let changed = self
            .api(kind)
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await;
        let changed = changed.with_context(|| format!("change the {} {name}", kind.kind))?;
        Ok(serde_json::to_value(changed)?)
    }

    /// Changes an object by a strategic merge patch, as `kubectl set` does.
    pub async fn strategic(&self, kind: &Kind, name: &str, patch: Value) -> Result<()> {
        let changed = self
            .api(kind)
            .patch(name, &PatchParams::default(), &Patch::Strategic(patch))
            .await;
        changed.with_context(|| format!("change the {} {name}", kind.kind))?;
        Ok(())
    }

    /// Changes the spec of one of the five objects by a merge patch.
    pub async fn edit(&self, kind: &Kind, spec: Value) -> Result<Value> {
        self.patch(kind, SINGLETON, json!({ "spec": spec })).await
    }

    /// Reads an object that must exist.
    pub async fn read(&self, kind: &Kind, name: &str) -> Result<Value> {
        let live = self.api(kind).get(name).await;
        let live = live.with_context(|| format!("read the {} {name}", kind.kind))?;
        Ok(serde_json::to_value(live)?)
    }

    /// Asks for the deletion of an object.
    pub async fn delete(&self, kind: &Kind, name: &str, how: &DeleteParams) -> Result<()> {
        let deleted = self.api(kind).delete(name, how).await;
        deleted.with_context(|| format!("delete the {} {name}", kind.kind))?;
        Ok(())
    }

    /// Waits until an object is as it should be.
    pub async fn until(&self, kind: &Kind, name: &str, is_so: impl Fn(&Value) -> bool) -> Result<Value> {
        let api = self.api(kind);
        let live = wait_for_some(&api, name, DEADLINE, |live| {
            serde_json::to_value(live).is_ok_and(|live| is_so(&live))
        });
        let live = live.await.with_context(|| format!("{} {name}", kind.kind))?;
        Ok(serde_json::to_value(live)?)
    }

    /// Waits until an object exists.
    pub async fn there(&self, kind: &Kind, name: &str) -> Result<Value> {
        self.until(kind, name, |_| true).await
    }

    /// Waits until an object is gone.
    pub async fn gone(&self, kind: &Kind, name: &str) -> Result<()> {
        let gone = wait_for(&self.api(kind), name, DEADLINE, |live| live.is_none()).await;
        gone.with_context(|| format!("{} {name} to go", kind.kind))?;
        Ok(())
    }

    /// Waits until all children of the quickstart exist.
    pub async fn all_there(&self) -> Result<()> {
        for (kind, name) in children_of(None) {
            self.there(&kind, name).await?;
        }
        Ok(())
    }

    /// The versions of children of the quickstart: those of one operand, or all.
    pub async fn versions(&self, operand: Option<&Kind>) -> Result<BTreeMap<String, String>> {
        let mut versions = BTreeMap::new();
        for (kind, name) in children_of(operand) {
            let live = self.read(&kind, name).await?;
            let version = live["metadata"]["resourceVersion"].as_str().unwrap_or_default();
            versions.insert(format!("{} {name}", kind.kind), version.to_owned());
        }
        Ok(versions)
    }

    /// The text of a file in a ConfigMap.
    pub async fn file(&self, config_map: &str, file: &str) -> Result<String> {
        let live = self.read(&CONFIG_MAP, config_map).await?;
        Ok(live["data"][file].as_str().unwrap_or_default().to_owned())
    }

    /// Waits until a file in a ConfigMap has these words.
    pub async fn file_has(&self, config_map: &str, file: &str, words: &str) -> Result<Value> {
        let has = |live: &Value| {
            live["data"][file]
                .as_str()
                .is_some_and(|text| text.contains(words))
        };
        self.until(&CONFIG_MAP, config_map, has).await
    }

    /// Waits for an event about one of the five objects, with these words in it.
    pub async fn hears(&self, kind: &Kind, reason: &str, words: &str) -> Result<()> {
        let events: Api<Event> = Api::namespaced(self.sandbox.client(), "default");
        let is_it = |event: &Event| {
            let about = event.regarding.as_ref().and_then(|object| object.kind.as_deref());
            let note = event.note.as_deref().unwrap_or_default();
            about == Some(&*kind.kind) && event.reason.as_deref() == Some(reason) && note.contains(words)
        };
        let all = Select::default();
        let heard = eventually(&events, &all, DEADLINE, |found| {
            found.values().any(is_it).then_some(())
        });
        heard
            .await
            .with_context(|| format!("an event {reason} about {} with {words:?}", kind.kind))
    }

    /// Waits until one of the five objects says this of its present spec; gives the message.
    pub async fn says(&self, kind: &Kind, type_: &str, status: &str, reason: &str) -> Result<String> {
        let told = self.until(kind, SINGLETON, |live| {
            condition(live, type_).is_some_and(|told| {
                told["status"] == status
                    && told["reason"] == reason
                    && told["observedGeneration"] == live["metadata"]["generation"]
            })
        });
        let told = told
            .await
            .with_context(|| format!("{type_} to be {status}, {reason}"))?;
        let told = condition(&told, type_).context("a condition")?;
        Ok(told["message"].as_str().unwrap_or_default().to_owned())
    }

    /// Waits until ZTWIM and all that belongs to it are ready.
    pub async fn is_ready(&self) -> Result<()> {
        for kind in OPERANDS {
            self.says(&kind, "Ready", "True", "Ready").await?;
        }
        self.says(&ZTWIM, "Ready", "True", "Ready").await?;
        Ok(())
    }
}

/// A condition of an object.
pub fn condition<'a>(object: &'a Value, type_: &str) -> Option<&'a Value> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == type_)
}
