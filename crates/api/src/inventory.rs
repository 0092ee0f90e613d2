//! What people and peers of the inventory write: the kind `ObsykAgent`, and what an agent sends to its platform.
//!
//! Field names, defaults and texts are those of the Obsyk operator, so that its manifests, agents and platforms work unchanged.
//! Fields that it does not have are optional.

mod agent;
pub mod wire;

#[cfg(feature = "crd")]
pub use agent::ObsykAgent;
pub use agent::{CredentialsSecretRef, DEFAULT_SYNC_INTERVAL, ObsykAgentSpec, ObsykAgentStatus, RateLimit};
use trustplane_plan::{Kind, Scope};

/// Agents, as watches name them.
pub const OBSYK_AGENT: Kind = Kind::new("obsyk.io", "v1", "ObsykAgent", "obsykagents", Scope::Namespaced);

/// Types of the conditions of an `ObsykAgent`.
pub mod condition {
    /// The agent runs and the platform takes what it sends.
    pub const AVAILABLE: &str = "Available";
    /// The platform has the state of the cluster, and changes reach it.
    pub const SYNCING: &str = "Syncing";
    /// Something is wrong that a person can mend.
    pub const DEGRADED: &str = "Degraded";
}

/// Reasons and messages of the conditions. Those that the Obsyk operator has are word for word its own.
pub mod reason {
    /// `Available` and the platform was reached.
    pub const AGENT_RUNNING: &str = "AgentRunning";
    /// The message of [`AGENT_RUNNING`].
    pub const AGENT_RUNNING_TEXT: &str = "Agent is running and connected to platform";
    /// `Syncing` and all is well.
    pub const SYNC_ACTIVE: &str = "SyncActive";
    /// The message of [`SYNC_ACTIVE`].
    pub const SYNC_ACTIVE_TEXT: &str = "Agent is actively syncing data";
    /// Not `Degraded`.
    pub const AGENT_HEALTHY: &str = "AgentHealthy";
    /// The message of [`AGENT_HEALTHY`].
    pub const AGENT_HEALTHY_TEXT: &str = "Agent is operating normally";
    /// The platform did not take a snapshot.
    pub const SNAPSHOT_FAILED: &str = "SnapshotFailed";
    /// The platform did not take a heartbeat.
    pub const HEARTBEAT_FAILED: &str = "HeartbeatFailed";
    /// The credentials cannot be used, or the platform refuses them.
    pub const AUTHENTICATION_ERROR: &str = "AuthenticationError";
    /// The agent waits for its first lists.
    pub const STARTING: &str = "Starting";
    /// A field of the spec cannot be used.
    pub const INVALID_SPEC: &str = "InvalidSpec";
    /// The platform cannot be reached, or fails.
    pub const PLATFORM_UNREACHABLE: &str = "PlatformUnreachable";
    /// The platform permits nothing to this client (403).
    pub const PLATFORM_REFUSED: &str = "PlatformRefused";
    /// The platform refused some objects; they are tried again when they change.
    pub const OBJECTS_REFUSED: &str = "ObjectsRefused";
    /// Some kinds cannot be read.
    pub const KINDS_UNREADABLE: &str = "KindsUnreadable";
}
