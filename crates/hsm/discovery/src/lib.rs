//! Finds the tokens of a node, reports them, and offers them to kubelet.
//!
//! - [`eye`]: one look at sysfs and at device files, below roots that can be set. Nothing that stands there does harm.
//! - [`uevent`]: what the kernel says when a device comes or goes. It makes a look come sooner.
//! - [`watch`]: looks again and again, and keeps one picture of it all.
//! - [`report`]: writes the picture into an annotation of our own [`pod`], and into no other object.
//! - [`memory`]: keeps the picture on the node as well, for the pod that comes after this one.
//! - [`plugin`]: offers the tokens to kubelet, so that a pod gets the device file of its token and no other.
//!
//! What is decided is decided in `trustplane_hsm_core::usb`, without files and clocks. The process is told what to look for by
//! its arguments; it reads no object of the cluster.
#![deny(missing_docs)]

mod args;
pub mod eye;
#[cfg(test)]
mod fake;
mod files;
mod glob;
pub mod memory;
mod metrics;
pub mod plugin;
pub mod pod;
pub mod report;
mod run;
pub mod uevent;
pub mod watch;

pub use args::{Arguments, DiscoveryArgs};
pub use metrics::Counts;
pub use run::{StartError, main};
pub use trustplane_process::frame::Program;
