//! The kind that the sample serves.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trustplane_plan::{Conditions, Kind, Scope};

/// Mirrors, as watches and plans name them.
pub const MIRROR: Kind = Kind::new("test.trustplane.io", "v1", "Mirror", "mirrors", Scope::Namespaced);

/// A Secret offers itself as a source by this label, whatever its value.
pub const SOURCE: &str = "test.trustplane.io/source";

/// An annotation on a mirror: `true` lets it take over Secrets that somebody else made.
pub const ADOPT: &str = "test.trustplane.io/adopt";

/// An annotation on a mirror that makes the controller panic, to prove that no other mirror suffers.
pub const PANIC: &str = "test.trustplane.io/panic";

/// An annotation on a mirror: for how many seconds after its deletion it waits for copies that do not go; without it, for
/// ever.
pub const PATIENCE: &str = "test.trustplane.io/patience-seconds";

/// Holds a mirror back until its targets are gone.
pub const FINALIZER: &str = "test.trustplane.io/farewell";

/// Keeps copies of a Secret in step with it.
#[derive(CustomResource, Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "test.trustplane.io",
    version = "v1",
    kind = "Mirror",
    namespaced,
    status = "MirrorStatus"
)]
pub struct MirrorSpec {
    /// The Secret to copy, in the same namespace.
    pub source: String,
    /// The copies to keep.
    #[serde(default)]
    pub targets: Vec<String>,
}

/// How a mirror is doing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MirrorStatus {
    /// The conditions: `Ready`.
    pub conditions: Conditions,
    /// How many copies are in step.
    pub copies: i64,
}
