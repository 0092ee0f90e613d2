//! A PKCS#11 module for tests. It forwards every call to a real module, counts it, and where a test says so it answers with a
//! fault, freezes, or ends the process, before the real module is called or after.
//!
//! A process loads [`library`] instead of the real module, with the environment of [`Shim::environment`]. What goes wrong is
//! written by [`Shim::set`] at any time, from that process or another one; [`Shim::calls`] tells what was called since.
//!
//! It is not for tests of what modules promise: it promises what the module behind it does.

mod control;
mod forward;
mod relay;
mod shim;
mod twist;

pub use control::{Action, Control, Duration, Fault, Moment, PinTries};
pub use cryptoki_sys as pkcs11;
pub use shim::{Call, Shim, library};
