//! The built console of the hub, and a place in which its scripts run.
//!
//! The cache keeps the console by its sources alone, so that a change of a test builds nothing again. Tests and scripts come from
//! the work tree, and need the packages beside them: a [`WorkingCopy`] has both.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use super::{Tool, Toolchain, node, npm};

/// What the build of the console crate looks at: the folder whose files it embeds.
pub const DIST_VARIABLE: &str = "TRUSTPLANE_CONSOLE_DIST";

/// Linked from the cache instead of copied from the work tree.
const PACKAGES: &str = "node_modules";
const DIST: &str = "dist";

/// The folder in the place that it has in the work tree, and what its scripts read beside it: the description of the hub's API.
const PLACE: &str = "console/web";
const BESIDE: &str = "hub";

/// Names of the browser that the tests of the console drive, the first that is there counts.
const BROWSERS: [&str; 2] = ["chromium", "chromium-browser"];

/// The files of the console for browsers, if they are built.
pub fn dist(toolchain: &Toolchain) -> Result<Option<PathBuf>> {
    let built = toolchain.built(Tool::Console)?;
    Ok(built.map(|directory| directory.join(DIST)))
}

/// The console's folder of the work tree as it is now, with the locked packages and the built files. It goes with the value.
#[derive(Debug)]
pub struct WorkingCopy {
    directory: TempDir,
}

impl WorkingCopy {
    /// Builds the console if it has to be, and makes the copy.
    pub fn new(toolchain: &Toolchain) -> Result<Self> {
        node::check()?;
        let linked = [
            toolchain.ensure(Tool::ConsolePackages)?.join(PACKAGES),
            toolchain.ensure(Tool::Console)?.join(DIST),
        ];
        let directory = tempfile::tempdir().context("make a directory for the console's scripts")?;
        let copy = Self { directory };
        let source = npm::CONSOLE.source();
        let beside = source.join("../..").join(BESIDE);
        fs::create_dir_all(copy.path())
            .and_then(|()| fill(&source, &linked, &copy.path()))
            .and_then(|()| symlink(fs::canonicalize(beside)?, copy.directory.path().join(BESIDE)))
            .context("copy the console's scripts and tests")?;
        Ok(copy)
    }

    /// Where it is.
    pub fn path(&self) -> PathBuf {
        self.directory.path().join(PLACE)
    }

    /// `npm` with a script of `package.json`; everything that it says is on its standard error.
    pub fn npm(&self, script: &str) -> Command {
        let mut command = npm::npm(&self.path());
        command.args(["run", script]);
        command
    }

    /// Node with a script, such as `tests/browser.mjs`.
    pub fn node(&self, script: &str) -> Command {
        let mut command = Command::new("node");
        command
            .arg(script)
            .current_dir(self.path())
            .env_remove("NODE_ENV")
            .env_remove("NODE_OPTIONS");
        command
    }
}

/// The browser that the console's tests drive.
pub fn browser() -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = BROWSERS.iter().find_map(|name| {
        std::env::split_paths(&path)
            .map(|directory| directory.join(name))
            .find(|program| program.is_file())
    });
    let Some(found) = found else {
        bail!("no chromium on the search path: `cargo xtask doctor` says how to install it");
    };
    Ok(found)
}

/// Copies a folder, with these directories in the place of its own of the same names.
fn fill(source: &Path, linked: &[PathBuf], target: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(source)? {
        let entry = entry?;
        let name = entry.file_name();
        if !linked.iter().any(|path| path.file_name() == Some(&name)) {
            copy(&entry.path(), &target.join(name))?;
        }
    }
    for path in linked {
        symlink(path, target.join(path.file_name().unwrap_or_default()))?;
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    if !from.is_dir() {
        return fs::copy(from, to).map(drop);
    }
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        copy(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn working_copy_has_the_tests_of_today_and_the_packages_of_the_cache() {
        let place = tempfile::tempdir().unwrap();
        let folder = |name: &str| {
            let folder = place.path().join(name);
            fs::create_dir_all(&folder).unwrap();
            folder
        };
        let (source, target) = (folder("source"), folder("target"));
        let linked = [folder("packages/node_modules"), folder("built/dist")];
        for path in [
            "source/tests/pages",
            "source/node_modules",
            "packages/node_modules/a",
        ] {
            folder(path);
        }
        fs::write(source.join("tests/pages/fleet.mjs"), "new").unwrap();
        fs::write(source.join("node_modules/mine"), "").unwrap();
        fs::write(linked[1].join("index.html"), "page").unwrap();
        fill(&source, &linked, &target).unwrap();
        let read = |path: &str| fs::read_to_string(target.join(path)).unwrap();
        assert_eq!(read("tests/pages/fleet.mjs"), "new");
        assert_eq!(read("dist/index.html"), "page");
        assert!(target.join("node_modules/a").is_dir() && !target.join("node_modules/mine").exists());
    }
}
