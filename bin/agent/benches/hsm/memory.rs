//! Resident memory of the agent and of its module, after all that was asked of them.

use std::fs;

use crate::agent::Agent;
use crate::table::{Goal, Row};

const GOAL: f64 = 20.0;

/// Looks at both processes.
pub fn measure(agent: &Agent) -> [Row; 3] {
    let row = |what, process, name, goal| Row {
        what,
        ours: figure(process, name).unwrap() * 1024.0 / 1e6,
        theirs: None,
        unit: "MB",
        peer: "",
        goal,
    };
    [
        row(
            "memory of the agent",
            agent.id(),
            "VmRSS:",
            Some(Goal::Below(GOAL)),
        ),
        row("memory of the agent at its peak", agent.id(), "VmHWM:", None),
        row(
            "memory of the process with the module",
            child_of(agent.id()),
            "VmRSS:",
            None,
        ),
    ]
}

/// The one process that another has started.
fn child_of(parent: u32) -> u32 {
    let processes = fs::read_dir("/proc").unwrap();
    let numbers = processes.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    let is_child = |process: &u32| figure(*process, "PPid:") == Some(f64::from(parent));
    let children: Vec<u32> = numbers.filter(is_child).collect();
    assert_eq!(children.len(), 1, "processes of the agent: {children:?}");
    children[0]
}

/// A figure of a process; nothing if it has ended.
fn figure(process: u32, name: &str) -> Option<f64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}
