//! `kubectl trustplane hsm …`: what a person does with tokens.

mod agent;
mod order;
mod test;

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

use crate::cluster::ClusterArgs;

/// Work with tokens.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Test(test::Args),
}

/// Runs the command.
pub async fn run(args: &Args, cluster: &ClusterArgs, out: &mut impl Write) -> Result<ExitCode> {
    match &args.command {
        Command::Test(args) => test::run(args, cluster, out).await,
    }
}
