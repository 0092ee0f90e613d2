//! Secret sync on a real API server, as the shipped account with the shipped rights.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

mod aws;
mod conflicts;
mod crashes;
mod defects;
mod definitions;
mod drift;
mod faults;
mod policies;
mod quiet;
mod stage;
mod stores;
mod syncs;
