//! What a judge sees and says, and how the API server hears it.

use axum::http::StatusCode;
use kube::core::{
    DynamicObject,
    admission::{AdmissionRequest, AdmissionResponse},
};
use strum::IntoStaticStr;

use super::Effect;

/// What a judge sees: the old and the new object, who asks, and whether it is only a dry run.
pub type Request = AdmissionRequest<DynamicObject>;

/// What a judge says.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// The request may pass; warnings are shown to the user.
    Allow {
        /// Lines for the user.
        warnings: Vec<String>,
    },
    /// The request may pass with this change. Only a mutating webhook may say it.
    Change {
        /// The change.
        patch: json_patch::Patch,
        /// Lines for the user.
        warnings: Vec<String>,
    },
    /// The request is refused.
    Deny {
        /// The field that is wrong, as a path such as `spec.source`.
        field: String,
        /// The rule that it breaks, without the value.
        rule: String,
    },
    /// The judge cannot tell, because something that it had to read is out of reach. What becomes of the request is up to
    /// the failure policy of the webhook.
    Undecided {
        /// What is out of reach, without a value.
        why: String,
    },
}

/// Why a review has no verdict. The words reach the user who made the request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub(super) enum Unanswered {
    #[error("too many reviews at once")]
    Busy,
    #[error("the review is too large")]
    TooLarge,
    #[error("the review did not arrive in time")]
    SlowBody,
    #[error("the body is not an AdmissionReview with a request")]
    Malformed,
    #[error("the judge did not answer in time")]
    Timeout,
    #[error("the judge failed")]
    Panic,
    #[error("the judge may not change the object, but wants to")]
    Overreach,
    #[error("{0}")]
    Undecided(String),
}

impl Unanswered {
    /// The label in metrics.
    pub fn outcome(&self) -> &'static str {
        self.into()
    }

    pub fn status(&self) -> StatusCode {
        match self {
            Self::Busy => StatusCode::TOO_MANY_REQUESTS,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::SlowBody => StatusCode::REQUEST_TIMEOUT,
            Self::Malformed => StatusCode::BAD_REQUEST,
            // For this code, and no other of its kind, the API server passes our words on to the user.
            Self::Timeout | Self::Panic | Self::Overreach | Self::Undecided(_) => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
        }
    }
}

impl Verdict {
    /// The request may pass.
    pub fn allow() -> Self {
        Self::Allow { warnings: Vec::new() }
    }

    /// The request is refused because this field breaks this rule.
    pub fn deny(field: &str, rule: &str) -> Self {
        Self::Deny {
            field: field.to_owned(),
            rule: rule.to_owned(),
        }
    }

    /// The answer to the API server, and its label in metrics.
    pub(super) fn answer(
        self,
        request: &Request,
        effect: Effect,
    ) -> Result<(&'static str, AdmissionResponse), Unanswered> {
        let mut response = AdmissionResponse::from(request);
        let (outcome, warnings) = match self {
            Self::Allow { warnings } => ("allowed", warnings),
            Self::Change { .. } if effect == Effect::Validating => return Err(Unanswered::Overreach),
            Self::Change { patch, warnings } => {
                response = response.with_patch(patch).map_err(|_| Unanswered::Panic)?;
                ("changed", warnings)
            }
            Self::Deny { field, rule } => {
                response = response.deny(format!("{field}: {rule}"));
                response.result.code = 422;
                response.result.reason = "Invalid".to_owned();
                ("denied", Vec::new())
            }
            Self::Undecided { why } => return Err(Unanswered::Undecided(why)),
        };
        response.warnings = (!warnings.is_empty()).then_some(warnings);
        Ok((outcome, response))
    }
}

#[cfg(test)]
mod tests {
    use kube::core::admission::AdmissionReview;
    use serde_json::{Value, json};

    use super::*;

    fn request() -> Request {
        let review = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {
                "uid": "u1", "name": "n", "namespace": "ns", "operation": "CREATE", "dryRun": true,
                "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
                "resource": {"group": "", "version": "v1", "resource": "configmaps"},
                "userInfo": {"username": "somebody"},
                "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "n"}},
                "oldObject": null
            }
        });
        let review: AdmissionReview<DynamicObject> = serde_json::from_value(review).unwrap();
        review.try_into().unwrap()
    }

    fn answer(verdict: Verdict, effect: Effect) -> Result<Value, Unanswered> {
        let (_, response) = verdict.answer(&request(), effect)?;
        Ok(serde_json::to_value(response.into_review()).unwrap()["response"].clone())
    }

    #[test]
    fn a_denial_names_the_field_and_the_rule() {
        let denial = Verdict::deny("spec.source", "must not be empty");
        let response = answer(denial, Effect::Validating).unwrap();
        assert_eq!(response["uid"], "u1");
        assert_eq!(response["allowed"], false);
        assert_eq!(response["status"]["code"], 422);
        assert_eq!(response["status"]["message"], "spec.source: must not be empty");
    }

    #[test]
    fn a_change_is_a_json_patch_and_for_mutating_webhooks_alone() {
        let patch = serde_json::from_value(json!([{"op": "add", "path": "/data", "value": {}}])).unwrap();
        let change = Verdict::Change {
            patch,
            warnings: vec!["look".into()],
        };
        let response = answer(change.clone(), Effect::Mutating).unwrap();
        assert_eq!(response["allowed"], true);
        assert_eq!(response["patchType"], "JSONPatch");
        assert_eq!(response["warnings"][0], "look");
        assert_eq!(answer(change, Effect::Validating), Err(Unanswered::Overreach));
    }
}
