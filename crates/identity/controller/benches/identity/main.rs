//! `cargo xtask bench identity`: how long a change of the ZeroTrustWorkloadIdentityManager (ZTWIM) takes until all operands that inherit it
//! have the value, against the limit of five seconds and against a plain loop of the calls that any controller has to make; and how often
//! operands are written.
//!
//! The capability runs in this process with its own rhythm, as the shipped account on a real API server, without webhooks. Both sides take
//! turns in blocks. Pods do not run: there is no node.
//!
//! It needs a control plane without an object of ours, which `cargo xtask bench identity` starts; without it the benchmark starts one.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark talks to people and stops at the first surprise"
)]

mod changes;
mod floor;
mod follower;
mod stage;
/// The table of the other benchmark with a floor.
#[allow(dead_code, reason = "the other benchmark uses all of it")]
#[path = "../../../../../bin/agent/benches/hsm/table.rs"]
mod table;

use table::Row;

fn main() {
    trustplane_process::crypto::install();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let rows = runtime.block_on(changes::measure()).unwrap();
    table::print(&rows);
    if let Ok(path) = std::env::var("TRUSTPLANE_BENCH_RESULTS") {
        let results: Vec<_> = rows.iter().map(Row::json).collect();
        std::fs::write(path, serde_json::to_string_pretty(&results).unwrap()).unwrap();
    }
}

/// Tells people who wait.
fn progress(text: &str) {
    eprintln!("identity: {text}");
}
