//! Workload identity: SPIRE, configured in one place.
//!
//! A person says once, in the ZeroTrustWorkloadIdentityManager (ZTWIM) `cluster`, which trust domain and cluster this is. Four
//! operands follow: SpireServer, SpireAgent, SpiffeCSIDriver and SpireOIDCDiscoveryProvider, each a singleton named `cluster`.
//! The kinds take the manifests of every generation of the Zero Trust Workload Identity Manager. The three kinds of
//! `spire.spiffe.io` are those that spire-controller-manager reads.

mod affinity;
mod agent;
pub mod conditions;
mod csi;
mod datastore;
#[cfg(test)]
#[cfg(feature = "crd")]
mod definition_tests;
mod federation;
mod manager;
pub mod names;
mod oidc;
mod operand;
mod patterns;
mod pods;
#[cfg(feature = "crd")]
mod schema;
mod server;
mod spiffe;
mod values;

pub use affinity::{
    Affinity, LabelRequirement, LabelSelector, NodeAffinity, NodeRequirement, NodeSelector, NodeSelectorTerm,
    PodAffinity, PodAffinityTerm, PreferredNodes, PreferredPods,
};
#[cfg(feature = "crd")]
pub use agent::SpireAgent;
pub use agent::{NodeAttestor, SpireAgentSpec, Verification, WorkloadAttestors};
#[cfg(feature = "crd")]
pub use csi::SpiffeCsiDriver;
pub use csi::SpiffeCsiDriverSpec;
pub use datastore::{Datastore, Persistence};
pub use federation::{Acme, BundleEndpoint, FederatesWith, Federation, HttpsWeb, ServingCert};
#[cfg(feature = "crd")]
pub use manager::ZeroTrustWorkloadIdentityManager;
pub use manager::{BundleConfig, OperandStatus, ZtwimSpec, ZtwimStatus};
#[cfg(feature = "crd")]
pub use oidc::SpireOidcDiscoveryProvider;
pub use oidc::SpireOidcDiscoveryProviderSpec;
pub use operand::{OperandCrStatus, OperandKind};
pub use pods::{CommonConfig, Quantity, ResourceClaim, Resources, Toleration};
#[cfg(feature = "crd")]
pub use server::SpireServer;
pub use server::{CaSubject, KeyManager, SpireServerSpec};
#[cfg(feature = "crd")]
pub use spiffe::{ClusterFederatedTrustDomain, ClusterSpiffeId, ClusterStaticEntry};
pub use spiffe::{
    ClusterFederatedTrustDomainSpec, ClusterFederatedTrustDomainStatus, ClusterSpiffeIdSpec,
    ClusterSpiffeIdStatus, ClusterStaticEntrySpec, ClusterStaticEntryStatus, EndpointProfile, EntryStats,
};
use trustplane_plan::{Kind, Scope};
pub use values::{
    AccessMode, BundleProfile, ChangePolicy, DatabaseType, KeyType, LogFormat, LogLevel, PersistenceType,
    StringBool, VerificationType,
};

/// The ZeroTrustWorkloadIdentityManager, as watches name it.
pub const ZTWIM: Kind = operator(
    "ZeroTrustWorkloadIdentityManager",
    "zerotrustworkloadidentitymanagers",
);
/// The SpireServer, as watches name it.
pub const SPIRE_SERVER: Kind = operator("SpireServer", "spireservers");
/// The SpireAgent, as watches name it.
pub const SPIRE_AGENT: Kind = operator("SpireAgent", "spireagents");
/// The SpiffeCSIDriver, as watches name it.
pub const SPIFFE_CSI_DRIVER: Kind = operator("SpiffeCSIDriver", "spiffecsidrivers");
/// The SpireOIDCDiscoveryProvider, as watches name it.
pub const SPIRE_OIDC: Kind = operator("SpireOIDCDiscoveryProvider", "spireoidcdiscoveryproviders");
/// ClusterSPIFFEIDs, as watches name them.
pub const CLUSTER_SPIFFE_ID: Kind = spire("ClusterSPIFFEID", "clusterspiffeids");
/// ClusterFederatedTrustDomains, as watches name them.
pub const CLUSTER_FEDERATED_TRUST_DOMAIN: Kind =
    spire("ClusterFederatedTrustDomain", "clusterfederatedtrustdomains");
/// ClusterStaticEntries, as watches name them.
pub const CLUSTER_STATIC_ENTRY: Kind = spire("ClusterStaticEntry", "clusterstaticentries");

const fn operator(kind: &'static str, plural: &'static str) -> Kind {
    Kind::new("operator.openshift.io", "v1alpha1", kind, plural, Scope::Cluster)
}

const fn spire(kind: &'static str, plural: &'static str) -> Kind {
    Kind::new("spire.spiffe.io", "v1alpha1", kind, plural, Scope::Cluster)
}
