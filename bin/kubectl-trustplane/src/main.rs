//! The kubectl plugin: `kubectl trustplane …`.

use std::process::ExitCode;

use trustplane_cli::Program;

const PROGRAM: Program = Program {
    name: env!("CARGO_PKG_NAME"),
    component: "kubectl",
    version: env!("CARGO_PKG_VERSION"),
};

fn main() -> ExitCode {
    trustplane_cli::main(PROGRAM)
}
