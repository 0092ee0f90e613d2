//! The hub: receives the inventories of clusters, keeps them, and shows them.
//!
//! ```text
//!  agents ──TLS──► agent ──► token                         loopback ◄── browser
//!                    └─────► ingest ─► record ─► store ◄── api ◄── session, pages, console
//!                                      redacted    │         ▲
//!                                                  └─ live ──┘ server-sent events
//! ```
//!
//! - [`agent`]: the listener for agents. [`token`] gives them tokens, [`ingest`] takes what they send, [`record`] reads one object and
//!   removes what must not be kept.
//! - [`store`]: SQLite with one writer. What was acknowledged is on disk.
//! - [`api`]: the REST API for people and the console, on loopback only, behind a session.
//! - [`state`], [`status`], [`facts`], [`related`]: pure functions that say how clusters and objects do.
//! - [`serve`] starts it all; [`cli`] is the command line.
//!
//! It speaks to no Kubernetes API: whatever it knows, agents told it.
//!
//! ```no_run
//! use trustplane_inventory_hub::{Program, cli};
//!
//! let program = Program { name: "trustplane-hub", component: "hub", version: "1.0.0" };
//! cli::main(program);
//! ```
#![deny(missing_docs)]

pub mod agent;
pub mod api;
pub mod app;
#[cfg(test)]
mod arbitrary;
pub mod args;
pub mod certificates;
pub mod cli;
pub mod error;
pub mod facts;
pub mod folder;
pub mod ingest;
pub mod live;
pub mod metrics;
pub mod rate;
pub mod record;
pub mod related;
pub mod secret;
pub mod serve;
pub mod state;
pub mod status;
pub mod store;
pub mod time;
pub mod token;

pub use trustplane_process::frame::Program;
