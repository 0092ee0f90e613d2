//! `trustplane-manager`: all controllers, admission webhooks and the REST API, of the capabilities that you choose.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// What the capabilities take, each under its own heading.
#[derive(Debug, clap::Args)]
struct Capabilities {
    #[command(flatten)]
    sync: trustplane_sync_controller::SyncArgs,
    #[command(flatten)]
    hsm: trustplane_hsm_controller::HsmArgs,
}

/// The capabilities of this build, in the order in which they start.
fn capabilities(arguments: Capabilities) -> Vec<trustplane_kit::manager::Capability> {
    vec![
        trustplane_sync_controller::capability(arguments.sync),
        trustplane_hsm_controller::capability(arguments.hsm),
    ]
}

fn main() -> ExitCode {
    trustplane_kit::manager::main("manager", env!("CARGO_PKG_VERSION"), capabilities)
}
