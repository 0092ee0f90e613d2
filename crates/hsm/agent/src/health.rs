//! How the token and its child are doing, for probes.

use trustplane_hsm_token::TokenInfo;

use crate::error::PinProblem;

/// How it is now, and what has happened so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Health {
    /// How it is now.
    pub phase: Phase,
    /// The token that is served, as it was when it was opened last. No other one will be.
    pub token: Option<TokenInfo>,
    /// The id of the child, if there is one.
    pub process: Option<u32>,
    /// How often a child was started.
    pub starts: u64,
    /// How often one has ended by itself.
    pub crashes: u64,
    /// How often one was killed because it did not answer.
    pub hangs: u64,
    /// How often the token was lost.
    pub losses: u64,
    /// The last fault, which may be over.
    pub fault: Option<String>,
    /// What became of the changes that were interrupted, found when the token was opened last.
    pub interrupted: Vec<String>,
}

/// Whether requests are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Phase {
    /// Not yet.
    #[default]
    Opening,
    /// They are.
    Serving,
    /// Not now: the token or the module is being brought back.
    Unavailable,
    /// Not until there is another PIN.
    PinRefused(PinProblem),
    /// Never again.
    Ended,
}

impl Health {
    /// Whether requests are served.
    pub fn is_serving(&self) -> bool {
        self.phase == Phase::Serving
    }
}
