//! `kubectl trustplane inventory …`: what a person does with the inventory of clusters.

mod credentials;
mod enroll;
mod enrolment;
mod hub;
mod open;

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

use crate::cluster::ClusterArgs;

/// Send the inventory of this cluster to a hub, and look at it.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Enroll(enroll::Args),
    Open(open::Args),
}

/// Runs the command.
pub async fn run(args: &Args, cluster: &ClusterArgs, out: &mut impl Write) -> Result<ExitCode> {
    match &args.command {
        Command::Enroll(args) => enroll::run(args, cluster, out).await,
        Command::Open(args) => open::run(args, cluster, out).await,
    }
}
