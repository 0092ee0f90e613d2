//! Tools from crates.io.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::progress::Progress;
use crate::subprocess;

/// A crate with one binary of the same name.
pub(super) struct Package {
    name: &'static str,
    pub(super) version: &'static str,
    flags: &'static [&'static str],
}

/// Without its updater, which would bring a second TLS stack and change what is pinned.
pub(super) const NEXTEST: Package = Package {
    name: "cargo-nextest",
    version: "0.9.151",
    flags: &["--no-default-features"],
};

pub(super) const DENY: Package = Package {
    name: "cargo-deny",
    version: "0.20.2",
    flags: &[],
};

/// A shared object of one crate, in a workspace that exists for it: its lock file pins everything.
pub(super) struct Library {
    package: &'static str,
    /// The file that cargo makes.
    file: &'static str,
    manifest: &'static str,
    lock: &'static str,
    source: &'static str,
}

pub(super) const KRYOPTIC: Library = Library {
    package: "kryoptic",
    file: "libkryoptic_pkcs11.so",
    manifest: include_str!("../../../../xtask/tools/kryoptic/Cargo.toml"),
    lock: include_str!("../../../../xtask/tools/kryoptic/Cargo.lock"),
    source: include_str!("../../../../xtask/tools/kryoptic/lib.rs"),
};

/// The Rust tool chain of the work tree.
const TOOL_CHAIN: &str = include_str!("../../../../rust-toolchain.toml");

/// The debug profile without debug information is the fastest to build, and fast enough to run.
const PROFILE: [(&str, &str); 2] = [
    ("CARGO_PROFILE_DEV_DEBUG", "0"),
    ("CARGO_PROFILE_DEV_INCREMENTAL", "false"),
];

impl Package {
    /// Everything that the binary depends on, but the Rust tool chain.
    pub(super) fn inputs(&self) -> Vec<String> {
        let profile = PROFILE.iter().map(|(name, value)| format!("{name}={value}"));
        let flags = self.flags.iter().map(ToString::to_string);
        [std::env::consts::ARCH, self.name, self.version]
            .iter()
            .map(ToString::to_string)
            .chain(profile)
            .chain(flags)
            .collect()
    }

    /// Builds in `staging`, outside the work tree and so free of its settings; gives the directory of the binary.
    pub(super) fn build(&self, staging: &Path, progress: &mut Progress) -> Result<PathBuf> {
        let mut install = cargo(staging);
        install
            .args([
                "install",
                "--locked",
                "--debug",
                "--force",
                "--version",
                self.version,
                self.name,
            ])
            .args(self.flags)
            .arg("--root")
            .arg(staging);
        show(&mut install, progress)?;
        let binaries = staging.join("bin");
        fs::metadata(binaries.join(self.name)).with_context(|| format!("find {}", self.name))?;
        Ok(binaries)
    }
}

impl Library {
    /// The version that the lock file pins.
    pub(super) fn version(&self) -> Result<&'static str> {
        locked_version(self.lock, self.package)
            .with_context(|| format!("{} is not in its lock file", self.package))
    }

    /// Everything that the shared object depends on, but the libraries of the machine that it is linked with.
    pub(super) fn inputs(&self) -> Vec<String> {
        let profile = PROFILE.iter().map(|(name, value)| format!("{name}={value}"));
        [
            std::env::consts::ARCH,
            self.package,
            self.manifest,
            self.lock,
            TOOL_CHAIN,
        ]
        .iter()
        .map(ToString::to_string)
        .chain(profile)
        .collect()
    }

    /// Builds in `staging`, and gives the directory of the shared object.
    pub(super) fn build(&self, staging: &Path, progress: &mut Progress) -> Result<PathBuf> {
        for (name, content) in [
            ("Cargo.toml", self.manifest),
            ("Cargo.lock", self.lock),
            ("lib.rs", self.source),
        ] {
            fs::write(staging.join(name), content).with_context(|| format!("write {name}"))?;
        }
        let mut build = cargo(staging);
        build.args(["build", "--locked", "--package", self.package]);
        show(&mut build, progress)?;
        let libraries = staging.join("lib");
        fs::create_dir_all(&libraries).context("create the directory of the shared object")?;
        let built = staging.join("target/debug").join(self.file);
        fs::copy(&built, libraries.join(self.file)).with_context(|| format!("find {}", self.file))?;
        Ok(libraries)
    }
}

/// Cargo in a directory outside the work tree, whatever the user's shell has set.
fn cargo(staging: &Path) -> Command {
    let mut command = Command::new("cargo");
    command
        .current_dir(staging)
        .env("CARGO_TARGET_DIR", staging.join("target"))
        .env("CARGO_TERM_PROGRESS_WHEN", "always")
        .env("CARGO_TERM_PROGRESS_WIDTH", "100")
        .env_remove("RUSTFLAGS")
        .envs(PROFILE);
    command
}

fn show(command: &mut Command, progress: &mut Progress) -> Result<()> {
    subprocess::stream(command, |line| match counted(line) {
        Some((done, total)) => progress.set(done, total),
        None => progress.note(line),
    })
}

/// The version of a package in a lock file.
fn locked_version<'a>(lock: &'a str, package: &str) -> Option<&'a str> {
    let mut lines = lock.lines();
    lines.find(|line| *line == format!("name = \"{package}\""))?;
    lines.next()?.strip_prefix("version = \"")?.strip_suffix('"')
}

/// Cargo's own display: `Building [====>   ] 12/345: names`.
fn counted(line: &str) -> Option<(u64, u64)> {
    let (_, rest) = line.split_once(']')?;
    let (done, rest) = rest.trim_start().split_once('/')?;
    let total: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Some((done.parse().ok()?, total.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_come_from_the_lock_file() {
        let lock = "[[package]]\nname = \"ab\"\nversion = \"9.0.0\"\n\n[[package]]\nname = \"a\"\nversion = \"1.2.3\"\n";
        assert_eq!(locked_version(lock, "a"), Some("1.2.3"));
        assert_eq!(locked_version(lock, "b"), None);
    }

    #[test]
    fn cargos_display_is_understood() {
        assert_eq!(
            counted("Building [=====>      ] 12/345: serde, syn"),
            Some((12, 345))
        );
        assert_eq!(counted("Building [=====>      ] 12/345"), Some((12, 345)));
        assert_eq!(counted("Compiling serde v1.0.0"), None);
        assert_eq!(counted("warning: [x] a/b"), None);
    }
}
