//! What to do about an HSMDevice, a pool and the agents of an HSMDevice: one pure function for each controller.
//!
//! [`decide_device`] makes the pool of an HSMDevice and its DaemonSet. [`decide_pool`] turns what the nodes report into the
//! status of a pool, which is also the memory of what is lost and since when. [`decide_agents`] turns that status into agents.
//! None of them reads the world: a controller gathers an input, and carries the plan out.

mod agents;
mod certificates;
mod device;
mod pool;
mod refused;
#[cfg(test)]
pub(crate) mod world;

use std::time::Duration;

use trustplane_api::hsm::{HsmPoolSpec, HsmPoolStatus};
use trustplane_plan::Meta;

use crate::device::{Device, Faults};

pub use agents::{AgentAction, AgentsInput, decide_agents};
pub use certificates::{ENDS, Issuing};
pub use device::{DeviceInput, decide_device};
pub use pool::{PoolInput, decide_pool};
pub use refused::AgentPod;

/// An HSMDevice that exists.
#[derive(Debug, Clone)]
pub struct DeviceView {
    /// Its metadata, with annotations.
    pub meta: Meta,
    /// What it means, or what is wrong with it: from [`read`](crate::device::read).
    pub read: Result<Device, Faults>,
}

/// A pool that exists.
#[derive(Debug, Clone)]
pub struct PoolView {
    /// Its metadata.
    pub meta: Meta,
    /// What it wants.
    pub spec: HsmPoolSpec,
    /// What its status says.
    pub status: HsmPoolStatus,
    /// How long its reports could have been renewed within its present grace period ([`Silence::watched`](crate::pool::Silence)).
    pub watched: Duration,
}
