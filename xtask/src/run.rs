//! Running other programs: where the workspace is, and commands that say what failed.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use anyhow::{Context, Result, bail};
use trustplane_cluster::{
    cache::Cache,
    tools::{Toolchain, console},
};

/// The root of the workspace.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// The cargo that runs us, in the root of the workspace. Every build embeds the same console, so that none compiles the hub again.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    if let Some(dist) = console_dist() {
        command.env(console::DIST_VARIABLE, dist);
    }
    if let Some(driver) = LINTER.get() {
        command
            .env("RUSTC_WORKSPACE_WRAPPER", driver)
            .env("CLIPPY_ARGS", "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__");
    }
    command
}

/// The built console, if it is in the cache; without it the hub has a stub page.
fn console_dist() -> Option<PathBuf> {
    let toolchain = Toolchain::new(&Cache::locate().ok()?);
    console::dist(&toolchain).ok()?
}

/// The compiler that also lints, once it was chosen.
static LINTER: OnceLock<PathBuf> = OnceLock::new();

/// From now on crates of the workspace are compiled by the compiler that also lints, with warnings denied. `cargo clippy` would
/// check every dependency without compiling it, and the build would then compile it all the same.
pub fn lint_while_building() -> Result<()> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let sysroot = output(
        Command::new(rustc)
            .args(["--print", "sysroot"])
            .current_dir(root()),
    )?;
    let driver = Path::new(sysroot.trim()).join("bin/clippy-driver");
    if !driver.exists() {
        bail!("clippy is not installed: rustup component add clippy");
    }
    LINTER.get_or_init(|| driver);
    Ok(())
}

/// Runs a command to its end; an error names it.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("failed to start {command:?}"))?;
    if !status.success() {
        bail!("{} ended with {status}", shown(command));
    }
    Ok(())
}

/// Runs a command to its end and returns what it printed.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command
        .output()
        .with_context(|| format!("failed to start {command:?}"))?;
    if !output.status.success() {
        let told = String::from_utf8_lossy(&output.stderr);
        bail!("{} ended with {}: {}", shown(command), output.status, told.trim());
    }
    Ok(String::from_utf8(output.stdout)?)
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words
        .map(|word| word.to_string_lossy().into_owned())
        .collect::<Vec<_>>()
        .join(" ")
}
