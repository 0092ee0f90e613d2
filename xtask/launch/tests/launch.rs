//! The launcher with a cargo that only notes how it was called.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A directory with the launcher in it, and a cargo that "compiles" a runner there.
fn stage(name: &str, cargo: &str) -> PathBuf {
    let stage = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&stage);
    fs::create_dir_all(&stage).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_xtask-launch"), stage.join("xtask-launch")).unwrap();
    script(&stage.join("cargo"), cargo);
    stage
}

fn script(path: &Path, text: &str) {
    fs::write(path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn launch(stage: &Path, arguments: &[&str]) -> Output {
    Command::new(stage.join("xtask-launch"))
        .args(arguments)
        .current_dir("/")
        .env("CARGO", stage.join("cargo"))
        .env("STAGE", stage)
        .output()
        .unwrap()
}

const COMPILE: &str = r#"echo "cargo $*" >&2
printf '#!/bin/sh\necho "runner $* in $PWD"; exit 7\n' > "$STAGE/xtask" && chmod +x "$STAGE/xtask""#;

#[test]
fn launcher_compiles_the_workspaces_runner_and_becomes_it() {
    let stage = stage("compiles", COMPILE);
    let first = launch(&stage, &["demo", "--exit"]);
    assert_eq!(first.status.code(), Some(7), "the exit code is the runner's");
    assert_eq!(
        String::from_utf8_lossy(&first.stdout),
        "runner demo --exit in /\n"
    );
    let said = String::from_utf8_lossy(&first.stderr);
    let (words, cargo) = said.split_once("cargo build").unwrap();
    assert!(
        words.contains("first run here") && words.contains("`demo`"),
        "{said}"
    );
    assert_eq!(cargo, " --workspace --bin xtask\n");

    let second = launch(&stage, &["demo"]);
    let said = String::from_utf8_lossy(&second.stderr);
    assert!(!said.contains("first run"), "{said}");
}

#[test]
fn launcher_runs_no_old_runner_when_compiling_fails() {
    let stage = stage("fails", "exit 3");
    script(&stage.join("xtask"), "echo old");
    let output = launch(&stage, &["lint"]);
    assert!(!output.status.success());
    assert!(output.stdout.is_empty());
}
