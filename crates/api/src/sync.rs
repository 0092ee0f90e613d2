//! Secret sync: who may have which secrets, and where they come from.

mod policy;
mod store;

#[cfg(feature = "crd")]
pub use policy::SecretSyncPolicy;
pub use policy::{Effect, Mode, PolicySpec, Quota, Rule};
#[cfg(feature = "crd")]
pub use store::SecretSyncStore;
pub use store::{
    AwsStore, FileStore, KubernetesStore, Limits, MockStore, Origin, SecretKey, StaticKeys, StoreSpec,
};
use trustplane_plan::{Kind, Scope};

/// Policies, as watches name them.
pub const POLICY: Kind = Kind::new(
    "trustplane.io",
    "v1alpha1",
    "SecretSyncPolicy",
    "secretsyncpolicies",
    Scope::Cluster,
);

/// Stores, as watches name them.
pub const STORE: Kind = Kind::new(
    "trustplane.io",
    "v1alpha1",
    "SecretSyncStore",
    "secretsyncstores",
    Scope::Cluster,
);
