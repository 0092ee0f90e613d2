//! Every task of the project. `cargo xtask --help` lists them.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "tasks talk to people")]

mod bench;
mod cluster;
mod demo;
mod doctor;
mod generate;
mod image;
mod lint;
mod run;
mod test;
mod tools;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    about,
    disable_help_subcommand = true
)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Show Trustplane on a real one-node Kubernetes, until Ctrl-C.
    Demo(demo::Args),
    /// Run every check and every test, or the tests that match a filter.
    Test(test::Args),
    /// Start, look at and end development clusters.
    Cluster(cluster::Args),
    /// Make OCI images, without Docker.
    Image(image::Args),
    /// Generate chart data, CRDs, manifests and reference from the code.
    Gen(generate::Args),
    /// Check the rules of the workspace that the compiler does not: edges between crates, crypto, sizes, texts.
    Lint(lint::Args),
    /// Measure, as ratios against a peer or a floor.
    Bench(bench::Args),
    /// Say what this machine lacks, and the one command that mends it.
    Doctor(doctor::Args),
    /// Build the pinned tools and say where they are.
    Tools(tools::Args),
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().task {
        Task::Demo(args) => demo::run(args),
        Task::Test(args) => test::run(args),
        Task::Cluster(args) => cluster::run(args),
        Task::Image(args) => image::run(args),
        Task::Gen(args) => generate::run(args),
        Task::Lint(args) => lint::run(args),
        Task::Bench(args) => bench::run(args),
        Task::Doctor(args) => doctor::run(args),
        Task::Tools(args) => tools::run(args),
    }
}
