//! `trustplane-discovery`: finds the tokens of a node, reports them, and offers them to kubelet.

use std::process::ExitCode;

use trustplane_hsm_discovery::Program;

const PROGRAM: Program = Program {
    name: env!("CARGO_PKG_NAME"),
    component: "discovery",
    version: env!("CARGO_PKG_VERSION"),
};

fn main() -> ExitCode {
    trustplane_hsm_discovery::main(PROGRAM)
}
