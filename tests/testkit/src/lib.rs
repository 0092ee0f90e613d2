//! What tests stand on: a real control plane, and the instruments that prove a promise or break it.
//!
//! - [`ControlPlane`] and [`Sandbox`]: one control plane for a test run, one namespace for each test, and controllers that
//!   run as the service account with the rights that they ship with.
//! - [`wait_for`], [`eventually`]: waiting by watch, with a deadline.
//! - [`audit`]: who wrote what; silence at rest; rights used and rights granted.
//! - [`proxy`]: faults between a client and the API server, scripted by the test.
//! - [`crash`]: a crash at every write, of a controller in this process or of a real binary.
//! - [`canary`]: secret values, planted and searched for.
//! - [`Log`]: everything that this process logs, to search for values.
//! - [`Door`]: what the API server lets in and what it refuses.
//! - [`Binary`]: what every binary of ours does alike, without a cluster.
//! - [`metrics`]: whether a process tells what the reference says.
//! - [`Moto`]: AWS, as far as its secrets and identities go.
//! - [`platform`]: a platform of the inventory that knows four paths and fails the test on any other.
//!
//! It knows nothing of the product and nothing of the kit, and there is no mock of the Kubernetes API in it.

mod account;
pub mod audit;
pub mod canary;
pub mod crash;
mod door;
mod frame;
mod log;
pub mod metrics;
mod moto;
mod plane;
pub mod platform;
mod process;
pub mod proxy;
mod rights;
mod sandbox;
mod script;
mod wait;
mod webhook;

pub use account::{Account, Credentials, Instance};
pub use door::Door;
pub use frame::Binary;
pub use log::Log;
pub use moto::{AccessKey, Moto, READER, element};
pub use plane::{ControlPlane, Leftovers};
pub use process::{Process, Program};
pub use rights::Rules;
pub use sandbox::Sandbox;
pub use wait::{DEADLINE, Select, Selection, eventually, until, wait_for, wait_for_some};
pub use webhook::{INSTALLER, Webhook, on_writes_of};
