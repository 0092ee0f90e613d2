//! What objects of the capability are known by.

use serde_json::{Map, Value, json};
use trustplane_api::identity::{OperandKind, names};
use trustplane_plan::Meta;

use crate::check::is_label_value;

/// The label that says what an object is for.
pub const COMPONENT: &str = "app.kubernetes.io/component";
const NAME: &str = "app.kubernetes.io/name";
const INSTANCE: &str = "app.kubernetes.io/instance";
const PART_OF: &str = "app.kubernetes.io/part-of";
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
const VERSION: &str = "app.kubernetes.io/version";

/// A program that runs for an operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// spire-server.
    Server,
    /// spire-controller-manager, in the pod of the server.
    ControllerManager,
    /// spire-agent.
    Agent,
    /// The CSI driver.
    CsiDriver,
    /// The OIDC discovery provider.
    Oidc,
}

impl Part {
    /// The value of `app.kubernetes.io/name`.
    fn name(self) -> &'static str {
        match self {
            Self::Server => "spire-server",
            Self::ControllerManager => "spire-controller-manager",
            Self::Agent => "spire-agent",
            Self::CsiDriver => "spiffe-csi-driver",
            Self::Oidc => "spiffe-oidc-discovery-provider",
        }
    }

    /// The operand that it runs for.
    pub fn operand(self) -> OperandKind {
        match self {
            Self::Server | Self::ControllerManager => OperandKind::SpireServer,
            Self::Agent => OperandKind::SpireAgent,
            Self::CsiDriver => OperandKind::SpiffeCsiDriver,
            Self::Oidc => OperandKind::SpireOidcDiscoveryProvider,
        }
    }
}

/// The value of [`COMPONENT`] on the objects of an operand.
fn component(operand: OperandKind) -> &'static str {
    match operand {
        OperandKind::SpireServer => "control-plane",
        OperandKind::SpireAgent => "node-agent",
        OperandKind::SpiffeCsiDriver => "csi",
        OperandKind::SpireOidcDiscoveryProvider => "discovery",
    }
}

/// The operand that an object with our mark belongs to, by its labels.
pub fn operand_of(object: &Meta) -> Option<OperandKind> {
    let of = object.labels.get(COMPONENT)?;
    OperandKind::ALL
        .into_iter()
        .find(|operand| component(*operand) == of.as_str())
}

/// The labels that choose pods: three that never change.
pub(super) fn selector(part: Part) -> Value {
    json!({
        NAME: part.name(),
        INSTANCE: names::INSTANCE,
        COMPONENT: component(part.operand()),
    })
}

/// The labels that every object has, whatever its version.
pub(crate) fn standard_labels(part: Part) -> Map<String, Value> {
    let labels = [
        (NAME, part.name()),
        (INSTANCE, names::INSTANCE),
        (COMPONENT, component(part.operand())),
        (PART_OF, names::MANAGED_BY),
        (MANAGED_BY, names::MANAGED_BY),
    ];
    labels
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value.into()))
        .collect()
}

/// The label with the tag of an image, if it has one that is fit for a label.
pub(super) fn version(image: &str) -> Option<(String, Value)> {
    let tag = crate::check::image_tag(image)?;
    is_label_value(tag).then(|| (VERSION.to_owned(), tag.into()))
}
