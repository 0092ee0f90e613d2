//! At most one try for each PIN, for real: agents as processes of their own, with Debian's SoftHSM behind the shim, on a real
//! API server with the rights that they ship with.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod agent;
mod answers;
mod change;
mod crash;
mod leaks;
mod outage;
mod pins;
mod provision;
mod secret;
mod stage;
mod token;
mod words;
