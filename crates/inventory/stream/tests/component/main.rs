//! The inventory on a real API server and a platform that knows only the four paths of the seed, as the shipped account with the
//! shipped rights.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

mod agents;
mod console;
mod equality;
mod hub;
mod quiet;
mod stage;
