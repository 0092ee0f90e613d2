//! `cargo xtask gen`: everything that is written by the code and not by people, and whether it is up to date.
//!
//! The source is the manager itself: what its capabilities may do, which kinds they serve and which webhooks they have
//! stands in the code, and `manager describe` tells it. The chart, the plain manifests and the reference pages follow.

mod chart;
mod crds;
mod description;
mod help;
mod kinds;
mod tree;
mod values;
mod wire;

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use trustplane_cluster::cache::Cache;
use trustplane_cluster::tools::{Tool, Toolchain};

use crate::image::{self, Profile};
use crate::run;
use description::Description;
use help::Program;
use tree::Tree;

/// Write the chart's generated files, the plain manifests, the wire code and the reference pages.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  cargo xtask gen\n  cargo xtask gen --check")]
pub struct Args {
    /// Write nothing; fail if a file is not what the code says.
    #[arg(long)]
    check: bool,
    /// Only the wire code of gRPC services; the product need not compile.
    #[arg(long, conflicts_with = "out")]
    wire: bool,
    /// Put a whole chart for another manager into this directory instead.
    #[arg(long, value_name = "DIR", requires = "manager", conflicts_with = "check")]
    out: Option<PathBuf>,
    /// The manager to describe; without it, the product's own is built.
    #[arg(long, value_name = "BINARY", requires = "out")]
    manager: Option<PathBuf>,
}

impl Args {
    /// `gen --check`, as a stage of the tests.
    pub fn checking() -> Self {
        Self {
            check: true,
            wire: false,
            out: None,
            manager: None,
        }
    }
}

/// Generates, or checks.
pub fn run(args: Args) -> Result<()> {
    if let (Some(out), Some(manager)) = (&args.out, &args.manager) {
        let tree = chart::files(&Description::of(manager)?)?;
        chart::assemble(&tree, out)?;
        println!("{}", out.join(chart::CHART).display());
        return Ok(());
    }
    let mut tree = if args.wire { Tree::default() } else { product()? };
    wire::add(&mut tree)?;
    if args.check { check(&tree) } else { write(&tree) }
}

/// Everything that is generated from the product's programs.
fn product() -> Result<Tree> {
    let manager = image::compile("trustplane-manager", "trustplane-manager", Profile::Test)?;
    let plugin = image::compile("kubectl-trustplane", "kubectl-trustplane", Profile::Test)?;
    let agent = image::compile("trustplane-agent", "trustplane-agent", Profile::Test)?;
    let discovery = image::compile("trustplane-discovery", "trustplane-discovery", Profile::Test)?;
    let hub = image::compile("trustplane-hub", "trustplane-hub", Profile::Test)?;
    let helm = Toolchain::new(&Cache::locate()?).ensure(Tool::Helm)?.join("helm");
    // Not by its path: a build of the workspace may have put another file there since we were started.
    let xtask = Path::new("/proc/self/exe");

    let description = Description::of(&manager)?;
    let mut tree = chart::files(&description)?;
    tree.add(
        "docs/reference/kinds.md",
        kinds::page(&description.definitions()?)?,
    );
    let scratch = tempfile::tempdir()?;
    chart::assemble(&tree, scratch.path())?;
    let whole = scratch.path().join(chart::CHART);
    tree.own("deploy/manifests");
    tree.add(
        "deploy/manifests/trustplane.yaml",
        chart::manifests(&helm, &whole)?,
    );
    tree.add("docs/reference/values.md", values::page(&whole)?);
    let programs = [
        Program {
            typed: "cargo xtask",
            path: xtask,
        },
        Program {
            typed: "kubectl trustplane",
            path: &plugin,
        },
        Program {
            typed: "trustplane-agent",
            path: &agent,
        },
        Program {
            typed: "trustplane-discovery",
            path: &discovery,
        },
        Program {
            typed: "trustplane-hub",
            path: &hub,
        },
        Program {
            typed: "trustplane-manager",
            path: &manager,
        },
    ];
    tree.add("docs/reference/cli.md", help::page(&programs)?);
    Ok(tree)
}

fn write(tree: &Tree) -> Result<()> {
    let changed = tree.write(&run::root())?;
    for path in &changed {
        println!("wrote {}", path.display());
    }
    if changed.is_empty() {
        println!("everything generated is up to date");
    }
    Ok(())
}

fn check(tree: &Tree) -> Result<()> {
    let root = run::root();
    let changed = tree.changed(&root)?;
    for path in &changed {
        println!(
            "{} is not what the code says:\n{}",
            path.display(),
            tree.diff(&root, path)?
        );
    }
    if !changed.is_empty() {
        bail!(
            "{} generated files are out of date: run `cargo xtask gen` and commit the result",
            changed.len()
        );
    }
    Ok(())
}
