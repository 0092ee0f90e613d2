//! Whether the API server asks the webhooks about a change.
//!
//! The check of webhooks sees the configurations, their CA, and that the Service answers. It cannot see whether the API server trusts
//! the certificate behind the Service: the proxy of the API server, by which it asks, verifies none. An expired certificate stops every
//! change of ZTWIM and looks well there. So a dry run asks in earnest.
//!
//! The dry run creates a ZTWIM without a trust domain, which `fill` always refuses: only this refusal is proof that the webhook was
//! asked. A change that changes nothing is no proof, as the match conditions keep it from the webhooks. `judge` has the same Service and
//! the same CA.
//!
//! **Guarantees.** Nothing is written: it is a dry run, of an object that is refused, or that exists already.

use kube::Api;
use kube::api::PostParams;
use kube::core::Status;
use trustplane_api::identity::names::SINGLETON;
use trustplane_api::identity::{ZeroTrustWorkloadIdentityManager, ZtwimSpec};

use super::super::observation::ProcessView;
use super::super::report::Finding;
use super::super::webhooks::Answer;
use super::RunBy;
use crate::cluster::{Cluster, Obstacle, Seen};

/// The webhook that fills in what is inherited.
pub const FILL: &str = "fill.identity.trustplane.io";
/// The webhook that judges the result.
pub const JUDGE: &str = "judge.identity.trustplane.io";

/// What became of the dry run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DryRun {
    /// The webhook has refused it.
    Judged,
    /// It got past the webhook.
    Passed,
    /// The API server cannot call the webhook, in its own words.
    NotCalled(String),
    /// The kind does not exist, which another finding tells.
    NoKind,
}

/// Whether the webhook may answer, as far as the check of webhooks knows: one fault is told once.
pub fn may_answer(view: &ProcessView) -> bool {
    match view.webhooks.get(FILL) {
        Some(Ok(Some(webhook))) => {
            webhook.has_authority && !matches!(webhook.answer, Ok(Answer::UnknownPath | Answer::Nobody(_)))
        }
        Some(Ok(None)) | None => false,
        // Who may not see the configuration may still be allowed to try.
        Some(Err(_)) => true,
    }
}

/// Tries it.
pub async fn look(cluster: &Cluster) -> Seen<DryRun> {
    let wish = ZeroTrustWorkloadIdentityManager::new(SINGLETON, ZtwimSpec::default());
    let api: Api<ZeroTrustWorkloadIdentityManager> = Api::all(cluster.client.clone());
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let answer = cluster.ask(async {
        match api.create(&dry, &wish).await {
            Ok(_) => Ok(None),
            Err(kube::Error::Api(status)) => Ok(Some(status)),
            Err(error) => Err(error),
        }
    });
    match answer.await? {
        None => Ok(DryRun::Passed),
        Some(status) => understand(&status),
    }
}

fn understand(status: &Status) -> Seen<DryRun> {
    let told = &status.message;
    let is_refused_by = |name: &str| told.contains(&format!("admission webhook {name:?} denied the request"));
    let is_uncalled = |name: &str| told.contains(&format!("failed calling webhook {name:?}"));
    if is_refused_by(FILL) {
        Ok(DryRun::Judged)
    } else if is_uncalled(FILL) || is_uncalled(JUDGE) {
        Ok(DryRun::NotCalled(told.clone()))
    } else if is_refused_by(JUDGE) || status.is_already_exists() {
        Ok(DryRun::Passed)
    } else if status.is_not_found() {
        Ok(DryRun::NoKind)
    } else if status.is_forbidden() && told.contains("cannot create resource") {
        Err(Obstacle::Forbidden)
    } else {
        Err(Obstacle::Failed(told.clone()))
    }
}

/// Judges what became of it.
pub fn judge(seen: &Seen<DryRun>, run_by: &RunBy) -> Option<Finding> {
    let subject = format!("dry-run/{}", super::MANAGER);
    Some(match seen {
        Ok(DryRun::NoKind) => return None,
        Ok(DryRun::Judged) => Finding::good(subject, format!("the API server asks {FILL}")),
        Ok(DryRun::Passed) => Finding::bad(
            subject,
            format!("the API server does not ask {FILL}, so a wrong change gets past admission"),
            "install the chart again: helm upgrade",
        ),
        Ok(DryRun::NotCalled(why)) => Finding::bad(
            subject,
            format!("the API server cannot ask: {why}"),
            run_by.logs(),
        ),
        // The check of webhooks has found no fault: that the user may not try is none.
        Err(Obstacle::Forbidden) => Finding::warning(
            subject,
            "cannot tell whether the API server asks the webhooks: you may not try",
            "ask for the right to create zerotrustworkloadidentitymanagers, which is used for a dry run only",
        ),
        Err(Obstacle::Failed(why)) => Finding::warning(
            subject,
            format!("cannot tell whether the API server asks the webhooks: {why}"),
            "look at what refuses it: kubectl get mutatingwebhookconfigurations,validatingadmissionpolicies",
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(code: u16, reason: &str, message: &str) -> Status {
        let status =
            serde_json::json!({ "status": "Failure", "code": code, "reason": reason, "message": message });
        serde_json::from_value(status).unwrap()
    }

    #[test]
    fn only_the_refusal_of_fill_is_proof_that_it_was_asked() {
        let refused = |name: &str| {
            let message =
                format!("admission webhook {name:?} denied the request: spec.trustDomain: required");
            understand(&status(422, "", &message))
        };
        assert_eq!(refused(FILL), Ok(DryRun::Judged));
        assert_eq!(refused(JUDGE), Ok(DryRun::Passed));
        let exists = status(409, "AlreadyExists", "\"cluster\" already exists");
        assert_eq!(understand(&exists), Ok(DryRun::Passed));
    }

    #[test]
    fn refusal_of_another_webhook_tells_nothing() {
        let other = "admission webhook \"x.example.org\" denied the request: cannot create resource";
        for status in [
            status(400, "BadRequest", other),
            status(500, "InternalError", "failed calling webhook \"x.example.org\""),
        ] {
            assert_eq!(understand(&status), Err(Obstacle::Failed(status.message.clone())));
        }
        assert_eq!(
            understand(&status(404, "NotFound", "not found")),
            Ok(DryRun::NoKind)
        );
    }
}
