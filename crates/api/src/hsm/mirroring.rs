//! How secrets are mirrored between tokens.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How secrets are mirrored between tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MirroringSpec {
    /// None, ReadOnly or Active.
    #[schemars(length(max = 32))]
    pub policy: String,
    /// How often tokens are compared, in seconds; at least 5.
    #[schemars(range(min = 5, max = 31536000))]
    pub sync_interval: i32,
    /// The nodes that get copies; all if none is named.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(min = 1, max = 253)))]
    pub target_nodes: Vec<String>,
    /// The node that takes writes first.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub primary_node: Option<String>,
    /// Whether another node takes the place of the primary one when that is gone.
    pub auto_failover: bool,
    /// Deprecated: use policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Deprecated: use policy and primaryNode.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub primary_role: Option<String>,
}

impl Default for MirroringSpec {
    fn default() -> Self {
        Self {
            policy: "None".to_owned(),
            sync_interval: 60,
            target_nodes: Vec::new(),
            primary_node: None,
            auto_failover: true,
            enabled: None,
            primary_role: None,
        }
    }
}
