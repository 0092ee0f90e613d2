//! Admission webhooks that the API server calls by URL: a server on loopback, of the test or of a process under test.

use anyhow::{Context, Result};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, RuleWithOperations, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::Sandbox;

/// Whoever installs configurations, as Helm does.
pub const INSTALLER: &str = "hand-of-the-installer";

/// One entry of a configuration.
///
/// It asks for the namespace of its sandbox alone, so that tests which share a control plane do not meet in it, and refuses
/// what it cannot judge.
#[derive(Debug, Clone)]
pub struct Webhook {
    /// The full name, such as `check.test.trustplane.io`.
    pub name: String,
    /// Where the API server calls, such as `https://127.0.0.1:9443/validate`.
    pub url: String,
    /// The authority of the server's certificate, as PEM; none where a process is to write it.
    pub ca_bundle: Option<String>,
    /// What it is asked about.
    pub rule: RuleWithOperations,
    /// What must be true of a request: a list as in a configuration.
    pub match_conditions: Value,
}

impl Webhook {
    fn entry(&self, namespace: &str) -> Value {
        let client = WebhookClientConfig {
            ca_bundle: self.ca_bundle.clone().map(|pem| ByteString(pem.into_bytes())),
            url: Some(self.url.clone()),
            service: None,
        };
        json!({
            "name": self.name,
            "admissionReviewVersions": ["v1"],
            "clientConfig": client,
            "failurePolicy": "Fail",
            "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": namespace } },
            "rules": [self.rule],
            "matchConditions": self.match_conditions,
            "sideEffects": "None",
            "timeoutSeconds": 5,
        })
    }
}

/// A rule about new and changed objects of one kind.
pub fn on_writes_of(group: &str, version: &str, resource: &str) -> RuleWithOperations {
    let one = |text: &str| Some(vec![text.to_owned()]);
    RuleWithOperations {
        api_groups: one(group),
        api_versions: one(version),
        operations: Some(["CREATE", "UPDATE"].map(str::to_owned).to_vec()),
        resources: one(resource),
        scope: None,
    }
}

impl Sandbox {
    /// The name of a cluster-scoped object of this sandbox: unique on the control plane.
    pub fn unique(&self, name: &str) -> String {
        format!("{}-{name}", self.namespace())
    }

    /// Installs a configuration under the [unique](Self::unique) form of a name, or installs it anew as an upgrade does. It goes
    /// with the sandbox.
    pub async fn register_validating(
        &self,
        name: &str,
        webhooks: &[Webhook],
    ) -> Result<ValidatingWebhookConfiguration> {
        let wish = self.configuration("ValidatingWebhookConfiguration", name, webhooks)?;
        let api: Api<ValidatingWebhookConfiguration> = Api::all(self.client());
        let hand = PatchParams::apply(INSTALLER);
        let made = api.patch(&self.unique(name), &hand, &Patch::Apply(wish)).await;
        made.with_context(|| format!("register the webhooks {name}"))
    }

    /// As [`Self::register_validating`], for webhooks that may change what is written.
    pub async fn register_mutating(
        &self,
        name: &str,
        webhooks: &[Webhook],
    ) -> Result<MutatingWebhookConfiguration> {
        let wish = self.configuration("MutatingWebhookConfiguration", name, webhooks)?;
        let api: Api<MutatingWebhookConfiguration> = Api::all(self.client());
        let hand = PatchParams::apply(INSTALLER);
        let made = api.patch(&self.unique(name), &hand, &Patch::Apply(wish)).await;
        made.with_context(|| format!("register the webhooks {name}"))
    }

    fn configuration(&self, kind: &str, name: &str, webhooks: &[Webhook]) -> Result<Value> {
        let entries: Vec<Value> = webhooks
            .iter()
            .map(|webhook| webhook.entry(self.namespace()))
            .collect();
        Ok(json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": serde_json::to_value(self.cluster_scoped(name)).context("make a configuration")?,
            "webhooks": entries,
        }))
    }
}
