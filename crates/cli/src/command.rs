//! The command line as data, and what each command does.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

use crate::cluster::ClusterArgs;
use crate::{check, hsm, inventory, version};

/// See and check Trustplane in a cluster.
#[derive(Debug, Parser)]
#[command(
    name = "kubectl-trustplane",
    bin_name = "kubectl trustplane",
    version,
    disable_help_subcommand = true
)]
pub struct Cli {
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Version(version::Args),
    Check(check::Args),
    Hsm(hsm::Args),
    Inventory(inventory::Args),
    /// Print a completion script for a shell.
    #[command(after_help = "Example:\n  source <(kubectl trustplane completion bash)")]
    Completion {
        /// The shell.
        shell: Shell,
    },
}

/// Does what the command line says and writes the result to `out`.
pub async fn run(cli: Cli, out: &mut impl Write) -> Result<ExitCode> {
    match cli.command {
        Command::Version(args) => version::run(&args, &cli.cluster, out).await,
        Command::Check(args) => check::run(&args, &cli.cluster, out).await,
        Command::Hsm(args) => hsm::run(&args, &cli.cluster, out).await,
        Command::Inventory(args) => inventory::run(&args, &cli.cluster, out).await,
        Command::Completion { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "kubectl-trustplane", out);
            Ok(ExitCode::SUCCESS)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_help_explains_every_command_and_flag() {
        let mut command = Cli::command().term_width(100);
        insta::assert_snapshot!("help", command.render_long_help());
        let names = [
            "version",
            "check",
            "hsm",
            "hsm create",
            "hsm update",
            "hsm get",
            "hsm list",
            "hsm delete",
            "hsm test",
            "inventory",
            "inventory enroll",
            "inventory open",
            "completion",
        ];
        for name in names {
            let parts = name.split(' ');
            let found = parts.fold(&mut command, |command, part| {
                command.find_subcommand_mut(part).unwrap()
            });
            let help = found.clone().term_width(100).render_long_help();
            insta::assert_snapshot!(format!("help_{}", name.replace(' ', "_")), help);
        }
    }

    #[tokio::test]
    async fn completion_needs_no_cluster() {
        for shell in ["bash", "zsh", "fish"] {
            let cli = Cli::parse_from([
                "kubectl-trustplane",
                "--kubeconfig=/nonexistent",
                "completion",
                shell,
            ]);
            let mut out = Vec::new();
            run(cli, &mut out).await.unwrap();
            let script = String::from_utf8(out).unwrap();
            assert!(
                script.contains("kubectl-trustplane") && script.contains("check"),
                "{shell}: {script}"
            );
        }
    }
}
