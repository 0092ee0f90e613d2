//! What a cluster tells of itself, and how it is sent without a loss. Pure.
//!
//! ```text
//!  object ──► project ──► Projection (canonical JSON) ──► World: Index ──► Sender ──► Call
//!             redact                                      (digests only)   one for each platform
//! ```
//!
//! - [`InventoryKind`] names the 20 kinds, [`project`] makes of an object what is sent of it, and nothing more.
//! - [`World`](world::World) keeps of each object its uid, its name and a digest. It tells changes from repetitions, and hands
//!   changes to the [`Sender`](sender::Sender) of each platform, which decides what is sent when.
//!
//! It is not for requests and lists themselves: those are made by `trustplane-inventory-stream`.

#![deny(missing_docs)]

mod canonical;
pub mod decide;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
pub mod index;
mod kind;
pub mod pending;
mod project;
pub mod rate;
pub mod redact;
pub mod sender;
pub mod snapshot;
mod table;
pub mod world;

pub use canonical::{canonical, digest};
pub use kind::InventoryKind;
pub use project::{Projection, ProjectionError, project};
