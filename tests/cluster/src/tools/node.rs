//! Node and npm of the machine, which build the console and run its tests.

use std::process::Command;

use anyhow::{Result, bail};

/// The oldest Node that builds the console.
pub const OLDEST: (u32, u32) = (20, 19);

/// What the machine has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    /// Node, in a version that will do, and npm: their versions.
    Good { node: String, npm: String },
    /// What is wrong.
    Bad(String),
}

/// What to do about a machine without a Node that will do.
pub fn remedy() -> String {
    format!(
        "install {}, which brings npm, from https://nodejs.org/en/download and put its bin directory on the search path",
        wanted()
    )
}

fn wanted() -> String {
    format!("Node {}.{} or later", OLDEST.0, OLDEST.1)
}

/// Looks at the machine.
pub fn look() -> Node {
    judge(answer("node"), answer("npm"))
}

/// Fails with what to do if this machine cannot build the console.
pub fn check() -> Result<()> {
    match look() {
        Node::Good { .. } => Ok(()),
        Node::Bad(why) => bail!(
            "{why}: {}; `cargo xtask doctor` looks at the whole machine",
            remedy()
        ),
    }
}

fn judge(node: Option<String>, npm: Option<String>) -> Node {
    let Some(node) = node else {
        return Node::Bad(format!(
            "no node on the search path: the console needs {}",
            wanted()
        ));
    };
    if version(&node).is_none_or(|found| found < OLDEST) {
        return Node::Bad(format!("Node {node} is too old: the console needs {}", wanted()));
    }
    match npm {
        Some(npm) => Node::Good { node, npm },
        None => Node::Bad(format!("Node {node} is there, but no npm is on the search path")),
    }
}

/// The first two numbers of `v20.19.1`.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.strip_prefix('v')?.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn answer(program: &str) -> Option<String> {
    let output = Command::new(program)
        .arg("--version")
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_node_are_compared_as_numbers() {
        assert_eq!(version("v20.19.1"), Some((20, 19)));
        assert_eq!(version("v24.0.0-nightly"), Some((24, 0)));
        assert_eq!(version("20.19.1"), None);
        assert!(version("v20.9.0") < Some(OLDEST) && version("v100.0.0") > Some(OLDEST));
    }

    #[test]
    fn a_machine_without_a_good_node_is_told_what_it_lacks() {
        let judged =
            |node: Option<&str>, npm: Option<&str>| judge(node.map(str::to_owned), npm.map(str::to_owned));
        assert!(matches!(
            judged(Some("v20.19.0"), Some("11.1.0")),
            Node::Good { .. }
        ));
        for (node, npm, lacks) in [
            (None, Some("11.1.0"), "no node on the search path"),
            (Some("v20.18.3"), Some("10.0.0"), "v20.18.3 is too old"),
            (Some("v18.20.0"), Some("10.0.0"), "Node 20.19 or later"),
            (Some("nightly"), Some("10.0.0"), "too old"),
            (Some("v22.1.0"), None, "no npm"),
        ] {
            let Node::Bad(why) = judged(node, npm) else {
                panic!("{node:?} is good");
            };
            assert!(why.contains(lacks), "{why}");
        }
    }
}
