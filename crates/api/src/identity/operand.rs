//! What the four operands have in common.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{Display, IntoStaticStr};
use trustplane_plan::{Conditions, Kind};

use super::{SPIFFE_CSI_DRIVER, SPIRE_AGENT, SPIRE_OIDC, SPIRE_SERVER};

/// One of the four operands.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
    Display,
    IntoStaticStr,
)]
pub enum OperandKind {
    /// The server and the controller-manager.
    SpireServer,
    /// The agents, one on each node.
    SpireAgent,
    /// The CSI driver, which gives pods the socket of the agent.
    #[serde(rename = "SpiffeCSIDriver")]
    #[strum(serialize = "SpiffeCSIDriver")]
    SpiffeCsiDriver,
    /// The OIDC discovery provider.
    #[serde(rename = "SpireOIDCDiscoveryProvider")]
    #[strum(serialize = "SpireOIDCDiscoveryProvider")]
    SpireOidcDiscoveryProvider,
}

impl OperandKind {
    /// All operands, in the order of the status of ZTWIM.
    pub const ALL: [Self; 4] = [
        Self::SpireServer,
        Self::SpireAgent,
        Self::SpiffeCsiDriver,
        Self::SpireOidcDiscoveryProvider,
    ];

    /// The word in manifests: the name of the kind.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// The kind, as watches name it.
    pub fn kind(self) -> &'static Kind {
        const SERVER: &Kind = &SPIRE_SERVER;
        const AGENT: &Kind = &SPIRE_AGENT;
        const CSI: &Kind = &SPIFFE_CSI_DRIVER;
        const OIDC: &Kind = &SPIRE_OIDC;
        match self {
            Self::SpireServer => SERVER,
            Self::SpireAgent => AGENT,
            Self::SpiffeCsiDriver => CSI,
            Self::SpireOidcDiscoveryProvider => OIDC,
        }
    }
}

/// The state of an operand.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OperandCrStatus {
    /// The conditions; Ready sums up the others.
    #[serde(skip_serializing_if = "Conditions::is_empty")]
    pub conditions: Conditions,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operand_has_the_name_of_its_kind() {
        for operand in OperandKind::ALL {
            assert_eq!(operand.kind().kind, operand.as_str());
            assert_eq!(serde_json::to_value(operand).unwrap(), operand.as_str());
        }
    }
}
