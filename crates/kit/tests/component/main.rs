//! The kit against a real API server.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test stops at the first surprise, and tells what it saw"
)]

mod admission_authority;
mod admission_bundle;
mod admission_calls;
mod admission_crash;
mod admission_rig;
mod admission_rotation;
mod apply;
mod events;
mod events_flood;
mod fence;
mod finalizer;
mod key;
mod lease;
mod read;
mod refusal;
mod status;
mod watch_faults;
mod watch_follow;
mod watch_kinds;
mod watch_lists;
mod watch_rig;
mod watch_sink_rig;
mod watch_sinks;
mod write_rig;
