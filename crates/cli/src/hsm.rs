//! `kubectl trustplane hsm …`: what a person does with tokens.

mod agent;
mod order;
mod secret;
mod test;

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

use crate::cluster::ClusterArgs;

/// Work with tokens, and with the secrets on them.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Create(secret::CreateArgs),
    Update(secret::UpdateArgs),
    Get(secret::GetArgs),
    List(secret::ListArgs),
    Delete(secret::DeleteArgs),
    Test(test::Args),
}

/// Runs the command.
pub async fn run(args: &Args, cluster: &ClusterArgs, out: &mut impl Write) -> Result<ExitCode> {
    match &args.command {
        Command::Create(args) => secret::create(args, cluster, out).await,
        Command::Update(args) => secret::update(args, cluster, out).await,
        Command::Get(args) => secret::get(args, cluster, out).await,
        Command::List(args) => secret::list(args, cluster, out).await,
        Command::Delete(args) => secret::delete(args, cluster, out).await,
        Command::Test(args) => test::run(args, cluster, out).await,
    }
}
