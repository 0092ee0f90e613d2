//! What a judge sees and says, and how the API server hears it.

use kube::core::{
    DynamicObject,
    admission::{AdmissionRequest, AdmissionResponse, AdmissionReview},
};

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

    /// The answer to the API server.
    pub(super) fn answer(self, request: &Request) -> AdmissionReview<DynamicObject> {
        let mut response = AdmissionResponse::from(request);
        let warnings = match self {
            Self::Allow { warnings } => warnings,
            Self::Change { patch, warnings } => match response.clone().with_patch(patch) {
                Ok(changed) => {
                    response = changed;
                    warnings
                }
                Err(_) => return AdmissionResponse::invalid("the change could not be encoded").into_review(),
            },
            Self::Deny { field, rule } => {
                response = response.deny(format!("{field}: {rule}"));
                response.result.code = 422;
                response.result.reason = "Invalid".to_owned();
                Vec::new()
            }
        };
        response.warnings = (!warnings.is_empty()).then_some(warnings);
        response.into_review()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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

    #[test]
    fn a_denial_names_the_field_and_the_rule() {
        let review =
            serde_json::to_value(Verdict::deny("spec.source", "must not be empty").answer(&request()))
                .unwrap();
        let response = &review["response"];
        assert_eq!(response["uid"], "u1");
        assert_eq!(response["allowed"], false);
        assert_eq!(response["status"]["code"], 422);
        assert_eq!(response["status"]["message"], "spec.source: must not be empty");
    }

    #[test]
    fn a_change_is_a_json_patch_and_warnings_are_kept() {
        let patch = serde_json::from_value(json!([{"op": "add", "path": "/data", "value": {}}])).unwrap();
        let verdict = Verdict::Change {
            patch,
            warnings: vec!["look".into()],
        };
        let review = serde_json::to_value(verdict.answer(&request())).unwrap();
        assert_eq!(review["response"]["allowed"], true);
        assert_eq!(review["response"]["patchType"], "JSONPatch");
        assert_eq!(review["response"]["warnings"][0], "look");
    }
}
