//! `cargo xtask bench`: benchmarks as ratios against a peer or a floor in the same run.

mod manager;

use std::path::Path;

use anyhow::{Result, bail};
use trustplane_cluster::{
    cache::Cache,
    control_plane::{self, ControlPlane, Options},
};

use crate::run;

struct Benchmark {
    name: &'static str,
    about: &'static str,
    /// Measures on an empty control plane, and writes the results as JSON to the path.
    run: fn(&ControlPlane, &Path) -> Result<()>,
}

const ALL: &[Benchmark] = &[
    Benchmark {
        name: "kit",
        about: "latency, queue throughput, memory against kube-runtime's reflector, CPU at rest",
        run: |plane, results| cargo("trustplane-kit", "kit", plane, results),
    },
    Benchmark {
        name: "hsm",
        about: "a token through the agent against a raw PKCS#11 loop; delivery against a plain loop of the same calls",
        run: |plane, results| cargo("trustplane-agent", "hsm", plane, results),
    },
    Benchmark {
        name: "identity",
        about: "a change of ZTWIM until the operands have it, against its limit and a plain loop; writes per operand that differs",
        run: |plane, results| cargo("trustplane-identity-controller", "identity", plane, results),
    },
    Benchmark {
        name: "manager",
        about: "the manager as it ships: start to ready, memory and CPU at rest",
        run: manager::run,
    },
];

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
        for benchmark in ALL {
            println!("{:<8} {}", benchmark.name, benchmark.about);
        }
        return Ok(());
    };
    let Some(benchmark) = ALL.iter().find(|known| known.name == name) else {
        let known: Vec<_> = ALL.iter().map(|known| known.name).collect();
        bail!("{name:?}: no such benchmark; there is {}", known.join(", "));
    };
    let results = Cache::locate()?.root().join("bench");
    std::fs::create_dir_all(&results)?;
    let results = results.join(format!("{name}.json"));
    let cluster = format!("bench-{}", std::process::id());
    let plane = ControlPlane::up(&cluster, &Options::default())?;
    let measured = (benchmark.run)(&plane, &results);
    control_plane::down(&cluster)?;
    measured?;
    println!("written to {}", results.display());
    Ok(())
}

fn cargo(package: &str, target: &str, plane: &ControlPlane, results: &Path) -> Result<()> {
    run::run(
        run::cargo()
            .args(["bench", "--locked", "--package", package, "--bench", target])
            .env("KUBECONFIG", plane.kubeconfig())
            // How the testkit finds it.
            .env("TRUSTPLANE_TEST_CLUSTER", plane.name().to_string())
            .env("TRUSTPLANE_BENCH_RESULTS", results),
    )
}
