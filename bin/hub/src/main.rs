//! `trustplane-hub`: receives the inventories of clusters, keeps them, and shows them in a console.

use std::process::ExitCode;

use trustplane_inventory_hub::{Program, cli};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const PROGRAM: Program = Program {
    name: env!("CARGO_PKG_NAME"),
    component: "hub",
    version: env!("CARGO_PKG_VERSION"),
};

fn main() -> ExitCode {
    cli::main(PROGRAM)
}
