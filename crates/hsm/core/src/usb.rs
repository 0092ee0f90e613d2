//! Which tokens a node has: what is looked for, what was found, and what becomes of both over time.
//!
//! A node is told what to look for by a [`Selection`]. Each look at the bus gives a list of [`Found`]; the [`Tracker`] makes one
//! picture of many looks: a token that moved is the same token, one that is lost stays in the picture until the grace period has
//! passed. [`report`] makes the node's report of it, and says when it is to be written.
//!
//! Files, sockets and clocks are elsewhere. No part of it guesses.

pub(crate) mod access;
mod device;
mod ids;
mod pattern;
pub mod report;
mod selection;
mod serial;
mod tracker;

pub use crate::resource::{slug, token_resource, type_resource};
pub use device::{Found, RawDevice, Unusable, UsbDevice, is_device_name};
pub use ids::{DeviceType, UsbId, UsbIdError};
pub use pattern::{Pattern, PatternError, PatternStep};
pub use selection::{AutoMatch, PathMatch, Selection, UsbMatch, UsbPair};
pub use serial::{by_token, serial_key, standing};
pub use tracker::{Tracked, Tracker};
