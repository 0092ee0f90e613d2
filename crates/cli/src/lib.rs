//! What a person does from a terminal: `kubectl trustplane …`.
//!
//! A command looks at the cluster (I/O), judges what it saw (pure), and renders the result as people or programs want it.
//! The judging and the rendering are tested without a cluster.
//!
//! It is not for automation inside the cluster, and it changes nothing unless a command says so in its name.
//!
//! ```no_run
//! fn main() -> std::process::ExitCode {
//!     trustplane_cli::main()
//! }
//! ```

mod check;
mod cluster;
mod command;
mod hsm;
mod installation;
mod output;
mod style;
mod version;

use std::process::ExitCode;

use clap::Parser;

pub use command::Cli;

/// Runs the command line: 0 when all is well, 1 when it is not, 2 when it was not understood.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    trustplane_process::crypto::install();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let outcome = match runtime {
        Ok(runtime) => runtime.block_on(command::run(cli, &mut std::io::stdout())),
        Err(error) => Err(anyhow::Error::new(error).context("start")),
    };
    match outcome {
        Ok(code) => code,
        Err(error) if output::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output::complain(&error);
            ExitCode::FAILURE
        }
    }
}
