//! `cargo xtask test`: every check and every test, stage by stage, with times against a committed table of budgets.

mod report;
mod stages;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, bail};
use trustplane_cluster::cache::Cache;

use self::report::Report;
use crate::run;

/// Arguments of `cargo xtask test`.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  cargo xtask test                 everything: checks, then all tests\n  \
                  cargo xtask test lease           the tests whose name contains `lease`\n  \
                  cargo xtask test --stage faults  one stage\n  \
                  cargo xtask test --stage e2e --kubeconfig ~/.kube/config"
)]
pub struct Args {
    /// Run only the tests whose name contains this, without the checks.
    filter: Option<String>,
    /// Run only these stages; may be given more than once.
    #[arg(long, conflicts_with = "filter")]
    stage: Vec<String>,
    /// Run the end-to-end tests on this cluster instead of one of our own. Its nodes need the images `manager`,
    /// `agent`, `discovery`, `hub` and `sample-manager`, which `cargo xtask image` makes.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

/// Runs the stages, prints what each took, and fails if any of them failed.
pub fn run(args: Args) -> Result<()> {
    let known: Vec<_> = stages::ALL.iter().map(|stage| stage.name).collect();
    if let Some(unknown) = args.stage.iter().find(|name| !known.contains(&name.as_str())) {
        bail!("--stage {unknown}: no such stage; there are {}", known.join(", "));
    }
    let run = stages::Run::new(Cache::locate()?, args.filter, args.kubeconfig)?;
    if run.filter.is_none() {
        run::lint_while_building()?;
    }
    let mut report = Report::new(run.is_cold())?;
    for stage in stages::ALL {
        let wanted = match (&run.filter, args.stage.is_empty()) {
            (Some(_), _) => stage.tests,
            (None, true) => true,
            // The tools are what every other stage stands on.
            (None, false) => stage.name == "tools" || args.stage.iter().any(|name| name == stage.name),
        };
        if !wanted {
            continue;
        }
        report.begin(stage.name);
        let start = Instant::now();
        let outcome = (stage.run)(&run);
        report.end(stage.name, start.elapsed(), outcome);
    }
    run.clean_up();
    report.finish()
}
