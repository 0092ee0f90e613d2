//! The command line of `trustplane-agent`.

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use trustplane_process::frame;
pub use trustplane_process::frame::Program;

use crate::child;
use crate::secrets::{self, SecretsArgs};
use crate::serve::{self, ServeArgs};
use crate::test_token::{self, TestTokenArgs};

/// The agent of one HSM token.
#[derive(Debug, Parser)]
#[command(
    name = "trustplane-agent",
    bin_name = "trustplane-agent",
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
    Secrets(SecretsArgs),
}

/// Its flags may also come from the environment and from a file, so they are read in another way.
#[derive(Debug, clap::Args)]
struct Elsewhere {}

/// Does what the command line says.
pub fn main(program: Program) -> ExitCode {
    let argv: Vec<OsString> = std::env::args_os().collect();
    if argv.get(1).is_some_and(|word| word == "serve") {
        let words = argv.into_iter().enumerate();
        let argv = words.filter_map(|(at, word)| (at != 1).then_some(word));
        return frame::main_from(program, argv, async |args: ServeArgs| {
            // The future holds all that starts: it is kept off the stack.
            Ok(Box::pin(serve::run(args, program)).await?)
        });
    }
    frame::tool(program, |cli: Cli| {
        match cli.command {
            Command::Serve(Elsewhere {}) => {}
            Command::Module => child::run()?,
            Command::TestToken(args) => {
                test_token::run(&args, &mut io::stdin().lock(), &mut io::stdout().lock())?;
            }
            Command::Secrets(args) => {
                return Ok(secrets::run(
                    &args,
                    &mut io::stdin().lock(),
                    &mut io::stdout().lock(),
                )?);
            }
        }
        Ok(ExitCode::SUCCESS)
    })
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
