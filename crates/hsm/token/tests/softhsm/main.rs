//! Tokens for real: Debian's SoftHSM, by itself and behind the shim that makes it fail.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and its output tells how much was tried"
)]

mod change;
mod choosing;
mod crashes;
mod faults;
mod pins;
mod raw;
mod reading;
mod replug;
mod secrets;
mod sequences;
mod stage;
mod writing;
