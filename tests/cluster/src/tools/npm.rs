//! Programs that npm builds from a folder of the work tree: a lock file pins every package by version and digest.

mod lock;

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

use self::lock::LockFile;
use super::node;
use crate::progress::Progress;
use crate::subprocess;

/// What npm and the build make, what only tests read, and the page that stands in for a console: none of it decides what is built.
const APART: [&str; 5] = ["node_modules", "dist", "tests", "dev", "stub"];
/// Marks the unit tests that lie beside the sources.
const UNIT_TEST: &str = ".test.";
/// What says which packages there are.
const PINS: [&str; 3] = ["package.json", LOCK, ".npmrc"];
const LOCK: &str = "package-lock.json";

/// The packages that a folder of the work tree pins.
pub(super) struct Packages {
    folder: Folder,
}

/// A folder with a script `build` that fills `dist`, by packages that are installed already.
pub(super) struct Project {
    folder: Folder,
}

/// A folder below the root of the workspace.
#[derive(Clone, Copy)]
pub(super) struct Folder(&'static str);

const WEB: Folder = Folder("crates/inventory/console/web");

pub(super) const CONSOLE_PACKAGES: Packages = Packages { folder: WEB };

pub(super) const CONSOLE: Project = Project { folder: WEB };

impl Folder {
    /// Where it is.
    fn path(self) -> PathBuf {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        root.join(self.0)
    }
}

impl Packages {
    /// They are for a program of ours, so they have our version.
    pub(super) fn version(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }

    /// Everything that decides which packages are installed.
    pub(super) fn inputs(&self) -> Result<Vec<String>> {
        inputs(&self.folder.path(), PINS.iter().map(PathBuf::from))
    }

    /// Installs in `staging`, and gives the directory with `node_modules`.
    pub(super) fn build(&self, staging: &Path, progress: &mut Progress) -> Result<PathBuf> {
        node::check()?;
        let place = empty(staging)?;
        for file in PINS {
            copy(&self.folder.path().join(file), &place.join(file))?;
        }
        let lock = LockFile::read(&place.join(LOCK))?;
        progress.set(0, u64::try_from(lock.len())?);
        let mut install = npm(&place);
        // `npm ci` asks for the packages of every platform in the lock file, and registries have not all of them. So npm installs what it
        // finds by the lock file, and what it has installed is compared. No code of a package runs while it is installed.
        install
            .args(["install", "--no-save", "--ignore-scripts", "--include=dev"])
            .args(["--no-audit", "--no-fund", "--loglevel=http"]);
        subprocess::stream(&mut install, |line| {
            // npm tells of each package that it fetches.
            if line.contains(".tgz") {
                progress.advance();
            }
            progress.note(line);
        })?;
        LockFile::read(&place.join("node_modules/.package-lock.json"))?.is_within(&lock)?;
        sync(&place)?;
        Ok(place)
    }
}

impl Project {
    /// Where the sources are.
    pub(super) fn source(&self) -> PathBuf {
        self.folder.path()
    }

    /// It is ours, so it has our version.
    pub(super) fn version(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }

    /// Everything that the result depends on, but Node.
    pub(super) fn inputs(&self) -> Result<Vec<String>> {
        let source = self.source();
        inputs(&source, sources(&source)?.into_iter())
    }

    /// Builds in `staging` with the packages of a directory, and gives the directory with `dist`.
    pub(super) fn build(&self, staging: &Path, packages: &Path, progress: &mut Progress) -> Result<PathBuf> {
        node::check()?;
        let place = empty(staging)?;
        let source = self.source();
        for file in sources(&source)? {
            copy(&source.join(&file), &place.join(&file))?;
        }
        symlink(packages.join("node_modules"), place.join("node_modules")).context("link the packages")?;
        subprocess::stream(npm(&place).args(["run", "build"]), |line| progress.note(line))?;
        fs::metadata(place.join("dist/index.html")).context("find what the build made")?;
        let built = staging.join("built");
        fs::create_dir_all(&built)
            .and_then(|()| fs::rename(place.join("dist"), built.join("dist")))
            .context("put aside what the build made")?;
        sync(&built)?;
        Ok(built)
    }
}

/// Writes a directory to the disk. It may have thousands of small files: all at once is faster than one by one.
fn sync(directory: &Path) -> Result<()> {
    File::open(directory)
        .and_then(|directory| Ok(rustix::fs::syncfs(directory)?))
        .with_context(|| format!("write {} to the disk", directory.display()))
}

/// An empty directory for a build. Files of an interrupted build may be others; what was downloaded is in npm's own cache.
fn empty(staging: &Path) -> Result<PathBuf> {
    let attempt = || -> std::io::Result<PathBuf> {
        fs::remove_dir_all(staging)?;
        let place = staging.join("project");
        fs::create_dir_all(&place)?;
        Ok(place)
    };
    attempt().with_context(|| format!("empty {}", staging.display()))
}

/// `npm` in a directory, whatever the user's shell has set. Which registry packages come from may be the user's choice.
pub(super) fn npm(directory: &Path) -> Command {
    // npm tells of failures on both of its outputs.
    let mut command = Command::new("sh");
    command
        .args(["-c", r#"exec npm "$@" >&2"#, "sh"])
        .current_dir(directory)
        .env_remove("NODE_ENV")
        .env_remove("NODE_OPTIONS")
        .env("npm_config_update_notifier", "false");
    command
}

/// The names and digests of files.
fn inputs(folder: &Path, files: impl Iterator<Item = PathBuf>) -> Result<Vec<String>> {
    let mut inputs = vec![std::env::consts::ARCH.to_owned()];
    for file in files {
        let path = folder.join(&file);
        let content = fs::read(&path).with_context(|| format!("read {}", path.display()))?;
        let digest: String = Sha256::digest(content)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        inputs.push(format!("{} {digest}", file.display()));
    }
    Ok(inputs)
}

/// The files that decide what is built, relative to the folder, in order.
fn sources(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    walk(folder, Path::new(""), &mut files)
        .with_context(|| format!("list the sources in {}", folder.display()))?;
    files.retain(|file| !file.to_string_lossy().contains(UNIT_TEST));
    files.sort();
    Ok(files)
}

fn walk(folder: &Path, below: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder.join(below))? {
        let entry = entry?;
        let path = below.join(entry.file_name());
        if APART.iter().any(|apart| path == Path::new(apart)) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            walk(folder, &path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let attempt = || -> std::io::Result<()> {
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::copy(from, to).map(drop)
    };
    attempt().with_context(|| format!("copy {}", from.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, file: &str, content: &str) {
        let path = folder.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    #[test]
    fn inputs_change_with_sources_and_not_with_tests_or_results() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path();
        write(folder, "package.json", "{}");
        write(folder, "src/main.ts", "one");
        let inputs = || inputs(folder, sources(folder).unwrap().into_iter()).unwrap();
        let before = inputs();
        assert_eq!(before.len(), 3);
        write(folder, "dist/index.html", "built");
        write(folder, "node_modules/a/index.js", "fetched");
        write(folder, "tests/browser.mjs", "a test");
        write(folder, "dev/fixture.mjs", "for tests");
        write(folder, "src/main.test.ts", "a test");
        assert_eq!(inputs(), before);
        write(folder, "src/tests/view.ts", "a source below the top");
        assert_eq!(inputs().len(), 4);
        write(folder, "src/main.ts", "two");
        assert_ne!(inputs()[2], before[2]);
    }

    #[test]
    fn packages_of_the_console_are_pinned_by_digest_and_run_nothing_when_installed() {
        let text = fs::read_to_string(CONSOLE.source().join(LOCK)).unwrap();
        let lock: serde_json::Value = serde_json::from_str(&text).unwrap();
        for (name, package) in lock["packages"].as_object().unwrap() {
            let pinned = package["integrity"]
                .as_str()
                .is_some_and(|digest| digest.starts_with("sha512-"));
            assert!(name.is_empty() || pinned, "{name}");
            assert_eq!(package.get("hasInstallScript"), None, "{name}");
            // Which registry it comes from is the user's choice.
            assert_eq!(package.get("resolved"), None, "{name}");
        }
    }
}
