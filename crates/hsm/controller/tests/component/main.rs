//! Tokens and agents on a real API server, as the shipped account with the shipped rights.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

mod agents;
mod certificates;
mod conflicts;
mod consents;
mod crashes;
mod devices;
mod moves;
mod nodes;
mod outage;
mod pools;
mod quiet;
mod removal;
mod rights;
mod rotation;
mod stage;
mod test_mode;
