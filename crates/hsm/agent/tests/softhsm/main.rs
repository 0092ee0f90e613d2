//! The module in a child process for real: Debian's SoftHSM behind the shim that makes it fail.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod crash;
mod grpc;
mod hang;
mod hold;
mod pcscd;
mod pins;
mod process;
mod requests;
mod stage;
mod test_token;
mod unplug;
