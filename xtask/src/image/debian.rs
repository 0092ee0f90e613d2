//! Debian packages, fetched and unpacked once per version into the cache. Nothing is installed on this machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use trustplane_cluster::cache::Lock;

use crate::run;

/// An unpacked package.
#[derive(Debug, Clone)]
pub struct Package {
    pub name: String,
    pub version: String,
    /// The directory that stands for `/`.
    pub root: PathBuf,
}

/// The package in the version that this machine's package lists offer, unpacked below `cache`.
pub fn fetch(name: &str, cache: &Path) -> Result<Package> {
    let version = candidate(name)?;
    let root = cache.join(format!("{name}_{version}"));
    let package = Package {
        name: name.to_owned(),
        version,
        root,
    };
    if package.root.is_dir() {
        return Ok(package);
    }
    let _lock = Lock::wait(
        &cache.join(format!("{name}.lock")),
        &format!("Debian package {name}"),
    )?;
    if !package.root.is_dir() {
        unpack(&package, cache).with_context(|| format!("fetch Debian package {name}"))?;
    }
    Ok(package)
}

fn candidate(name: &str) -> Result<String> {
    let shown = run::output(Command::new("apt-cache").args(["show", "--no-all-versions", name]))
        .with_context(|| format!("look up Debian package {name}; `apt-get update` may mend it"))?;
    version(&shown).with_context(|| format!("find a version of Debian package {name}"))
}

fn version(shown: &str) -> Option<String> {
    shown
        .lines()
        .find_map(|line| line.strip_prefix("Version: "))
        .map(str::to_owned)
}

fn unpack(package: &Package, cache: &Path) -> Result<()> {
    let scratch = cache.join(format!("{}.partial", package.name));
    if scratch.exists() {
        fs::remove_dir_all(&scratch)?;
    }
    fs::create_dir_all(&scratch)?;
    // The sandbox user of apt cannot write below a home directory; the signature of the lists vouches for the file.
    run::output(
        Command::new("apt-get")
            .args(["-q", "-o", "APT::Sandbox::User=root", "download"])
            .arg(format!("{}={}", package.name, package.version))
            .current_dir(&scratch),
    )?;
    let archives: Vec<PathBuf> = fs::read_dir(&scratch)?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    ensure!(
        archives.len() == 1,
        "apt-get download left {} files, not one",
        archives.len()
    );
    let root = scratch.join("root");
    run::run(
        Command::new("dpkg-deb")
            .arg("--extract")
            .arg(&archives[0])
            .arg(&root),
    )?;
    fs::rename(&root, &package.root)?;
    fs::remove_dir_all(&scratch)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_that_of_the_first_stanza() {
        let shown = "Package: libc6\nVersion: 2.36-9+deb12u10\nSHA256: x\n\nPackage: libc6\nVersion: 1\n";
        assert_eq!(version(shown).as_deref(), Some("2.36-9+deb12u10"));
        assert_eq!(version("N: nothing found\n"), None);
    }
}
