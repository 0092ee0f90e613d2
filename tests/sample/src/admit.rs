//! What the sample lets into the cluster: three webhooks, each with a pure function behind it.
//!
//! None of the rules can be said in the CRD: they need the namespace of the installation, or other mirrors.

use std::pin::Pin;
use std::sync::Arc;

use json_patch::Patch;
use kube::api::ListParams;
use kube::{Api, Client};
use serde_json::json;
use trustplane_kit::admission::{
    Effect, Failure, Judge, MatchCondition, Operation, Request, Verdict, Webhook,
};

use crate::api::{Mirror, MirrorSpec};

/// Refuses mirrors where nobody keeps them. It must not be missed, so it fails closed, and is asked about every namespace but
/// our own, where it has nothing to say.
pub fn placement() -> Webhook {
    webhook("placement", Effect::Validating, Failure::Fail)
}

/// Refuses mirrors of mirrors. The controller would find them out later, so it fails open.
pub fn chains() -> Webhook {
    webhook("chains", Effect::Validating, Failure::Ignore)
}

/// Puts targets in order, each once.
pub fn order() -> Webhook {
    Webhook {
        match_conditions: vec![MatchCondition::new(
            "several-targets",
            "object.spec.targets.size() > 1",
        )],
        ..webhook("order", Effect::Mutating, Failure::Ignore)
    }
}

fn webhook(name: &str, effect: Effect, failure: Failure) -> Webhook {
    Webhook {
        name: format!("{name}.mirrors.test.trustplane.io"),
        effect,
        path: format!("/mirrors/{name}"),
        group: "test.trustplane.io".to_owned(),
        versions: vec!["v1".to_owned()],
        resources: vec!["mirrors".to_owned()],
        operations: vec![Operation::Create, Operation::Update],
        match_conditions: Vec::new(),
        failure,
        timeout_seconds: 5,
    }
}

/// Judges [`placement`].
pub fn is_in_place(home: Arc<str>) -> impl Judge {
    move |request: &Request| match request.namespace.as_deref() {
        Some(namespace) if namespace == &*home => Verdict::allow(),
        _ => Verdict::deny(
            "metadata.namespace",
            "must be the namespace of the installation: nobody keeps mirrors elsewhere",
        ),
    }
}

/// Judges [`order`].
pub fn put_in_order(request: &Request) -> Verdict {
    let Some(mirror) = new_mirror(request) else {
        return Verdict::allow();
    };
    let targets = in_order(&mirror.spec.targets);
    if targets == mirror.spec.targets {
        return Verdict::allow();
    }
    let patch = json!([{ "op": "replace", "path": "/spec/targets", "value": targets }]);
    match serde_json::from_value::<Patch>(patch) {
        Ok(patch) => Verdict::Change {
            patch,
            warnings: Vec::new(),
        },
        Err(_) => Verdict::allow(),
    }
}

fn in_order(targets: &[String]) -> Vec<String> {
    let mut targets = targets.to_vec();
    targets.sort();
    targets.dedup();
    targets
}

/// Judges [`chains`]. It asks the API server what mirrors there are: a store may not know yet of one that was made a moment
/// ago.
pub struct Chains {
    /// How to ask.
    pub client: Client,
    /// Where mirrors are kept; those elsewhere are refused by [`placement`].
    pub home: Arc<str>,
}

impl Judge for Chains {
    fn judge<'a>(&'a self, request: &'a Request) -> Pin<Box<dyn Future<Output = Verdict> + Send + 'a>> {
        Box::pin(async {
            let Some(mirror) = new_mirror(request) else {
                return Verdict::allow();
            };
            if request.namespace.as_deref() != Some(&*self.home) {
                return Verdict::allow();
            }
            let mirrors: Api<Mirror> = Api::namespaced(self.client.clone(), &self.home);
            match mirrors.list(&ListParams::default()).await {
                Ok(others) => chained(&request.name, &mirror.spec, &others.items),
                Err(_) => Verdict::Undecided {
                    why: "the other mirrors cannot be read".to_owned(),
                },
            }
        })
    }
}

fn chained(name: &str, spec: &MirrorSpec, others: &[Mirror]) -> Verdict {
    if spec.targets.contains(&spec.source) {
        return Verdict::deny("spec.targets", "must not contain the source");
    }
    let others = others
        .iter()
        .filter(|other| other.metadata.name.as_deref() != Some(name));
    for other in others {
        let whose = other.metadata.name.as_deref().unwrap_or_default();
        if other.spec.targets.contains(&spec.source) {
            let rule = format!("must not be a copy, but the mirror {whose} keeps it as one");
            return Verdict::deny("spec.source", &rule);
        }
        if spec.targets.contains(&other.spec.source) {
            let rule = format!("must not contain a source, but the mirror {whose} copies one of them");
            return Verdict::deny("spec.targets", &rule);
        }
    }
    Verdict::allow()
}

/// The mirror as it shall be, if its spec is new. An update that leaves the spec alone always passes: a finalizer must be
/// removable from a mirror that no rule would let in today.
fn new_mirror(request: &Request) -> Option<Mirror> {
    let new: Mirror = request.object.clone()?.try_parse().ok()?;
    let old: Option<Mirror> = request.old_object.clone().and_then(|old| old.try_parse().ok());
    (old.is_none_or(|old| old.spec != new.spec)).then_some(new)
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unwrap_used,
        clippy::panic,
        reason = "a test stops at the first surprise"
    )]

    use kube::core::DynamicObject;
    use kube::core::admission::AdmissionReview;
    use serde_json::Value;

    use super::*;

    fn spec(source: &str, targets: &[&str]) -> MirrorSpec {
        MirrorSpec {
            source: source.to_owned(),
            targets: targets.iter().map(|target| (*target).to_owned()).collect(),
        }
    }

    fn request(old: Option<&MirrorSpec>, new: &MirrorSpec) -> Request {
        let object = |spec: &MirrorSpec| -> Value { json!(Mirror::new("m", spec.clone())) };
        let review = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {
                "uid": "u", "name": "m", "namespace": "home", "userInfo": {},
                "operation": if old.is_some() { "UPDATE" } else { "CREATE" },
                "kind": {"group": "test.trustplane.io", "version": "v1", "kind": "Mirror"},
                "resource": {"group": "test.trustplane.io", "version": "v1", "resource": "mirrors"},
                "object": object(new), "oldObject": old.map(object),
            }
        });
        let review: AdmissionReview<DynamicObject> = serde_json::from_value(review).unwrap();
        review.try_into().unwrap()
    }

    #[test]
    fn a_chain_is_refused_from_either_end() {
        let others = [
            Mirror::new("first", spec("a", &["b"])),
            Mirror::new("m", spec("x", &["y"])),
        ];
        let verdict = |source: &str, targets: &[&str]| chained("m", &spec(source, targets), &others);
        assert_eq!(verdict("c", &["d"]), Verdict::allow());
        assert_eq!(
            verdict("a", &["d"]),
            Verdict::allow(),
            "two mirrors of one source"
        );
        assert_eq!(
            verdict("x", &["y"]),
            Verdict::allow(),
            "its own old self is no other"
        );
        let denied = |verdict: Verdict| match verdict {
            Verdict::Deny { field, rule } => (field, rule.contains("first")),
            other => panic!("{other:?}"),
        };
        assert_eq!(denied(verdict("b", &["d"])), ("spec.source".to_owned(), true));
        assert_eq!(
            denied(verdict("z", &["d", "a"])),
            ("spec.targets".to_owned(), true)
        );
        assert_eq!(denied(verdict("z", &["z"])), ("spec.targets".to_owned(), false));
    }

    #[tokio::test]
    async fn a_mirror_elsewhere_is_refused() {
        let request = request(None, &spec("a", &["b"]));
        assert_eq!(is_in_place("home".into()).judge(&request).await, Verdict::allow());
        let verdict = is_in_place("elsewhere".into()).judge(&request).await;
        assert!(matches!(verdict, Verdict::Deny { field, .. } if field == "metadata.namespace"));
    }

    #[test]
    fn targets_are_put_in_order_once() {
        let Verdict::Change { patch, .. } = put_in_order(&request(None, &spec("s", &["b", "a", "b"]))) else {
            panic!("expected a change")
        };
        let mut object = json!({ "spec": { "targets": ["b", "a", "b"] } });
        json_patch::patch(&mut object, &patch).unwrap();
        assert_eq!(object["spec"]["targets"], json!(["a", "b"]));
        let sorted = request(None, &spec("s", &["a", "b"]));
        assert_eq!(put_in_order(&sorted), Verdict::allow());
        let unsorted = spec("s", &["b", "a"]);
        assert_eq!(
            put_in_order(&request(Some(&unsorted), &unsorted)),
            Verdict::allow()
        );
    }
}
