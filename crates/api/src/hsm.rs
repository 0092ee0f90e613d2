//! Secrets on hardware tokens: which tokens there are, what is known of them, and which of their secrets become Secrets of
//! Kubernetes. The kinds take the manifests of every generation of the HSM Secrets Operator.

pub mod admission;
pub mod conditions;
#[cfg(test)]
#[cfg(feature = "crd")]
mod definition_tests;
pub mod delivery;
mod device;
mod mirroring;
pub mod names;
mod pool;
pub mod record;
mod report;
mod secret;
pub mod secrets_tool;
#[cfg(feature = "grpc")]
pub mod v1;

#[cfg(feature = "crd")]
pub use device::HsmDevice;
pub use device::{
    DevicePath, Discovery, FixedToken, HostDirectory, HsmDeviceSpec, PinSecret, Pkcs11, TokenPlace,
    UsbSelector, Variable,
};
pub use mirroring::MirroringSpec;
#[cfg(feature = "crd")]
pub use pool::HsmPool;
pub use pool::{AggregatedDevice, HsmPoolSpec, HsmPoolStatus, MirroringStatus, ReportingPod};
pub use report::{DeviceReport, DiscoveryStatus, ReportedDevice};
#[cfg(feature = "crd")]
pub use secret::HsmSecret;
pub use secret::{DeviceSyncStatus, HsmSecretSpec, HsmSecretStatus, ParentRef, SecretRef};
use trustplane_plan::{Kind, Scope};

/// Devices, as watches name them.
pub const DEVICE: Kind = Kind::new(
    "hsm.j5t.io",
    "v1alpha1",
    "HSMDevice",
    "hsmdevices",
    Scope::Namespaced,
);

/// Pools, as watches name them.
pub const POOL: Kind = Kind::new("hsm.j5t.io", "v1alpha1", "HSMPool", "hsmpools", Scope::Namespaced);

/// Secrets on tokens, as watches name them.
pub const HSM_SECRET: Kind = Kind::new(
    "hsm.j5t.io",
    "v1alpha1",
    "HSMSecret",
    "hsmsecrets",
    Scope::Namespaced,
);
