//! The webhooks: they read what a request is judged by, and ask the rules.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;

use kube::Client;
use kube::core::DynamicObject;
use serde_json::Value;
use trustplane_api::identity::OperandKind;
use trustplane_identity_core::Settings;
use trustplane_identity_core::admit::{
    MATCH_CONDITIONS, Review, Ruling, advice, bundle_to_look_up, defects, mutate, validate,
};
use trustplane_identity_core::inherit::{Holder, OperandView, World, ZtwimView};
use trustplane_kit::admission::{
    Effect, Failure, Judge, MatchCondition, Operation, Request, Verdict, Webhook,
};
use trustplane_kit::apply::WriteError;
use trustplane_kit::manager::Context;
use trustplane_kit::read::read_object;
use trustplane_plan::kinds::CONFIG_MAP;
use trustplane_plan::{Classified, Kind, ObjectRef};

use crate::metrics::IdentityMetrics;
use crate::seen::Exists;
use crate::world::singleton;

/// What fills in values that are inherited, and what judges the result.
pub(crate) fn webhooks() -> Vec<Webhook> {
    vec![
        webhook("fill", Effect::Mutating),
        webhook("judge", Effect::Validating),
    ]
}

fn webhook(name: &str, effect: Effect) -> Webhook {
    let condition = |(name, expression): (&str, &str)| MatchCondition::new(name, expression);
    let kinds = [Holder::Ztwim]
        .into_iter()
        .chain(OperandKind::ALL.map(Holder::Operand));
    Webhook {
        name: format!("{name}.identity.trustplane.io"),
        effect,
        path: format!("/identity/{name}"),
        group: "operator.openshift.io".to_owned(),
        versions: vec!["v1alpha1".to_owned()],
        resources: kinds.map(|holder| holder.kind().plural.to_string()).collect(),
        operations: vec![Operation::Create, Operation::Update],
        match_conditions: MATCH_CONDITIONS.into_iter().map(condition).collect(),
        failure: Failure::Fail,
        timeout_seconds: 5,
    }
}

/// Serves the webhooks in a manager.
pub(crate) fn serve(context: &Context, settings: &Settings) {
    let metrics = IdentityMetrics::shared(&context.metrics);
    for webhook in webhooks() {
        let rules = Rules {
            effect: webhook.effect,
            client: context.clients.call.clone(),
            settings: Arc::new(settings.clone()),
            metrics: metrics.clone(),
        };
        context.admit(webhook, rules);
    }
}

/// Judges requests by the rules.
struct Rules {
    effect: Effect,
    client: Client,
    settings: Arc<Settings>,
    metrics: IdentityMetrics,
}

impl Judge for Rules {
    fn judge<'a>(&'a self, request: &'a Request) -> Pin<Box<dyn Future<Output = Verdict> + Send + 'a>> {
        Box::pin(async {
            let Some((subject, new)) = subject(request).zip(object(request.object.as_ref())) else {
                return Verdict::allow();
            };
            let old = object(request.old_object.as_ref());
            match self.rule(subject, old, &new).await {
                Ok(ruling) => self.verdict(subject, ruling, &new),
                // The reason alone: what a read fails with may hold parts of an answer.
                Err(error) => Verdict::Undecided {
                    why: format!(
                        "the objects beside it cannot be read ({}); try again",
                        error.reason()
                    ),
                },
            }
        })
    }
}

impl Rules {
    async fn rule(&self, subject: Holder, old: Option<Value>, new: &Value) -> Result<Ruling, WriteError> {
        let world = self.world().await?;
        let wanted = match (&old, subject) {
            (Some(old), Holder::Ztwim) => bundle_to_look_up(old, new, &world, &self.settings),
            _ => None,
        };
        let bundle_exists = match wanted {
            Some((namespace, name)) => Some(self.exists(&CONFIG_MAP, &namespace, &name).await?),
            None => None,
        };
        let of = |object: &Value| defects(subject, object);
        let review = Review {
            subject,
            old: old.as_ref(),
            new,
            world: &world,
            settings: &self.settings,
            bundle_exists,
            old_defects: &old.as_ref().map(of).unwrap_or_default(),
            defects: &of(new),
        };
        Ok(match self.effect {
            Effect::Mutating => mutate(&review),
            Effect::Validating => validate(&review),
        })
    }

    /// All objects as they are now.
    async fn world(&self) -> Result<World, WriteError> {
        let read =
            |kind: &'static Kind| async { read_object::<Value>(&self.client, kind, &singleton()).await };
        let [server, agent, csi, oidc] = OperandKind::ALL.map(OperandKind::kind);
        let (ztwim, server, agent, csi, oidc) = futures::try_join!(
            read(Holder::Ztwim.kind()),
            read(server),
            read(agent),
            read(csi),
            read(oidc)
        )?;
        let operands = OperandKind::ALL.into_iter().zip([server, agent, csi, oidc]);
        Ok(World {
            ztwim: ztwim.as_ref().map(ZtwimView::read),
            operands: operands
                .filter_map(|(kind, object)| Some(OperandView::read(kind, &object?)))
                .collect(),
        })
    }

    async fn exists(&self, kind: &Kind, namespace: &str, name: &str) -> Result<bool, WriteError> {
        let object = ObjectRef::new(Some(namespace), name);
        let found: Option<Exists> = read_object(&self.client, kind, &object).await?;
        Ok(found.is_some())
    }

    /// The verdict in the words of the server. The user hears advice once: from the mutating webhook.
    fn verdict(&self, subject: Holder, ruling: Ruling, new: &Value) -> Verdict {
        let with_advice = |mut warnings: Vec<String>| {
            if self.effect == Effect::Mutating {
                warnings.extend(advice(subject, new));
            }
            warnings
        };
        match ruling {
            Ruling::Allow { warnings } => Verdict::Allow {
                warnings: with_advice(warnings),
            },
            Ruling::Fill { object, warnings } => Verdict::Change {
                patch: json_patch::diff(new, &object),
                warnings: with_advice(warnings),
            },
            Ruling::Deny(denial) => {
                self.metrics.denied(denial.rule.label());
                Verdict::deny(&denial.field, &denial.text)
            }
        }
    }
}

/// Which of our objects a request is about.
fn subject(request: &Request) -> Option<Holder> {
    let kinds: BTreeMap<&str, Holder> = [Holder::Ztwim]
        .into_iter()
        .chain(OperandKind::ALL.map(Holder::Operand))
        .map(|holder| (holder.kind().kind.as_ref(), holder))
        .collect();
    kinds.get(request.kind.kind.as_str()).copied()
}

fn object(object: Option<&DynamicObject>) -> Option<Value> {
    serde_json::to_value(object?).ok()
}
