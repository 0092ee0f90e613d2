//! Where it happens: a folder with a token of its own.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::cluster;

/// Debian's SoftHSM.
pub const SOFTHSM: &str = "/usr/lib/softhsm/libsofthsm2.so";
/// The label of the token.
pub const LABEL: &str = "bench";
/// Its user PIN.
pub const PIN: &str = "648219";
/// The program that is measured.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_trustplane-agent");

const ROLE: &str = "TRUSTPLANE_BENCH_ROLE";
const FOLDER: &str = "TRUSTPLANE_BENCH_STAGE";

/// What this program was started for.
pub enum Role {
    /// To measure everything.
    Measure,
    /// To count the calls of the raw loop.
    Count,
}

/// A folder with a token.
pub struct Stage {
    folder: PathBuf,
    _kept: Option<TempDir>,
}

impl Stage {
    /// A new one, without a token yet.
    pub fn new() -> Self {
        assert!(
            Path::new(SOFTHSM).exists(),
            "{SOFTHSM} is not there: apt-get install softhsm2, or `cargo xtask doctor`"
        );
        // SoftHSM opens each object's file with each call. In memory the token is as quick as one can be, which leaves what
        // the agent adds nowhere to hide.
        let kept = tempfile::tempdir_in("/dev/shm")
            .or_else(|_| tempfile::tempdir())
            .unwrap();
        let stage = Self {
            folder: kept.path().to_owned(),
            _kept: Some(kept),
        };
        let tokens = stage.file("tokens");
        fs::create_dir(&tokens).unwrap();
        let tokens = tokens.display();
        let configuration =
            format!("directories.tokendir = {tokens}\nobjectstore.backend = file\nlog.level = ERROR\n");
        fs::write(stage.file("softhsm2.conf"), configuration).unwrap();
        fs::write(stage.file("pin"), PIN).unwrap();
        fs::write(stage.file("so-pin"), "12345678").unwrap();
        stage
    }

    /// The stage that this process was started on, and what for.
    pub fn inherited() -> Option<(Self, Role)> {
        let role = match env::var(ROLE).ok()?.as_str() {
            "count" => Role::Count,
            _ => Role::Measure,
        };
        let stage = Self {
            folder: PathBuf::from(env::var_os(FOLDER)?),
            _kept: None,
        };
        Some((stage, role))
    }

    /// A file of it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// This very program, as a process that finds the token.
    pub fn program(&self, role: Role) -> Command {
        let mut command = Command::new(env::current_exe().unwrap());
        let role = match role {
            Role::Measure => "measure",
            Role::Count => "count",
        };
        command
            .args(env::args_os().skip(1))
            .env(ROLE, role)
            .env(FOLDER, &self.folder)
            // Tokens of others that are made on the way are as quick as this one.
            .env("TMPDIR", &self.folder)
            .env("SOFTHSM2_CONF", self.file("softhsm2.conf"));
        if let Some(cluster) = cluster::name() {
            command.env(cluster::VARIABLE, cluster);
        }
        command
    }

    /// Makes the token, as the program that is measured does it.
    pub fn make_token(&self) {
        let output = Command::new(PROGRAM)
            .args(["test-token", "init", "--module", SOFTHSM, "--label", LABEL])
            .args([
                flag("pin-file", &self.file("pin")),
                flag("so-pin-file", &self.file("so-pin")),
            ])
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}

/// A flag that names a file.
pub fn flag(name: &str, file: &Path) -> String {
    format!("--{name}={}", file.display())
}
