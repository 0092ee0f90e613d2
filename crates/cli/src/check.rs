//! `kubectl trustplane check`: is everything installed, reachable and permitted, and if not, what to do.

mod identity;
mod judgement;
mod observation;
mod report;
mod tokens;
mod webhooks;

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;

use crate::cluster::ClusterArgs;
use crate::output::{self, ReportFormat};
use crate::style::Style;

/// Check whether everything is installed, reachable and permitted, and say what to do about what is not.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  kubectl trustplane check --namespace trustplane\n\n\
    The exit code is 0 when all is well, and 1 when something is broken or could not be looked at."
)]
pub struct Args {
    /// How the result looks.
    #[arg(long, short, value_enum, default_value_t)]
    output: ReportFormat,
}

/// Runs the command.
pub async fn run(args: &Args, cluster: &ClusterArgs, out: &mut impl Write) -> Result<ExitCode> {
    let cluster = cluster.connect().await?;
    let observation = observation::observe(&cluster).await;
    let report = judgement::judge(&observation);
    match args.output {
        ReportFormat::Table => report.people(Style::of_stdout(), out)?,
        ReportFormat::Json => output::json(out, &report)?,
        ReportFormat::Yaml => output::yaml(out, &report)?,
    }
    Ok(if report.well {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
