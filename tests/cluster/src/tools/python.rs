//! Tools from PyPI: a requirements file pins every package by version and hash, a virtual environment holds them.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::progress::Progress;
use crate::subprocess;

/// The distribution's own, for which its package `python3-venv` is. One that comes first on somebody's search path may
/// lack the module, or be gone tomorrow.
const INTERPRETER: &str = "/usr/bin/python3";

/// A requirements file that exists for the programs in it.
pub(super) struct Requirements {
    /// Whose version is the version of the tool.
    package: &'static str,
    text: &'static str,
    /// What we name the programs, and the Python modules that they run.
    programs: &'static [(&'static str, &'static str)],
}

pub(super) const MOTO: Requirements = Requirements {
    package: "moto",
    text: include_str!("../../../../xtask/tools/moto/requirements.txt"),
    programs: &[("moto_server", "moto.server")],
};

impl Requirements {
    /// The version that is pinned.
    pub(super) fn version(&self) -> Result<&'static str> {
        pins(self.text)
            .find(|(name, _)| *name == self.package)
            .map(|(_, version)| version)
            .with_context(|| format!("{} is not in its requirements", self.package))
    }

    /// Everything that the programs depend on. Packages are installed for one version of Python, and its binary bears
    /// that in its name.
    pub(super) fn inputs(&self) -> Vec<String> {
        let interpreter = interpreter().unwrap_or_else(|_| INTERPRETER.into());
        let mut inputs = vec![
            std::env::consts::ARCH.to_owned(),
            self.text.to_owned(),
            interpreter.display().to_string(),
        ];
        let programs = self.programs.iter();
        inputs.extend(programs.map(|(name, module)| format!("{name} {module}")));
        inputs
    }

    /// Makes the environment in `staging`, so that it can be moved, and gives its directory with the programs.
    pub(super) fn build(&self, staging: &Path, progress: &mut Progress) -> Result<PathBuf> {
        let environment = staging.join("environment");
        progress.note("making a virtual environment");
        // Half an environment cannot be told from a whole one. What was downloaded is in pip's own cache.
        let mut make = python(&interpreter()?);
        make.args(["-m", "venv", "--clear"]).arg(&environment);
        subprocess::stream(&mut make, |line| progress.note(line))?;
        self.install(staging, &environment, progress)?;
        remove_scripts(&environment.join("bin"))?;
        for (name, module) in self.programs {
            write_program(&environment.join(name), module)?;
        }
        // Thousands of small files: all at once is faster than one by one.
        File::open(&environment)
            .and_then(|directory| Ok(rustix::fs::syncfs(directory)?))
            .context("write the environment to the disk")?;
        Ok(environment)
    }

    fn install(&self, staging: &Path, environment: &Path, progress: &mut Progress) -> Result<()> {
        let list = staging.join("requirements.txt");
        fs::write(&list, self.text).context("write the requirements")?;
        progress.set(0, u64::try_from(pins(self.text).count())?);
        let mut pip = python(&environment.join("bin/python3"));
        pip.args(["-m", "pip", "install"])
            .args(["--no-input", "--disable-pip-version-check"])
            // Nothing but what is listed, nothing that differs from it, and no code of a package is run.
            .args(["--no-deps", "--require-hashes", "--only-binary=:all:"])
            .arg("--requirement")
            .arg(&list);
        subprocess::stream(&mut pip, |line| {
            // pip names each package when it begins with it, also one that this machine does not need.
            if line.starts_with("Collecting ") || line.starts_with("Ignoring ") {
                progress.advance();
            }
            progress.note(line);
        })
    }
}

/// The interpreter under the name that bears its version: the other one means a new Python after an upgrade.
fn interpreter() -> Result<PathBuf> {
    fs::canonicalize(INTERPRETER)
        .with_context(|| format!("find {INTERPRETER}, which comes with the Debian package python3-venv"))
}

/// The settings of the user's shell must not change where packages go and are looked for; which index they come from may
/// be the user's choice.
fn python(interpreter: &Path) -> Command {
    // Python tells of progress and of most failures on its standard output, and of the others on its standard error.
    let mut command = Command::new("sh");
    command
        .args(["-c", r#"exec "$@" >&2"#, "sh"])
        .arg(interpreter)
        .env("PYTHONUNBUFFERED", "1");
    for variable in [
        "PYTHONHOME",
        "PYTHONPATH",
        "PIP_PREFIX",
        "PIP_ROOT",
        "PIP_TARGET",
        "PIP_USER",
    ] {
        command.env_remove(variable);
    }
    command
}

/// Names and versions. Hashes and comments are indented or marked.
fn pins(requirements: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    requirements
        .lines()
        .filter(|line| !line.starts_with([' ', '#']))
        .filter_map(|line| {
            let (name, rest) = line.split_once("==")?;
            Some((name, rest.split(' ').next()?))
        })
}

/// The scripts that pip makes name the directory in which they were made. Python itself looks around where it is.
fn remove_scripts(bin: &Path) -> Result<()> {
    let attempt = || -> std::io::Result<()> {
        for entry in fs::read_dir(bin)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with("python") {
                continue;
            }
            if entry.file_type()?.is_dir() {
                fs::remove_dir_all(entry.path())?;
            } else {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    };
    attempt().with_context(|| format!("remove the scripts in {}", bin.display()))
}

/// A program that runs a module with the interpreter beside it, and nothing of the user's.
fn write_program(path: &Path, module: &str) -> Result<()> {
    let text = format!("#!/bin/sh\nexec \"${{0%/*}}/bin/python3\" -I -m {module} \"$@\"\n");
    fs::write(path, text)
        .and_then(|()| fs::set_permissions(path, Permissions::from_mode(0o755)))
        .with_context(|| format!("write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_package_is_pinned_and_has_hashes() {
        let requirements: Vec<&str> = MOTO.text.split("\n    # via").collect();
        let named: Vec<&str> = requirements
            .iter()
            .filter(|entry| entry.contains("=="))
            .copied()
            .collect();
        assert_eq!(named.len(), pins(MOTO.text).count());
        for entry in named {
            assert!(entry.contains(" \\\n    --hash=sha256:"), "{entry}");
        }
        assert!(!MOTO.text.contains("://"), "it names no place");
    }

    #[test]
    fn pins_are_read_with_and_without_conditions() {
        let text = "# made by x==1\na==1.2 \\\n    --hash=sha256:0\nb-c==3 ; python_version < '4' \\\n    # via a==9\n";
        assert_eq!(pins(text).collect::<Vec<_>>(), [("a", "1.2"), ("b-c", "3")]);
    }

    #[test]
    fn programs_run_where_they_are_moved_to() {
        let place = tempfile::tempdir().unwrap();
        let (made, moved) = (place.path().join("made"), place.path().join("moved"));
        fs::create_dir_all(made.join("bin/__pycache__")).unwrap();
        for name in ["pip", "python3"] {
            fs::write(made.join("bin").join(name), "#!/bin/sh\necho \"$0\" \"$@\"\n").unwrap();
            fs::set_permissions(made.join("bin").join(name), Permissions::from_mode(0o755)).unwrap();
        }
        remove_scripts(&made.join("bin")).unwrap();
        write_program(&made.join("server"), "some.server").unwrap();
        fs::rename(&made, &moved).unwrap();
        let left: Vec<_> = fs::read_dir(moved.join("bin")).unwrap().collect();
        assert_eq!(left.len(), 1);
        let output = Command::new(moved.join("server")).arg("--port").output().unwrap();
        let expected = format!("{}/bin/python3 -I -m some.server --port\n", moved.display());
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
    }
}
