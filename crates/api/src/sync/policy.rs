//! Who may have which secrets.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::selector::LabelSelector;

/// Names with `*` for any part of them.
const NAMES: &str = r"^[-.a-z0-9*]+$";
/// Keys of a Secret with `*` for any part of them.
const KEYS: &str = r"^[-._a-zA-Z0-9*]+$";
/// Parts between slashes, each with `*` and placeholders; one slash may stand in front.
const PATHS: &str = r"^/?([^/{}%\\\x00-\x1f\x7f]|\{namespace\}|\{serviceAccount\})+(/([^/{}%\\\x00-\x1f\x7f]|\{namespace\}|\{serviceAccount\})+)*$";

/// Which secrets the pods of some namespaces may ask for. As soon as there is one policy in force, only what policies allow is
/// allowed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(
    feature = "crd",
    derive(kube::CustomResource),
    kube(
        group = "trustplane.io",
        version = "v1alpha1",
        kind = "SecretSyncPolicy",
        plural = "secretsyncpolicies",
        shortname = "ssp",
        category = "trustplane",
        printcolumn = r#"{"name":"Mode","type":"string","jsonPath":".spec.mode"}"#,
        printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
    )
)]
#[serde(rename_all = "camelCase")]
pub struct PolicySpec {
    /// Whether it is in force, or only tells what would be denied if it were. A policy in mode Audit changes nothing.
    #[serde(default)]
    pub mode: Mode,
    /// The namespaces that it is for; all of them if it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// The service accounts that it is for, `*` stands for any part of a name; all of them if it is absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 64), inner(length(max = 253), regex(pattern = NAMES)))]
    pub service_accounts: Vec<String>,
    /// What is allowed and what is not. What a rule denies stays denied, whatever another one allows.
    #[schemars(length(min = 1, max = 64))]
    pub rules: Vec<Rule>,
    /// The shortest time between two looks for a new value, such as 5m; a request that asks for less gets this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^([0-9]{1,6}(h|m|s))+$"), length(max = 32))]
    pub refresh_floor: Option<String>,
    /// How often the pods of one namespace may make us ask providers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<Quota>,
    /// Names of Secrets that a request with adopt: true may have taken over although the Secret itself does not consent by the
    /// annotation trustplane.io/adopt-by, `*` stands for any part of a name; none if it is absent. The chart's guard must agree:
    /// secretGuard.adoptByPolicy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 64), inner(length(max = 253), regex(pattern = NAMES)))]
    pub adopt_secrets: Vec<String>,
}

/// What becomes of a request that is not allowed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Mode {
    /// It is denied.
    #[default]
    Enforce,
    /// It is judged as if the policy were not there, and the pod is told if the policy would deny it.
    Audit,
}

/// A rule speaks of a request if all that it says holds for it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    /// Whether it allows or denies.
    #[serde(default)]
    pub effect: Effect,
    /// Requests that name one of these providers and no store; a rule that denies also speaks of the stores of these providers.
    /// Without providers and stores: every request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 16),
        inner(length(max = 63), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))
    )]
    pub providers: Vec<String>,
    /// Requests that name one of these stores; `*` stands for any part of a name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 16), inner(length(max = 253), regex(pattern = NAMES)))]
    pub stores: Vec<String>,
    /// Paths: `*` stands for any text within a part, `**` for any number of parts, {namespace} and {serviceAccount} for those
    /// of the pod.
    #[schemars(
        length(min = 1, max = 64),
        inner(length(min = 1, max = 512), regex(pattern = PATHS)),
        extend("x-kubernetes-validations" = [{
            "rule": "self.all(path, !path.matches('(^|/)[.][.]?(/|$)'))",
            "message": "must not hold '.' or '..' as a part: such a path is never asked for",
        }, {
            "rule": "self.all(path, !path.matches('[^/][*][*]|[*][*][^/]'))",
            "message": "'**' must be a part of its own",
        }])
    )]
    pub paths: Vec<String>,
    /// Names of the Secret to write, `*` stands for any part of a name; all of them if it is absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 64), inner(length(max = 253), regex(pattern = NAMES)))]
    pub secret_names: Vec<String>,
    /// Keys of the secret at its provider, whatever a request calls them in the Secret; `*` stands for any part of a name. An
    /// allowing rule must cover all keys that are delivered, a denying one speaks of a request with any of them. A request with
    /// format: raw or select counts as one for all keys.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 64), inner(length(max = 253), regex(pattern = KEYS)))]
    pub keys: Vec<String>,
}

/// Whether a rule allows or denies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Effect {
    /// It allows.
    #[default]
    Allow,
    /// It denies, whatever another rule allows.
    Deny,
}

/// A bucket of questions for each namespace, filled again at a steady pace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Quota {
    /// How many questions come in with every minute.
    #[schemars(range(min = 1, max = 60000))]
    pub per_minute: u32,
    /// How many can be asked at once.
    #[schemars(range(min = 1, max = 60000))]
    pub burst: u32,
}
