//! The objects that the operands of the quickstart have.

use trustplane_api::identity::{
    CLUSTER_SPIFFE_ID, SPIFFE_CSI_DRIVER, SPIRE_AGENT, SPIRE_OIDC, SPIRE_SERVER, names,
};
use trustplane_plan::Kind;
use trustplane_plan::kinds::{
    CLUSTER_ROLE_BINDING, CONFIG_MAP, CSI_DRIVER, DAEMON_SET, DEPLOYMENT, POD_DISRUPTION_BUDGET, ROLE,
    ROLE_BINDING, SECRET, SERVICE, SERVICE_ACCOUNT, STATEFUL_SET, VALIDATING_WEBHOOKS,
};

/// Every child: its operand, its kind, its name, and what the label `app.kubernetes.io/name` says.
pub const CHILDREN: [(Kind, Kind, &str, &str); 29] = [
    (SPIRE_SERVER, SERVICE_ACCOUNT, names::SERVER, "spire-server"),
    (SPIRE_SERVER, SERVICE, names::SERVER, "spire-server"),
    (
        SPIRE_SERVER,
        SERVICE,
        names::CONTROLLER_MANAGER_WEBHOOK,
        "spire-controller-manager",
    ),
    (SPIRE_SERVER, CLUSTER_ROLE_BINDING, names::SERVER, "spire-server"),
    (
        SPIRE_SERVER,
        CLUSTER_ROLE_BINDING,
        names::CONTROLLER_MANAGER,
        "spire-controller-manager",
    ),
    (SPIRE_SERVER, ROLE, names::BUNDLE, "spire-server"),
    (SPIRE_SERVER, ROLE_BINDING, names::BUNDLE, "spire-server"),
    (
        SPIRE_SERVER,
        VALIDATING_WEBHOOKS,
        names::CONTROLLER_MANAGER_WEBHOOK,
        "spire-controller-manager",
    ),
    (SPIRE_SERVER, CONFIG_MAP, names::SERVER, "spire-server"),
    (
        SPIRE_SERVER,
        CONFIG_MAP,
        names::CONTROLLER_MANAGER,
        "spire-controller-manager",
    ),
    (SPIRE_SERVER, CONFIG_MAP, names::BUNDLE, "spire-server"),
    (SPIRE_SERVER, STATEFUL_SET, names::SERVER, "spire-server"),
    (SPIRE_SERVER, POD_DISRUPTION_BUDGET, names::SERVER, "spire-server"),
    (
        SPIRE_SERVER,
        CLUSTER_SPIFFE_ID,
        names::DEFAULT_IDENTITY,
        "spire-server",
    ),
    (SPIRE_AGENT, SERVICE_ACCOUNT, names::AGENT, "spire-agent"),
    (SPIRE_AGENT, SERVICE, names::AGENT, "spire-agent"),
    (SPIRE_AGENT, CLUSTER_ROLE_BINDING, names::AGENT, "spire-agent"),
    (SPIRE_AGENT, CONFIG_MAP, names::AGENT, "spire-agent"),
    (SPIRE_AGENT, DAEMON_SET, names::AGENT, "spire-agent"),
    (
        SPIFFE_CSI_DRIVER,
        SERVICE_ACCOUNT,
        names::CSI_DRIVER,
        "spiffe-csi-driver",
    ),
    (SPIFFE_CSI_DRIVER, CSI_DRIVER, names::PLUGIN, "spiffe-csi-driver"),
    (
        SPIFFE_CSI_DRIVER,
        DAEMON_SET,
        names::CSI_DRIVER,
        "spiffe-csi-driver",
    ),
    (
        SPIRE_OIDC,
        SERVICE_ACCOUNT,
        names::OIDC,
        "spiffe-oidc-discovery-provider",
    ),
    (SPIRE_OIDC, SERVICE, names::OIDC, "spiffe-oidc-discovery-provider"),
    (
        SPIRE_OIDC,
        CONFIG_MAP,
        names::OIDC,
        "spiffe-oidc-discovery-provider",
    ),
    (
        SPIRE_OIDC,
        DEPLOYMENT,
        names::OIDC,
        "spiffe-oidc-discovery-provider",
    ),
    (
        SPIRE_OIDC,
        POD_DISRUPTION_BUDGET,
        names::OIDC,
        "spiffe-oidc-discovery-provider",
    ),
    (
        SPIRE_OIDC,
        CLUSTER_SPIFFE_ID,
        names::OIDC_IDENTITY,
        "spiffe-oidc-discovery-provider",
    ),
    (
        SPIRE_OIDC,
        SECRET,
        names::OIDC_CERT,
        "spiffe-oidc-discovery-provider",
    ),
];

/// The children of one operand, or of all.
pub fn children_of(operand: Option<&Kind>) -> impl Iterator<Item = (Kind, &'static str)> + use<'_> {
    let of = move |(whose, ..): &(Kind, Kind, &str, &str)| operand.is_none_or(|operand| operand == whose);
    CHILDREN
        .into_iter()
        .filter(of)
        .map(|(_, kind, name, _)| (kind, name))
}
