//! `cargo xtask bench`: benchmarks as ratios against a peer or a floor in the same run.

use anyhow::{Result, bail};
use trustplane_cluster::{
    cache::Cache,
    control_plane::{self, ControlPlane, Options},
};

use crate::run;

/// The benchmarks: name, package, bench target, what it shows.
const ALL: &[(&str, &str, &str, &str)] = &[(
    "kit",
    "trustplane-kit",
    "kit",
    "latency, queue throughput, memory against kube-runtime's reflector, CPU at rest",
)];

/// Arguments of `cargo xtask bench`.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  cargo xtask bench       list the benchmarks\n  cargo xtask bench kit   run one; the results \
                  are printed as a table and written as JSON"
)]
pub struct Args {
    /// Which benchmark to run.
    name: Option<String>,
}

/// Runs one benchmark against a control plane of its own.
pub fn run(args: Args) -> Result<()> {
    let Some(name) = args.name else {
        for (name, _, _, about) in ALL {
            println!("{name:<8} {about}");
        }
        return Ok(());
    };
    let Some((_, package, target, _)) = ALL.iter().find(|(known, ..)| *known == name) else {
        let known: Vec<_> = ALL.iter().map(|(known, ..)| *known).collect();
        bail!("{name:?}: no such benchmark; there is {}", known.join(", "));
    };
    let cache = Cache::locate()?;
    let cluster = format!("bench-{}", std::process::id());
    let control_plane = ControlPlane::up(&cluster, &Options::default())?;
    let results = cache.root().join("bench");
    std::fs::create_dir_all(&results)?;
    let results = results.join(format!("{name}.json"));
    let measured = run::run(
        run::cargo()
            .args(["bench", "--locked", "--package", package, "--bench", target])
            .env("KUBECONFIG", control_plane.kubeconfig())
            .env("TRUSTPLANE_BENCH_RESULTS", &results),
    );
    control_plane::down(&cluster)?;
    measured?;
    println!("written to {}", results.display());
    Ok(())
}
