//! Which pods may request tokens as resources of their node.
//!
//! Kubelet gives the device file of a token to any pod that requests its resource, in whichever namespace that pod is. So the API
//! server admits such requests from agents alone, and from the service accounts that the installation lists.

use serde_json::{Value, json};

use super::{rule, with_binding};

/// Stands in the policy for the service accounts whose pods may request tokens, with commas between them: `NAMESPACE/NAME`, or a
/// beginning of that with a star behind it, such as `NAMESPACE/*`. Whoever installs the policy puts them in its place.
pub const TOKEN_USERS: &str = "$(TOKEN_USERS)";

/// The policy and its binding.
///
/// **Caveats**: whoever can create pods in a namespace with agents can run one under the service account of an agent. A pod that
/// exists already keeps its token.
pub(super) fn policy() -> [Value; 2] {
    let asks = ["containers", "initContainers", "ephemeralContainers"].map(asks_for_a_token);
    let policy = json!({
        "failurePolicy": "Fail",
        "matchConstraints": { "resourceRules": [
            { "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"] },
            {
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"],
                "resources": ["pods/ephemeralcontainers", "pods/resize"],
            },
        ]},
        "matchConditions": [{ "name": "asks-for-a-token", "expression": asks.join(" || ") }],
        "variables": [
            { "name": "users", "expression": format!("'{TOKEN_USERS}'.split(',')") },
            {
                "name": "user",
                "expression": "request.namespace + '/' + (has(object.spec.serviceAccountName) ? \
                               object.spec.serviceAccountName : 'default')",
            },
        ],
        "validations": [rule(
            "variables.users.exists(user, user.endsWith('*') ? \
             variables.user.startsWith(user.substring(0, user.size() - 1)) : user == variables.user)",
            "hsm.j5t.io/* resources are for the agents of HSMDevices; to let other pods request them, add their service \
             account to the value hsm.tokenUsers of the chart",
        )],
    });
    let about = "keeps the device files of tokens to agents";
    with_binding("tokens.hsm.j5t.io", about, "Deny", &policy)
}

/// Whether a container of one of the lists of a pod requests a token.
fn asks_for_a_token(containers: &str) -> String {
    let names = |part: &str| {
        format!(
            "(has(c.resources.{part}) && c.resources.{part}.exists(name, name.startsWith('hsm.j5t.io/')))"
        )
    };
    format!(
        "(has(object.spec.{containers}) && object.spec.{containers}.exists(c, has(c.resources) && ({} || {})))",
        names("requests"),
        names("limits"),
    )
}
