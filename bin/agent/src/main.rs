//! `trustplane-agent`: serves one HSM token over gRPC, with its PKCS#11 module in a child process.

use std::process::ExitCode;

fn main() -> ExitCode {
    trustplane_hsm_agent::cli::main(env!("CARGO_PKG_VERSION"))
}
