//! The promises of the kit, under fault: each test tries to break one through the sample controller.
//!
//! Controllers run as the service account with exactly the rights that they declare, in this process or as the real binary,
//! before a real API server with a fault proxy between.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test stops at the first surprise, and tells what it saw"
)]

mod admission;
mod answers;
mod connections;
mod crashes;
mod events;
mod hostile;
mod leaders;
mod leaks;
mod manager;
mod rest;
mod rights;
mod stage;
