//! `trustplane-agent`: serves one HSM token over gRPC, with its PKCS#11 module in a child process.

use std::process::ExitCode;

use trustplane_hsm_agent::cli::{self, Program};

const PROGRAM: Program = Program {
    name: env!("CARGO_PKG_NAME"),
    component: "agent",
    version: env!("CARGO_PKG_VERSION"),
};

fn main() -> ExitCode {
    cli::main(PROGRAM)
}
