//! What `cargo xtask` starts: compiles the task runner (`xtask`), then becomes it.
//!
//! `cargo run --package xtask` would do the same with other features of the dependencies: cargo unites the features of the
//! packages that it is asked for, so the runner's dependencies would be compiled once for the runner and again for the
//! products. Here cargo is asked for the whole workspace, as every build of the project does.

#![allow(clippy::print_stderr, reason = "a task tells the user what it waits for")]

mod notice;

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The task runner's binary.
const RUNNER: &str = "xtask";

fn main() -> ExitCode {
    match launch() {
        Ok(never) => match never {},
        Err(code) => code,
    }
}

/// Compiles and becomes the runner; returns only when that fails.
fn launch() -> Result<std::convert::Infallible, ExitCode> {
    let runner = runner().map_err(|error| fail("find the task runner's directory", &error))?;
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    if !runner.exists() {
        let task = arguments.first().and_then(|word| word.to_str());
        eprintln!("{}", notice::first_run(task));
    }
    let built = compile()
        .status()
        .map_err(|error| fail("start cargo to compile the task runner", &error))?;
    if !built.success() {
        // Cargo has told why.
        return Err(ExitCode::from(101));
    }
    let error = Command::new(&runner).args(arguments).exec();
    Err(fail(&format!("start {}", runner.display()), &error))
}

/// Where cargo puts the runner: beside this program.
fn runner() -> std::io::Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name(RUNNER))
}

/// The build of the runner with the features of the whole workspace.
fn compile() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .args(["build", "--workspace", "--bin", RUNNER]);
    cargo
}

fn fail(attempted: &str, error: &std::io::Error) -> ExitCode {
    eprintln!("cargo xtask: failed to {attempted}: {error}");
    ExitCode::FAILURE
}
