//! Webhooks as data: what the chart renders and the server serves.

use serde::{Deserialize, Serialize};

/// Whether a webhook may change the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Effect {
    /// It only checks.
    Validating,
    /// It may change the object.
    Mutating,
}

/// What the API server does when we do not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Failure {
    /// It refuses the request. The chart excludes our own namespace and `kube-system`, so that we can always start.
    Fail,
    /// It lets the request through.
    Ignore,
}

/// What somebody does to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Operation {
    /// A new object.
    Create,
    /// A change of an object.
    Update,
    /// A deletion.
    Delete,
}

/// What must be true of a request for the API server to ask us at all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MatchCondition {
    /// Its name, unique in the webhook.
    pub name: String,
    /// In CEL, about `object`, `oldObject` and `request`.
    pub expression: String,
}

impl MatchCondition {
    /// A condition.
    pub fn new(name: &str, expression: &str) -> Self {
        Self {
            name: name.to_owned(),
            expression: expression.to_owned(),
        }
    }
}

/// One webhook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Webhook {
    /// Its full name, unique in the installation, such as `mirrors.sample.trustplane.io`.
    pub name: String,
    /// Whether it may change objects.
    pub effect: Effect,
    /// The path on our server, such as `/admit/mirrors`.
    pub path: String,
    /// The API group of the objects.
    pub group: String,
    /// Their versions.
    pub versions: Vec<String>,
    /// Their plural names, and subresources as `plural/sub`.
    pub resources: Vec<String>,
    /// What is done to them.
    pub operations: Vec<Operation>,
    /// What must be true of a request, all of it. The API server judges that itself, so what is left out costs no call and
    /// does not depend on us.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub match_conditions: Vec<MatchCondition>,
    /// What happens when we do not answer.
    pub failure: Failure,
    /// After how many seconds the API server stops waiting. Ours is a second less.
    pub timeout_seconds: u8,
}
