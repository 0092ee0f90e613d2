//! Fields of two operands that must be the same, although neither inherits from the other.

use std::fmt;

use serde_json::{Value, json};
use trustplane_api::identity::OperandKind::{self, SpiffeCsiDriver, SpireAgent, SpireOidcDiscoveryProvider};
use trustplane_api::identity::names::{PLUGIN, SOCKET_DIRECTORY};

use super::{Holder, World};

/// Two fields that must be the same. The leader makes what the follower uses.
#[derive(Debug, PartialEq, Eq)]
pub struct Pair {
    /// The operand and the field that lead.
    pub leader: (OperandKind, &'static str),
    /// The operand and the field that must be the same.
    pub follower: (OperandKind, &'static str),
    default: &'static str,
}

/// The directory of the agent's socket, and the name of the CSI driver.
const PAIRS: [Pair; 2] = [
    Pair {
        leader: (SpireAgent, "socketPath"),
        follower: (SpiffeCsiDriver, "agentSocketPath"),
        default: SOCKET_DIRECTORY,
    },
    Pair {
        leader: (SpiffeCsiDriver, "pluginName"),
        follower: (SpireOidcDiscoveryProvider, "csiDriverName"),
        default: PLUGIN,
    },
];

impl Pair {
    /// The value in a spec. An old manifest of the CSI driver may name the socket itself: its directory counts.
    fn value<'a>(&'a self, spec: &'a Value, field: &str) -> &'a str {
        let value = spec.get(field).and_then(Value::as_str).unwrap_or_default();
        match value.rsplit_once('/') {
            _ if value.is_empty() => self.default,
            Some((directory, file)) if file.is_empty() || file.ends_with(".sock") => directory,
            _ => value,
        }
    }
}

/// A pair that is not the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// The pair.
    pub pair: &'static Pair,
    /// The value that leads.
    pub leader: String,
    /// The value that should be the same.
    pub follower: String,
}

impl Mismatch {
    /// The command that gives the follower the value of the leader.
    pub fn follow_command(&self) -> String {
        let (kind, field) = self.pair.follower;
        Holder::Operand(kind).patch_command(&json!({"spec": {field: self.leader}}))
    }

    /// The command that gives the leader the value of the follower.
    pub fn lead_command(&self) -> String {
        let (kind, field) = self.pair.leader;
        Holder::Operand(kind).patch_command(&json!({"spec": {field: self.follower}}))
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ((leader, leading), (follower, following)) = (self.pair.leader, self.pair.follower);
        let (leader, follower) = (Holder::Operand(leader), Holder::Operand(follower));
        let values = (&self.follower, &self.leader);
        write!(
            f,
            "spec.{following} {:?} of {follower} differs from spec.{leading} {:?} of {leader}",
            values.0, values.1
        )
    }
}

/// The pairs that are not the same. An operand that does not exist or is being deleted has no say.
pub fn mismatches(world: &World) -> Vec<Mismatch> {
    let mismatch = |pair: &'static Pair| {
        let value = |(kind, field)| Some(pair.value(&world.operand(kind)?.spec, field));
        let (leader, follower) = (value(pair.leader)?, value(pair.follower)?);
        (leader != follower).then(|| Mismatch {
            pair,
            leader: leader.to_owned(),
            follower: follower.to_owned(),
        })
    };
    PAIRS.iter().filter_map(mismatch).collect()
}
