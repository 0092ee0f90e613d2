//! How a process of ours runs, without Kubernetes.
//!
//! Arguments, logs, the admin port, shutdown, supervision, our own CA and certificates, and calls to the outside. The
//! manager, the agent, the hub and the command line tool all stand on it, so it knows neither Kubernetes nor any
//! capability.
//!
//! A main is a few lines over [`frame::main`], whose documentation has the example.
#![deny(missing_docs)]

pub mod admin;
pub mod args;
pub mod backoff;
pub mod ca;
pub mod clock;
pub mod crypto;
#[cfg(test)]
mod eventually;
pub mod frame;
pub mod lock;
pub mod metrics;
pub mod outside;
pub mod protection;
pub mod secret;
pub mod serve;
pub mod shutdown;
pub mod supervise;
pub mod telemetry;
pub mod tls;
#[cfg(feature = "web")]
pub mod web;
