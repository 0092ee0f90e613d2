//! SPIRE's operands on a real API server, as the shipped account with the shipped rights.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

mod certificate;
mod children;
mod crashes;
mod create_only;
mod deletion;
mod drift;
mod migration;
mod namespaces;
mod operands;
mod quiet;
mod rights;
mod stage;
mod trust_domain;
mod values;
mod workloads;
