//! The webhook configurations, as the chart installs them.

use anyhow::Result;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use trustplane_api::identity::ZTWIM;
use trustplane_kit::admission::{Effect, Webhook};
use trustplane_plan::Kind;
use trustplane_plan::kinds::{MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS};
use trustplane_testkit::{DEADLINE, INSTALLER, until};

use crate::hand::Ask;
use crate::stage::{MANAGER, Stage, shipped};

impl Stage {
    /// Installs the webhook configurations, and returns when the API server heeds both. It asks the mutating webhooks first, so they come
    /// last: until then a refusal is by a validating one.
    pub async fn install_webhooks(&self) -> Result<()> {
        for (kind, effect, name) in [
            (
                VALIDATING_WEBHOOKS,
                Effect::Validating,
                "judge.identity.trustplane.io",
            ),
            (MUTATING_WEBHOOKS, Effect::Mutating, "fill.identity.trustplane.io"),
        ] {
            let wish = self.configuration(&kind, effect);
            let installer = PatchParams::apply(INSTALLER);
            self.api(&kind)
                .patch(MANAGER, &installer, &Patch::Apply(wish))
                .await?;
            let refused = format!("admission webhook \"{name}\" denied the request: ");
            until("the webhooks to be in force", DEADLINE, || async {
                let answer = self.hand.rehearse(&Ask::create(&ZTWIM, json!({}))).await?;
                let told = answer.body["message"].as_str().unwrap_or_default();
                Ok(told.starts_with(&refused).then_some(()))
            })
            .await?;
        }
        Ok(())
    }

    /// A configuration as the chart makes it, but with a URL in the place of the service.
    fn configuration(&self, kind: &Kind, effect: Effect) -> Value {
        let entry = |webhook: Webhook| {
            let conditions = json!(webhook.match_conditions).to_string();
            let conditions = conditions
                .replace("$(PROCESS)", MANAGER)
                .replace("$(NAMESPACE)", self.sandbox.namespace());
            let conditions: Value = serde_json::from_str(&conditions).unwrap();
            json!({
                "name": webhook.name,
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": webhook.failure,
                "timeoutSeconds": webhook.timeout_seconds,
                "clientConfig": { "url": format!("https://{}{}", self.service.address, webhook.path) },
                "namespaceSelector": { "matchExpressions": [{
                    "key": "kubernetes.io/metadata.name", "operator": "NotIn",
                    "values": [self.sandbox.namespace(), "kube-system"],
                }] },
                "matchConditions": conditions,
                "rules": [{
                    "apiGroups": [webhook.group], "apiVersions": webhook.versions, "resources": webhook.resources,
                    "operations": webhook.operations,
                }],
            })
        };
        let webhooks = (shipped().webhooks)().into_iter();
        let webhooks = webhooks.filter(|webhook| webhook.effect == effect);
        json!({
            "apiVersion": kind.api_version(), "kind": kind.kind, "metadata": { "name": MANAGER },
            "webhooks": webhooks.map(entry).collect::<Vec<_>>(),
        })
    }

    /// Takes the webhook configurations away.
    pub async fn remove_webhooks(&self) -> Result<()> {
        for kind in [VALIDATING_WEBHOOKS, MUTATING_WEBHOOKS] {
            self.api(&kind).delete(MANAGER, &DeleteParams::default()).await?;
        }
        Ok(())
    }
}
