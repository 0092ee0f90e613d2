//! Admission webhooks that the API server calls by URL: a server of the test, on loopback.

use anyhow::{Context, Result};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhook, MutatingWebhookConfiguration, RuleWithOperations, ValidatingWebhook,
    ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::Api;
use kube::api::PostParams;

use crate::Sandbox;

/// A webhook to be registered for the namespace of a test.
///
/// The registration asks for the namespace alone, so that tests which share a control plane do not meet in it, and goes with
/// the sandbox.
#[derive(Debug, Clone)]
pub struct Webhook {
    /// The name, such as `check`; the sandbox makes it unique.
    pub name: String,
    /// Where the API server calls, such as `https://127.0.0.1:9443/validate`.
    pub url: String,
    /// The authority of the server's certificate, as PEM.
    pub ca_bundle: String,
    /// What it is asked about.
    pub rules: Vec<RuleWithOperations>,
}

impl Webhook {
    fn client_config(&self) -> WebhookClientConfig {
        WebhookClientConfig {
            ca_bundle: Some(ByteString(self.ca_bundle.clone().into_bytes())),
            url: Some(self.url.clone()),
            service: None,
        }
    }
}

/// A rule about writes of one kind.
pub fn on_writes_of(group: &str, version: &str, resource: &str) -> RuleWithOperations {
    let one = |text: &str| Some(vec![text.to_owned()]);
    RuleWithOperations {
        api_groups: one(group),
        api_versions: one(version),
        operations: Some(["CREATE", "UPDATE", "DELETE"].map(str::to_owned).to_vec()),
        resources: one(resource),
        scope: None,
    }
}

impl Sandbox {
    /// Lets a webhook decide over writes in this namespace.
    pub async fn register_validating(&self, webhook: &Webhook) -> Result<()> {
        let wish = ValidatingWebhookConfiguration {
            metadata: self.cluster_scoped(&webhook.name),
            webhooks: Some(vec![ValidatingWebhook {
                admission_review_versions: vec!["v1".to_owned()],
                client_config: webhook.client_config(),
                failure_policy: Some("Fail".to_owned()),
                name: format!("{}.test.trustplane.io", webhook.name),
                namespace_selector: Some(self.only_here()),
                rules: Some(webhook.rules.clone()),
                side_effects: "None".to_owned(),
                timeout_seconds: Some(5),
                ..ValidatingWebhook::default()
            }]),
        };
        let api: Api<ValidatingWebhookConfiguration> = Api::all(self.client());
        api.create(&PostParams::default(), &wish)
            .await
            .with_context(|| format!("register the webhook {}", webhook.name))?;
        Ok(())
    }

    /// Lets a webhook change what is written in this namespace.
    pub async fn register_mutating(&self, webhook: &Webhook) -> Result<()> {
        let wish = MutatingWebhookConfiguration {
            metadata: self.cluster_scoped(&webhook.name),
            webhooks: Some(vec![MutatingWebhook {
                admission_review_versions: vec!["v1".to_owned()],
                client_config: webhook.client_config(),
                failure_policy: Some("Fail".to_owned()),
                name: format!("{}.test.trustplane.io", webhook.name),
                namespace_selector: Some(self.only_here()),
                rules: Some(webhook.rules.clone()),
                side_effects: "None".to_owned(),
                timeout_seconds: Some(5),
                ..MutatingWebhook::default()
            }]),
        };
        let api: Api<MutatingWebhookConfiguration> = Api::all(self.client());
        api.create(&PostParams::default(), &wish)
            .await
            .with_context(|| format!("register the webhook {}", webhook.name))?;
        Ok(())
    }

    fn only_here(&self) -> LabelSelector {
        let name = (
            "kubernetes.io/metadata.name".to_owned(),
            self.namespace().to_owned(),
        );
        LabelSelector {
            match_labels: Some([name].into()),
            ..LabelSelector::default()
        }
    }
}
