//! `cargo xtask lint`: the rules of the workspace that the compiler does not check.

mod crypto;
mod edges;
mod kinds;
mod limits;
mod metrics;
mod profile;
mod proofs;
mod reads;
mod texts;

use anyhow::{Result, bail};
use cargo_metadata::{CargoOpt, MetadataCommand};

use crate::run;

/// Arguments of `cargo xtask lint`.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  cargo xtask lint")]
pub struct Args {}

/// Runs every rule and reports all that is wrong at once.
pub fn run(_: Args) -> Result<()> {
    let metadata = MetadataCommand::new()
        .manifest_path(run::root().join("Cargo.toml"))
        .features(CargoOpt::AllFeatures)
        .other_options([
            "--filter-platform".into(),
            "x86_64-unknown-linux-gnu".into(),
            "--locked".into(),
        ])
        .exec()?;
    let graph = edges::Graph::of(&metadata)?;
    let mut faults = edges::check(&graph);
    faults.extend(crypto::check()?);
    faults.extend(texts::check(&run::root())?);
    faults.extend(reads::check(&run::root())?);
    faults.extend(kinds::check(&run::root())?);
    faults.extend(proofs::check(&run::root(), &metadata)?);
    faults.extend(metrics::check(&run::root())?);
    faults.extend(limits::check(&run::root())?);
    faults.extend(profile::check(&run::root(), &metadata)?);
    if faults.is_empty() {
        println!("lint: {} crates, no fault", metadata.workspace_packages().len());
        return Ok(());
    }
    for fault in &faults {
        println!("lint: {fault}");
    }
    bail!("{} faults", faults.len());
}
