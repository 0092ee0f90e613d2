//! Keeps `caBundle` up to date on exactly our webhook configurations.

use std::sync::Arc;

use base64::{Engine, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::watch;
use trustplane_plan::{
    Apply, Class, Classified, Conflicts, Expect, Kind, Manifest, Meta, Never, ObjectRef, Plan, Scope, Step,
};
use trustplane_process::ca::Authority;

use super::Effect;
use crate::{
    controller::Controller,
    rights::Rights,
    watch::{Slim, Store, WatchSpec},
};

/// What we read of a webhook configuration.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Configuration {
    #[serde(default)]
    webhooks: Vec<Entry>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    name: String,
    client_config: ClientConfig,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClientConfig {
    ca_bundle: Option<String>,
}

/// The controller that writes the CA bundle into one webhook configuration. The configuration itself belongs to whoever
/// installed it; we own the one field, and never add or remove an entry.
pub struct BundleKeeper {
    kind: Kind,
    store: Store<Configuration>,
    authority: watch::Receiver<Arc<Authority>>,
}

impl BundleKeeper {
    /// Keeps the configuration that `store` watches.
    pub fn new(
        effect: Effect,
        store: Store<Configuration>,
        authority: watch::Receiver<Arc<Authority>>,
    ) -> Self {
        Self {
            kind: kind(effect),
            store,
            authority,
        }
    }

    /// What to watch: the one configuration of this name.
    pub fn watch(effect: Effect, name: &str) -> WatchSpec<Slim<Configuration>> {
        WatchSpec::new(kind(effect), Slim::default()).fields(format!("metadata.name={name}"))
    }

    /// What it needs on the API server.
    pub fn rights(effect: Effect, name: &str) -> Rights {
        let kind = kind(effect);
        Rights::none().on_objects(&kind.group, &[&kind.plural], &["list", "watch", "patch"], &[name])
    }
}

fn kind(effect: Effect) -> Kind {
    let (kind, plural) = match effect {
        Effect::Validating => (
            "ValidatingWebhookConfiguration",
            "validatingwebhookconfigurations",
        ),
        Effect::Mutating => ("MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
    };
    Kind::new("admissionregistration.k8s.io", "v1", kind, plural, Scope::Cluster)
}

/// What a decision on one configuration rests on.
pub struct Input {
    meta: Meta,
    configuration: Configuration,
    /// PEM.
    bundle: String,
}

/// It cannot fail by itself: it reads a store.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {}

impl Classified for BundleError {
    fn class(&self) -> Class {
        match *self {}
    }

    fn reason(&self) -> &'static str {
        match *self {}
    }
}

impl Controller for BundleKeeper {
    type Key = ObjectRef;
    type Input = Input;
    type Action = Never;
    type Error = BundleError;

    fn name(&self) -> &'static str {
        "webhook-bundle"
    }

    async fn gather(&self, key: &ObjectRef) -> Result<Option<Input>, BundleError> {
        let bundle = self.authority.borrow().bundle_pem();
        Ok(self.store.get(key).map(|live| Input {
            meta: live.meta.clone(),
            configuration: live.value.clone(),
            bundle,
        }))
    }

    fn decide(&self, input: &Input, _now: Timestamp) -> Plan {
        plan(&self.kind, input)
    }

    async fn perform(&self, action: Never) -> Result<(), BundleError> {
        match action {}
    }
}

fn plan(kind: &Kind, input: &Input) -> Plan {
    let bundle = STANDARD.encode(&input.bundle);
    let current = |entry: &Entry| entry.client_config.ca_bundle.as_deref() == Some(&bundle);
    let mut plan = Plan::default();
    if !input.meta.is_terminating() && !input.configuration.webhooks.iter().all(current) {
        let entries = input.configuration.webhooks.iter();
        let entries: Vec<_> = entries
            .map(|entry| json!({"name": entry.name, "clientConfig": {"caBundle": bundle}}))
            .collect();
        plan.push(Step::Apply(Apply {
            manifest: Manifest::new(kind.clone(), None, input.meta.object.name())
                .with("webhooks", entries.into()),
            expect: Expect::Seen {
                uid: input.meta.uid.clone(),
                resource_version: input.meta.resource_version.clone(),
            },
            conflicts: Conflicts::Force,
        }));
    }
    plan
}

#[cfg(test)]
mod tests {
    use trustplane_plan::Keep;

    use super::*;

    fn input(bundles: &[Option<&str>]) -> Input {
        let entries: Vec<_> = bundles
            .iter()
            .enumerate()
            .map(|(n, bundle)| json!({"name": format!("w{n}"), "clientConfig": {"service": {}, "caBundle": bundle}}))
            .collect();
        let object =
            json!({"metadata": {"name": "ours", "uid": "u", "resourceVersion": "3"}, "webhooks": entries});
        Input {
            meta: Meta::decode(&object.to_string(), &Keep::default()).unwrap(),
            configuration: serde_json::from_value(object).unwrap(),
            bundle: "pem".into(),
        }
    }

    #[test]
    fn writes_the_bundle_alone_and_then_rests() {
        let kind = kind(Effect::Validating);
        let plan = super::plan(&kind, &input(&[None, Some("b2xk")]));
        let [Step::Apply(apply)] = plan.steps.as_slice() else {
            panic!("expected one apply: {plan:?}")
        };
        assert_eq!(
            apply.manifest.wish(),
            json!({"webhooks": [
                {"name": "w0", "clientConfig": {"caBundle": "cGVt"}},
                {"name": "w1", "clientConfig": {"caBundle": "cGVt"}},
            ]})
        );
        assert!(super::plan(&kind, &input(&[Some("cGVt"), Some("cGVt")])).is_empty());
    }
}
