//! How the API server tells the Secrets of a capability from all others.

use serde::Serialize;
use serde_json::{Value, json};
use trustplane_plan::Mark;

/// How the Secrets of a capability are known. The chart's policy (`secretguard.yaml`) permits the process to write these Secrets
/// and those that consent to be taken over, and no others.
#[derive(Debug, Clone)]
pub struct SecretIdentity {
    /// The label that the Secrets of the capability have.
    pub mark: fn() -> Mark,
    /// The Secrets of the system that the capability replaces, if that system marked its Secrets in another way.
    pub inherits: Option<Inherited>,
}

/// The Secrets of a system that a capability replaces: they have the label with this value, their controller is an object of this
/// kind, and they lack the label of [`SecretIdentity::mark`].
///
/// **Guarantees.** The policy permits three writes to such a Secret: a change of `managedFields` alone, an update after which the
/// Secret has our mark and the same controller, and the deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Inherited {
    /// The key of the label.
    pub label: &'static str,
    /// The value of the label.
    pub value: &'static str,
    /// The kind of the owner reference that is the controller.
    pub controller_kind: &'static str,
    /// The API group of that kind, of any version.
    pub controller_group: &'static str,
}

impl SecretIdentity {
    /// Secrets that are known by a label alone.
    pub fn new(mark: fn() -> Mark) -> Self {
        Self { mark, inherits: None }
    }

    /// The identity for the chart.
    pub(super) fn describe(&self) -> Value {
        let mark = (self.mark)();
        let values: Vec<_> = std::iter::once(&mark.value).chain(&mark.also).collect();
        let mut told = json!({ "label": mark.key, "values": values });
        if let Some(inherits) = self.inherits {
            told["inherits"] = json!(inherits);
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn description_names_inherited_secrets() {
        let identity = SecretIdentity {
            inherits: Some(Inherited {
                label: "managed-by",
                value: "before",
                controller_kind: "Thing",
                controller_group: "example.com",
            }),
            ..SecretIdentity::new(|| Mark::new("owner", "us").also("them"))
        };
        let told = json!({
            "label": "owner",
            "values": ["us", "them"],
            "inherits": {
                "label": "managed-by",
                "value": "before",
                "controllerKind": "Thing",
                "controllerGroup": "example.com",
            },
        });
        assert_eq!(identity.describe(), told);
        let alone = SecretIdentity::new(identity.mark).describe();
        assert_eq!(alone, json!({ "label": "owner", "values": ["us", "them"] }));
    }
}
