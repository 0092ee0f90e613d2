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
        let mut install = Command::new("cargo");
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
            .arg(staging)
            .current_dir(staging)
            .env("CARGO_TARGET_DIR", staging.join("target"))
            .env("CARGO_TERM_PROGRESS_WHEN", "always")
            .env("CARGO_TERM_PROGRESS_WIDTH", "100")
            .env_remove("RUSTFLAGS")
            .envs(PROFILE);
        subprocess::stream(&mut install, |line| match counted(line) {
            Some((done, total)) => progress.set(done, total),
            None => progress.note(line),
        })?;
        let binaries = staging.join("bin");
        fs::metadata(binaries.join(self.name)).with_context(|| format!("find {}", self.name))?;
        Ok(binaries)
    }
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
