//! What a person does from a terminal: `kubectl trustplane …`.
//!
//! A command looks at the cluster (I/O), judges what it saw (pure), and renders the result as people or programs want it.
//! The judging and the rendering are tested without a cluster.
//!
//! It is not for automation inside the cluster, and it changes nothing unless a command says so in its name.
//!
//! ```no_run
//! use trustplane_cli::Program;
//!
//! const PROGRAM: Program = Program {
//!     name: env!("CARGO_PKG_NAME"),
//!     component: "kubectl",
//!     version: env!("CARGO_PKG_VERSION"),
//! };
//!
//! fn main() -> std::process::ExitCode {
//!     trustplane_cli::main(PROGRAM)
//! }
//! ```

mod check;
mod cluster;
mod command;
mod exec;
mod hsm;
mod installation;
mod inventory;
mod output;
mod style;
mod version;

use std::process::ExitCode;

pub use command::Cli;
pub use trustplane_process::frame::Program;

/// Runs the command line: 0 when all is well, 1 when it is not, 2 when it was not understood.
pub fn main(program: Program) -> ExitCode {
    trustplane_process::frame::tool(program, |cli: Cli| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        match runtime.block_on(command::run(cli, &mut std::io::stdout())) {
            Err(error) if output::is_broken_pipe(&error) => Ok(ExitCode::SUCCESS),
            outcome => Ok(outcome?),
        }
    })
}
