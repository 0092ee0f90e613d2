//! Running the programs that a person runs.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, Result, bail};

/// What a program said before it ended.
#[derive(Debug)]
pub struct Said {
    pub status: ExitStatus,
    pub out: String,
    pub err: String,
}

/// Runs a command to its end, whatever that is.
pub fn try_say(command: &mut Command) -> Result<Said> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("start {}", shown(command)))?;
    Ok(Said {
        status: output.status,
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

/// Runs a command that must end well, and gives what it printed.
pub fn say(command: &mut Command) -> Result<String> {
    let said = try_say(command)?;
    if !said.status.success() {
        bail!(
            "{} ended with {}\n{}{}",
            shown(command),
            said.status,
            said.out,
            said.err
        );
    }
    Ok(said.out)
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}

/// A program of the workspace, compiled with the features that the tests are compiled with: those of dev-dependencies come
/// in only if a test is among what cargo builds.
pub fn program(name: &str) -> Result<PathBuf> {
    say(cargo().args([
        "build",
        "--workspace",
        "--quiet",
        "--bin",
        name,
        "--test",
        "frame",
    ]))?;
    let own = std::env::current_exe().context("find this program")?;
    let profile = own
        .parent()
        .and_then(Path::parent)
        .context("find the target directory")?;
    Ok(profile.join(name))
}

/// `cargo xtask`.
pub fn xtask() -> Command {
    let mut command = cargo();
    command.arg("xtask");
    command
}

fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
    command
}
