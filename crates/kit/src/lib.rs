//! How a controller of ours works on Kubernetes: watch, queue, loop, lease, apply, events, admission.
//!
//! No product knowledge lives here: a capability brings its kinds, its `gather` and its `decide`; the kit brings the
//! machinery round them, and with it the promises: no races, nothing lost, silence at rest, least power.
//!
//! It is not for processes without Kubernetes (that is `trustplane-process`), and not for decisions (those are pure and
//! made of the vocabulary of `trustplane-plan`).
#![deny(missing_docs)]

pub mod admission;
pub mod apply;
pub mod clients;
pub mod controller;
pub mod events;
pub mod lease;
pub mod manager;
pub mod queue;
pub mod read;
pub mod rights;
pub mod watch;
