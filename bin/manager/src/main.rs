//! `trustplane-manager`: all controllers, admission webhooks and the REST API, of the capabilities that you choose.

use std::process::ExitCode;

use trustplane_kit::manager::{self, Capability, Program};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// What the capabilities take, each under its own heading.
#[derive(Debug, clap::Args)]
struct Capabilities {
    #[command(flatten)]
    sync: trustplane_sync_controller::SyncArgs,
    #[command(flatten)]
    hsm: trustplane_hsm_controller::HsmArgs,
    #[command(flatten)]
    identity: trustplane_identity_controller::IdentityArgs,
    #[command(flatten)]
    inventory: trustplane_inventory_stream::InventoryArgs,
}

/// The capabilities of this build, in the order in which they start.
fn capabilities(arguments: Capabilities) -> Vec<Capability> {
    vec![
        trustplane_sync_controller::capability(arguments.sync),
        trustplane_hsm_controller::capability(arguments.hsm),
        trustplane_identity_controller::capability(arguments.identity),
        trustplane_inventory_stream::capability(arguments.inventory),
    ]
}

const PROGRAM: Program = Program {
    name: env!("CARGO_PKG_NAME"),
    component: "manager",
    version: env!("CARGO_PKG_VERSION"),
};

fn main() -> ExitCode {
    manager::main(PROGRAM, capabilities)
}
