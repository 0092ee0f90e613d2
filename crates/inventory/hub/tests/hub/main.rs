//! The hub from outside: a real server on its own ports, agents that speak TLS to it, and people with a browser's headers.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod api;
mod client;
mod harness;
mod ingest;
mod limits;
mod pieces;
mod session;
mod snapshots;
mod token;
