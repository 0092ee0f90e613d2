//! The development cluster: a real control plane, and on demand real nodes, on one machine.
//!
//! It builds and caches the pinned tools ([`tools`]), starts etcd and Kubernetes from them, records everything that
//! it makes before it makes it ([`site`], [`state`]), and removes exactly that again: after an error, an
//! interruption, a crash or a reboot. Several clusters live side by side, each in a directory of the user's cache.
//!
//! It is not for production, it knows nothing of the product, and it speaks to the API server only to see whether it
//! is ready; tests do that through the testkit.

pub mod cache;
pub mod control_plane;
pub mod daemon;
pub mod identity;
pub mod image_archive;
pub mod interrupt;
pub mod kubeconfig;
pub mod node;
pub mod pki;
mod ports;
pub mod progress;
pub mod resource;
pub mod site;
pub mod state;
pub mod subprocess;
pub mod tools;
pub mod wait;

pub use control_plane::{ControlPlane, Options, down, down_all};
