//! How the token and its child are doing, for probes.

use tokio::time::Instant;
use trustplane_hsm_token::TokenInfo;

use crate::error::PinProblem;

/// How it is now, and what has happened so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Health {
    /// How it is now.
    pub phase: Phase,
    /// The token that is served, as it was when it was opened last. No other one will be.
    pub token: Option<TokenInfo>,
    /// When the child last began to read a token that it has opened.
    pub opened: Option<Instant>,
    /// The id of the child, if there is one.
    pub process: Option<u32>,
    /// How often a child was started.
    pub starts: u64,
    /// How often one has ended by itself.
    pub crashes: u64,
    /// How often one was killed because it did not answer.
    pub hangs: u64,
    /// How often two children in a row have hung, without an answer between them: then it is not the child.
    pub wedges: u64,
    /// How often the token was lost.
    pub losses: u64,
    /// How many changes were found interrupted, and ended.
    pub recoveries: u64,
    /// The last fault, which may be over.
    pub fault: Option<String>,
    /// How it goes with a blank token that is to be made ours; nothing if there was none so far.
    pub provisioning: Option<Provisioning>,
    /// What became of the changes that were interrupted, as they were found last.
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

/// How it goes with making a blank token ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Provisioning {
    /// A blank token was found, and there is no SO-PIN for it yet.
    SoPinWanted,
    /// It is under way.
    Running,
    /// It is done.
    Done,
    /// It is not done, for this reason.
    Skipped(String),
    /// It failed, for this reason.
    Failed(String),
}

impl Health {
    /// Whether requests are served.
    pub fn is_serving(&self) -> bool {
        self.phase == Phase::Serving
    }
}
