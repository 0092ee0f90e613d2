//! The command line of `trustplane-agent`.

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use trustplane_process::args::parse_from;
use trustplane_process::frame;

use crate::child;
use crate::protection::protect;
use crate::serve::{self, ServeArgs};
use crate::test_token::{self, TestTokenArgs};

/// The agent of one HSM token.
#[derive(Debug, Parser)]
#[command(
    name = "trustplane-agent",
    bin_name = "trustplane-agent",
    version,
    disable_help_subcommand = true
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve one token over gRPC with mutual TLS
    Serve(Elsewhere),
    /// Run the PKCS#11 module; the agent starts this itself
    Module,
    /// Look at a token and try what it can do, without a cluster
    TestToken(Box<TestTokenArgs>),
}

/// Its flags may also come from the environment and from a file, so they are read in another way.
#[derive(Debug, clap::Args)]
struct Elsewhere {}

/// Does what the command line says.
pub fn main(version: &'static str) -> ExitCode {
    let argv: Vec<OsString> = std::env::args_os().collect();
    if argv.get(1).is_some_and(|word| word == "serve") {
        return serve(&argv, version);
    }
    let command = Cli::parse_from(argv).command;
    if let Err(error) = protect() {
        return ended(Err(format!("protect the memory of the process: {error}")));
    }
    let outcome = match command {
        Command::Serve(Elsewhere {}) => Ok(()),
        Command::Module => child::run().map_err(|error| error.to_string()),
        Command::TestToken(args) => test_token::run(&args, &mut io::stdin().lock(), &mut io::stdout().lock())
            .map_err(|error| error.to_string()),
    };
    ended(outcome)
}

fn serve(argv: &[OsString], version: &'static str) -> ExitCode {
    let argv = argv
        .iter()
        .enumerate()
        .filter(|(at, _)| *at != 1)
        .map(|(_, word)| word.clone());
    let parsed = parse_from::<ServeArgs, _>(argv, |name| std::env::var(name).ok());
    let args = parsed.unwrap_or_else(|error| error.exit());
    // It has the PIN, and every value passes through it.
    let outcome = protect()
        .and_then(|()| frame::runtime())
        .map_err(|error| error.to_string())
        .and_then(|runtime| {
            runtime
                .block_on(serve::run(args, version))
                .map_err(|error| error.to_string())
        });
    ended(outcome)
}

/// Says once why it did not work: in the log, or without one to the person at the terminal.
fn ended(outcome: Result<(), String>) -> ExitCode {
    let Err(error) = outcome else {
        return ExitCode::SUCCESS;
    };
    if tracing::dispatcher::has_been_set() {
        tracing::error!(error, "ended");
    } else {
        // Without stderr there is nobody to tell.
        drop(writeln!(io::stderr(), "error: {error}"));
    }
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
        ServeArgs::command().debug_assert();
    }
}
