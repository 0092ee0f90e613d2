//! What kubelet and device plugins say to each other, version v1beta1, as it goes over the wire.
//!
//! The code is generated from `proto/deviceplugin/v1beta1/api.proto` by `cargo xtask gen`.

#[rustfmt::skip]
#[allow(clippy::all, reason = "nobody writes it")]
mod generated;

pub use generated::*;

/// The version of the protocol, as a plugin names it.
pub const VERSION: &str = "v1beta1";
/// The file name of kubelet's own socket.
pub const KUBELET_SOCKET: &str = "kubelet.sock";
/// A device that can be used.
pub const HEALTHY: &str = "Healthy";
/// A device that cannot be used now.
pub const UNHEALTHY: &str = "Unhealthy";
