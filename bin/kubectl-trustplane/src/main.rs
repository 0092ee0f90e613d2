//! The kubectl plugin: `kubectl trustplane …`.

use std::process::ExitCode;

fn main() -> ExitCode {
    trustplane_cli::main()
}
