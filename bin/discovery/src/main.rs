//! `trustplane-discovery`: finds the tokens of a node, reports them, and offers them to kubelet.

use std::process::ExitCode;

fn main() -> ExitCode {
    trustplane_hsm_discovery::main()
}
