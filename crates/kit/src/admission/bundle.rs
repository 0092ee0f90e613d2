//! Keeps `caBundle` up to date on exactly our entries of exactly our webhook configurations.
//!
//! A configuration belongs to whoever installed it; ours is one field of some entries. It is written by a merge patch and
//! not by server-side apply, which knows no such thing as a part of an entry: it would make us a holder of the whole entry,
//! and an upgrade that drops one would meet a rest of it that is no valid webhook, and fail.

use std::{fmt, sync::Arc};

use base64::{Engine, engine::general_purpose::STANDARD};
use http::Method;
use jiff::Timestamp;
use kube::Client;
use serde::Deserialize;
use serde_json::json;
use trustplane_plan::kinds::{MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS};
use trustplane_plan::{Class, Classified, Kind, Meta, ObjectRef, Plan, Step, Target};

use super::{AuthorityError, Effect, SharedAuthority, Webhook};
use crate::{
    apply::{Attempt, Call, judge, note_update},
    controller::{Controller, Fault, Look},
    rights::{Place, Rights},
    watch::{Slim, Store, WatchSpec},
};

/// Merges lists of built-in kinds by the key of their items: here the name of an entry.
const STRATEGIC_MERGE_PATCH: &str = "application/strategic-merge-patch+json";

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

/// The controller that writes the CA bundle into one webhook configuration. It never adds or removes an entry, and leaves
/// entries alone that are not ours.
pub struct BundleKeeper {
    effect: Effect,
    entries: Vec<String>,
    store: Store<Configuration>,
    authority: SharedAuthority,
    client: Client,
}

impl BundleKeeper {
    /// The field manager.
    pub const MANAGER: &str = "trustplane-webhook-bundle";

    /// Keeps the entries of these webhooks in the configuration that `store` watches.
    pub fn new(
        effect: Effect,
        webhooks: &[Webhook],
        store: Store<Configuration>,
        authority: SharedAuthority,
        client: Client,
    ) -> Self {
        let ours = webhooks.iter().filter(|webhook| webhook.effect == effect);
        Self {
            effect,
            entries: ours.map(|webhook| webhook.name.clone()).collect(),
            store,
            authority,
            client,
        }
    }

    /// What to watch: the one configuration of this name.
    pub fn watch(effect: Effect, name: &str) -> WatchSpec<Slim<Configuration>> {
        WatchSpec::new(kind(effect), Slim::default()).fields(format!("metadata.name={name}"))
    }

    /// What it needs on the API server.
    pub fn rights(effect: Effect, name: &str) -> Rights {
        let kind = kind(effect);
        Rights::none().on_objects(
            Place::Cluster,
            &kind.group,
            &[&kind.plural],
            &["list", "watch", "patch"],
            &[name],
        )
    }
}

fn kind(effect: Effect) -> Kind {
    match effect {
        Effect::Validating => VALIDATING_WEBHOOKS,
        Effect::Mutating => MUTATING_WEBHOOKS,
    }
}

/// What a decision on one configuration rests on.
pub struct Input {
    meta: Meta,
    configuration: Configuration,
    /// PEM.
    bundle: String,
}

/// The bundle, to be put into some entries of one version of a configuration.
pub struct Announcement {
    target: Target,
    uid: Arc<str>,
    resource_version: Arc<str>,
    entries: Vec<String>,
    /// As it stands in the object: base64 of PEM.
    bundle: String,
}

impl fmt::Debug for Announcement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "caBundle of {} in {}", self.entries.join(", "), self.target)
    }
}

/// Why a bundle is not up to date.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// The CA cannot be read.
    #[error(transparent)]
    Authority(#[from] AuthorityError),
}

impl Classified for BundleError {
    fn class(&self) -> Class {
        match self {
            Self::Authority(AuthorityError::Unusable { .. }) => Class::User,
            Self::Authority(AuthorityError::Read { source, .. } | AuthorityError::Write { source, .. }) => {
                source.class()
            }
            Self::Authority(AuthorityError::Contended(_)) => Class::Transient,
        }
    }

    fn reason(&self) -> &'static str {
        "AuthorityUnreadable"
    }
}

impl Controller for BundleKeeper {
    type Key = ObjectRef;
    type Input = Input;
    type Action = Announcement;
    type Error = BundleError;
    type Held = ();

    fn name(&self) -> &'static str {
        match self.effect {
            Effect::Validating => "validating-bundle",
            Effect::Mutating => "mutating-bundle",
        }
    }

    async fn gather(&self, key: &ObjectRef, _look: &mut Look<()>) -> Result<Option<Input>, BundleError> {
        let Some(live) = self.store.get(key) else {
            return Ok(None);
        };
        // Read live: a leader that has just begun would otherwise put the bundle back that it remembers.
        let authority = self.authority.refresh().await?;
        Ok(Some(Input {
            meta: live.meta.clone(),
            configuration: live.value.clone(),
            bundle: authority.bundle_pem(),
        }))
    }

    fn decide(&self, input: &Input, _now: Timestamp) -> Plan<Announcement> {
        plan(kind(self.effect), &self.entries, input)
    }

    async fn perform(&self, wish: Announcement) -> Result<(), Fault<BundleError>> {
        let attempt = Attempt::new("update", &wish.target);
        let path = wish.target.kind.object_path(&wish.target.object);
        let path = format!("{path}?fieldManager={}&fieldValidation=Strict", Self::MANAGER);
        let entry = |name| json!({ "name": name, "clientConfig": { "caBundle": wish.bundle } });
        let body = json!({
            "metadata": { "uid": &*wish.uid, "resourceVersion": &*wish.resource_version },
            "webhooks": wish.entries.iter().map(entry).collect::<Vec<_>>(),
        });
        let call = Call::write(Method::PATCH, path, STRATEGIC_MERGE_PATCH, &body);
        let text = judge(&attempt, call.send(&self.client).await)?;
        note_update(&wish.target, &text);
        Ok(())
    }
}

fn plan(kind: Kind, ours: &[String], input: &Input) -> Plan<Announcement> {
    let bundle = STANDARD.encode(&input.bundle);
    let differs = |entry: &&Entry| {
        ours.contains(&entry.name) && entry.client_config.ca_bundle.as_deref() != Some(&bundle)
    };
    let entries = input.configuration.webhooks.iter().filter(differs);
    let entries: Vec<_> = entries.map(|entry| entry.name.clone()).collect();
    let mut plan = Plan::default();
    if !input.meta.is_terminating() && !entries.is_empty() {
        plan.push(Step::Call(Announcement {
            target: input.meta.target(&kind),
            uid: input.meta.uid.clone(),
            resource_version: input.meta.resource_version.clone(),
            entries,
            bundle,
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
    fn only_our_entries_that_differ_are_written_and_then_it_rests() {
        let ours = ["w0".to_owned(), "w1".to_owned(), "w2".to_owned()];
        let plan = |bundles: &[Option<&str>]| plan(kind(Effect::Validating), &ours, &input(bundles));
        let made = plan(&[None, Some("b2xk"), Some("cGVt"), Some("theirs")]);
        let [Step::Call(wish)] = made.steps.as_slice() else {
            panic!("expected one write: {made:?}")
        };
        assert_eq!(
            (wish.entries.join(" "), wish.bundle.as_str()),
            ("w0 w1".to_owned(), "cGVt")
        );
        assert_eq!(
            made.steps[0].to_string(),
            "call caBundle of w0, w1 in ValidatingWebhookConfiguration ours"
        );
        assert!(plan(&[Some("cGVt"), Some("cGVt"), Some("cGVt"), None]).is_empty());
        assert!(plan(&[]).is_empty(), "an entry that is not there is not made");
    }
}
