//! Every object that makes an operand run, as it should be.
//!
//! | operand | objects |
//! |---|---|
//! | SpireServer | ServiceAccount, two Services, two ClusterRoleBindings, Role and RoleBinding for the bundle, ValidatingWebhookConfiguration, two ConfigMaps, StatefulSet, PodDisruptionBudget, the default ClusterSPIFFEID; [`bundle`] apart |
//! | SpireAgent | ServiceAccount, Service, ClusterRoleBinding, ConfigMap, DaemonSet |
//! | SpiffeCSIDriver | ServiceAccount, CSIDriver, DaemonSet |
//! | SpireOIDCDiscoveryProvider | ServiceAccount, Service, ConfigMap, Deployment, PodDisruptionBudget, its ClusterSPIFFEID; [`certificate`] apart |
//!
//! The ClusterRoles come with the installation: [`cluster_roles`].
//!
//! **Guarantees.** The same arguments give the same objects. Pod selectors and the claim template of the StatefulSet, which Kubernetes does not
//! let change, hold nothing of a spec that may change. Pods restart when their configuration file changes, by its hash in an annotation.
//!
//! **Caveats.** The specs have passed [`crate::check`]. `common` is effective: what the operand says, or else what ZTWIM says.

mod agent;
mod container;
mod csi;
mod identity;
mod labels;
mod maker;
mod oidc;
mod pod;
mod roles;
mod server;
mod statefulset;
#[cfg(test)]
mod tests;
mod webhook;

use serde_json::json;
use trustplane_api::identity::{
    CommonConfig, SpiffeCsiDriverSpec, SpireAgentSpec, SpireOidcDiscoveryProviderSpec, SpireServerSpec,
    StringBool, names,
};
use trustplane_plan::Manifest;
use trustplane_plan::kinds::{CONFIG_MAP, SECRET};

pub use csi::socket_directory;
pub(crate) use labels::standard_labels;
pub use labels::{COMPONENT, Part, operand_of};
pub use roles::cluster_roles;

use crate::{Settings, Shared, render};
use maker::ObjectMaker;

/// The annotation of a workload, and not of its pods, with the hash of all configuration that its pods start with.
pub const CONFIG_HASH: &str = "trustplane.io/config-hash";

/// The objects of SpireServer but [`bundle`].
pub fn server(
    spec: &SpireServerSpec,
    common: &CommonConfig,
    shared: &Shared,
    settings: &Settings,
) -> Vec<Manifest> {
    let mut objects = server::objects(spec, common, shared, settings);
    objects.push(statefulset::manifest(spec, common, shared, settings));
    let maker = ObjectMaker::new(Part::Server, common, shared).version(&settings.images.spire_server);
    objects.push(maker.disruption_budget(names::SERVER, 1));
    if spec.default_identity.is_none_or(StringBool::is_true) {
        objects.push(identity::default(&maker));
    }
    objects
}

/// The ConfigMap into which the server writes the trust bundle. The server only patches it, so it has to be there first; what is in it is the
/// server's.
pub fn bundle(common: &CommonConfig, shared: &Shared) -> Manifest {
    ObjectMaker::new(Part::Server, common, shared).object(CONFIG_MAP, &shared.bundle)
}

/// The objects of SpireAgent.
pub fn agent(
    spec: &SpireAgentSpec,
    common: &CommonConfig,
    shared: &Shared,
    settings: &Settings,
) -> Vec<Manifest> {
    agent::objects(spec, common, shared, settings)
}

/// The objects of SpiffeCSIDriver.
pub fn csi(
    spec: &SpiffeCsiDriverSpec,
    common: &CommonConfig,
    shared: &Shared,
    settings: &Settings,
) -> Vec<Manifest> {
    csi::objects(spec, common, shared, settings)
}

/// The objects of SpireOIDCDiscoveryProvider but [`certificate`]. `issuer` is the effective issuer: that of the spec, or else that of
/// SpireServer.
pub fn oidc(
    spec: &SpireOidcDiscoveryProviderSpec,
    common: &CommonConfig,
    shared: &Shared,
    settings: &Settings,
    issuer: &str,
) -> Vec<Manifest> {
    oidc::objects(spec, common, shared, settings, issuer)
}

/// The Secret with the serving certificate of the OIDC discovery provider, without type and values, and the names that the certificate is for.
/// Kubelet holds the pods of the provider until it is there.
pub fn certificate(common: &CommonConfig, shared: &Shared, issuer: &str) -> (Manifest, Vec<String>) {
    let secret = ObjectMaker::new(Part::Oidc, common, shared).object(SECRET, names::OIDC_CERT);
    (secret, render::oidc_hosts(shared, issuer))
}

/// The ConfigMap with one file.
fn config_map(maker: &ObjectMaker<'_>, name: &str, file: &str, text: &str) -> Manifest {
    maker.object(CONFIG_MAP, name).with("data", json!({ file: text }))
}
