//! Our own binary in an image: built by cargo, without debug information.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::run;

/// How the binary is compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// As the tests are: one build of the dependencies for both, and fast.
    Test,
    /// As it ships.
    Release,
}

/// Compiles a binary of a package of ours.
pub fn compile(package: &str, binary: &str, profile: Profile) -> Result<PathBuf> {
    let mut programs = compile_all(&[(package, binary)], profile)?;
    programs
        .pop()
        .with_context(|| format!("find what cargo made of {binary}"))
}

/// Compiles binaries, each given with its package.
pub fn compile_all(binaries: &[(&str, &str)], profile: Profile) -> Result<Vec<PathBuf>> {
    match profile {
        // One call for all: cargo then compiles side by side what is not the same.
        Profile::Test => build(binaries, profile),
        // One call for each: cargo unites the features of what it builds together, and the bytes of a program that ships must
        // not depend on its company.
        Profile::Release => {
            let each = binaries
                .chunks(1)
                .map(|one| build(one, profile))
                .collect::<Result<Vec<_>>>()?;
            Ok(each.concat())
        }
    }
}

/// Compiles a program of the task runner's own, as it is compiled itself.
pub fn compile_tool(binary: &str) -> Result<PathBuf> {
    let mut cargo = run::cargo();
    cargo.args(["build", "--workspace", "--bin", binary]);
    cargo_build(cargo, &[binary])?
        .pop()
        .with_context(|| format!("find what cargo made of {binary}"))
}

fn build(binaries: &[(&str, &str)], profile: Profile) -> Result<Vec<PathBuf>> {
    let mut cargo = run::cargo();
    cargo.arg("build");
    for (package, binary) in binaries {
        cargo.args(["--bin", binary]);
        if profile == Profile::Release {
            cargo.args(["--package", package]);
        }
    }
    match profile {
        // The features of the whole workspace, as the tests use them, or cargo would compile the dependencies again. It adds
        // those of dev-dependencies only if a test is among what it builds: `frame` is a small one.
        Profile::Test => cargo.args(["--workspace", "--test", "frame"]),
        Profile::Release => cargo.arg("--release"),
    };
    let names: Vec<_> = binaries.iter().map(|(_, binary)| *binary).collect();
    cargo_build(cargo, &names)
}

/// Runs cargo and gives the binaries of these names.
fn cargo_build(mut cargo: Command, binaries: &[&str]) -> Result<Vec<PathBuf>> {
    cargo.arg("--message-format=json-render-diagnostics");
    let output = cargo.stderr(Stdio::inherit()).output().context("start cargo")?;
    if !output.status.success() {
        bail!("compiling {} failed", binaries.join(", "));
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let program = |binary: &&str| {
        executable(&messages, binary).with_context(|| format!("find what cargo made of {binary}"))
    };
    binaries.iter().map(program).collect()
}

/// Writes the program without debug information to `stripped`.
pub fn strip(program: &Path, stripped: &Path) -> Result<()> {
    run::run(
        Command::new("strip")
            .arg("--strip-debug")
            .arg("-o")
            .arg(stripped)
            .arg(program),
    )
}

#[derive(Deserialize)]
struct Message {
    executable: Option<PathBuf>,
    target: Option<Target>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

fn executable(messages: &str, binary: &str) -> Option<PathBuf> {
    let read = |line: &str| serde_json::from_str::<Message>(line).ok();
    let named = |message: Message| {
        message
            .executable
            .filter(|_| message.target.is_some_and(|t| t.name == binary))
    };
    messages.lines().filter_map(read).find_map(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_executable_is_that_of_the_binary() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","target":{"name":"a"},"executable":null}"#,
            "\n",
            r#"{"reason":"compiler-artifact","target":{"name":"b"},"executable":"/t/b"}"#,
            "\n",
            r#"{"reason":"compiler-artifact","target":{"name":"a"},"executable":"/t/a"}"#,
            "\n",
            r#"{"reason":"build-finished","success":true}"#,
        );
        assert_eq!(executable(messages, "a"), Some("/t/a".into()));
        assert_eq!(executable(messages, "c"), None);
    }
}
