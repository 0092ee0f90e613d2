//! HSMSecrets on a real API server, as the shipped account with the shipped rights, with tokens of SoftHSM behind agents that are the
//! program that ships. A forwarder stands for the network of the agents' pods, because there is no node.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

mod crashes;
mod deletion;
mod delivery;
mod faults;
mod leaks;

mod pod_address;
mod quiet;
mod rights;
mod samples;
mod stage;
mod stale;
mod tenancy;
mod token;
mod tokens;
