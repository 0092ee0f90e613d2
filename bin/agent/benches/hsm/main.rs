//! `cargo xtask bench hsm`: what a token costs through the agent, against a raw PKCS#11 loop on the same token in the same run; and what
//! delivery costs, against a plain loop that makes the same calls. With the argument `delivery` it measures only the latter.
//!
//! Both sides take turns in blocks: one call alone, after another process had the machine, would tell how long it takes to wake.
//!
//! It needs SoftHSM, and an empty API server (`KUBECONFIG`), which `cargo xtask bench hsm` starts: the agent that is measured has
//! all that one in a pod has. Where tokens are is said by the environment, so the program starts itself again: once to
//! measure, and from there once to count the calls of the raw loop.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark talks to people and stops at the first surprise"
)]

mod agent;
mod calls;
mod cluster;
mod delivery;
mod look;
mod memory;
mod raw;
mod read;
mod secrets;
mod stage;
mod table;
mod write;

/// What the tests of delivery stand on.
#[allow(dead_code, reason = "the tests use all of it")]
#[path = "../../tests/secrets"]
mod tested {
    pub mod pod_address;
    pub mod stage;
    pub mod token;
}

use std::path::Path;

use agent::Agent;
use raw::Raw;
use stage::{Role, SOFTHSM, Stage};
use table::Row;
// By these names they know each other.
use tested::{pod_address, token};

fn main() {
    trustplane_process::crypto::install();
    match Stage::inherited() {
        Some((stage, Role::Measure)) => measure(&stage),
        Some((stage, Role::Count)) => calls::count_raw(&stage),
        None => {
            let status = Stage::new().program(Role::Measure).status().unwrap();
            assert!(status.success(), "{status}");
        }
    }
}

fn measure(stage: &Stage) {
    let mut rows = match std::env::args().any(|word| word == "delivery") {
        true => Vec::new(),
        false => through_the_agent(stage),
    };
    rows.extend(delivery::compare());
    table::print(&rows);
    if let Ok(path) = std::env::var("TRUSTPLANE_BENCH_RESULTS") {
        let results: Vec<_> = rows.iter().map(Row::json).collect();
        std::fs::write(path, serde_json::to_string_pretty(&results).unwrap()).unwrap();
    }
}

/// A token through the agent.
fn through_the_agent(stage: &Stage) -> Vec<Row> {
    stage.make_token();
    cluster::prepare(stage);
    let raw = Raw::open(Path::new(SOFTHSM));
    raw.fill();
    // What counts calls also slows them down: times are taken of another agent.
    let mut rows = calls::compare(stage);
    // Nobody else writes what the agent has to find, and a pass would come at any moment.
    let agent = Agent::start(stage, Path::new(SOFTHSM), calls::NEVER, []);
    // Writes come last: they leave objects that the raw loop or the agent has not seen yet.
    rows.splice(0..0, read::compare(&agent, &raw));
    rows.extend(write::compare(&agent, &raw));
    rows.extend(look::compare(&agent, &raw));
    rows.extend(memory::measure(&agent));
    rows
}
