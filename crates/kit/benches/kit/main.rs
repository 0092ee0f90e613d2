//! `cargo xtask bench kit`: what the kit costs, as ratios against a peer or a floor in the same run.
//!
//! It needs an empty API server (`KUBECONFIG`), which `cargo xtask bench kit` starts.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark talks to people and stops at the first surprise"
)]

mod latency;
mod memory;
mod pods;
mod queue;

use serde_json::{Value, json};
use tokio::runtime::Builder;

/// One line of the table.
pub struct Row {
    /// What was measured.
    pub what: &'static str,
    /// Our figure.
    pub ours: f64,
    /// The figure of the peer or the floor.
    pub theirs: f64,
    /// The unit of both.
    pub unit: &'static str,
    /// Who the peer is.
    pub peer: &'static str,
    /// What we want of the ratio, if anything.
    pub goal: &'static str,
}

fn main() {
    trustplane_process::crypto::install();
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    // Memory is measured in processes of their own: this program again, with another argument.
    if let Ok(role) = std::env::var(memory::ROLE) {
        return runtime.block_on(memory::child(&role));
    }
    let rows = runtime.block_on(async {
        let client = kube::Client::try_default()
            .await
            .expect("KUBECONFIG names an API server");
        let mut rows = vec![queue::throughput().await];
        rows.extend(latency::event_to_reconcile(&client).await);
        pods::create(&client).await;
        rows.extend(memory::compare());
        rows
    });
    print(&rows);
    if let Ok(path) = std::env::var("TRUSTPLANE_BENCH_RESULTS") {
        let results: Vec<Value> = rows.iter().map(Row::json).collect();
        std::fs::write(path, serde_json::to_string_pretty(&results).unwrap()).unwrap();
    }
}

impl Row {
    fn ratio(&self) -> f64 {
        self.ours / self.theirs
    }

    fn json(&self) -> Value {
        json!({
            "what": self.what, "ours": self.ours, "peer": self.peer, "theirs": self.theirs, "unit": self.unit,
            "ratio": self.ratio(), "goal": self.goal,
        })
    }
}

fn print(rows: &[Row]) {
    println!(
        "{:<34} {:>12} {:>12} {:<8} {:>7}  {:<44} goal",
        "", "ours", "theirs", "", "ratio", "theirs is"
    );
    for row in rows {
        println!(
            "{:<34} {:>12.2} {:>12.2} {:<8} {:>7.2}  {:<44} {}",
            row.what,
            row.ours,
            row.theirs,
            row.unit,
            row.ratio(),
            row.peer,
            row.goal
        );
    }
}
