//! What only the one who carries it out can complete.

use std::fmt;

use trustplane_plan::{Apply, ObjectRef};

/// A write with values that nobody can foresee: whoever carries it out makes them.
#[derive(Clone, PartialEq)]
pub enum AgentAction {
    /// Issue a certificate for an agent: the first one, or another.
    Certificate {
        /// The agent.
        agent: ObjectRef,
        /// The write. Its `data` is a recipe, in the place of which the values go; [`ENDS`](crate::decide::ENDS) is to be stamped.
        write: Apply,
    },
    /// Make the SO-PIN for the token of an agent: there is none.
    SoPin {
        /// The agent.
        agent: ObjectRef,
        /// The write, without `data`.
        write: Apply,
    },
    /// Make the key of the record of an agent: there is none.
    RecordKey {
        /// The agent.
        agent: ObjectRef,
        /// The write, without `data`.
        write: Apply,
    },
}

impl fmt::Debug for AgentAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, agent) = match self {
            Self::Certificate { agent, .. } => ("Certificate", agent),
            Self::SoPin { agent, .. } => ("SoPin", agent),
            Self::RecordKey { agent, .. } => ("RecordKey", agent),
        };
        f.debug_struct(name).field("agent", agent).finish_non_exhaustive()
    }
}
