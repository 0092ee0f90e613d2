//! `trustplane-manager`: all controllers, admission webhooks and the REST API, of the capabilities that you choose.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The capabilities of this build, in the order in which they start.
const CAPABILITIES: &[trustplane_kit::manager::Capability] = &[];

fn main() -> ExitCode {
    trustplane_kit::manager::main("manager", env!("CARGO_PKG_VERSION"), CAPABILITIES)
}
