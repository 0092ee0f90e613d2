//! Debian packages, fetched and unpacked once per version into the cache. Nothing is installed on this machine.

use std::collections::{BTreeMap, BTreeSet};
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

/// What this machine's package lists say of some packages, and of all that those depend on.
#[derive(Debug)]
pub struct Lists {
    stanzas: BTreeMap<String, Stanza>,
    cache: PathBuf,
}

#[derive(Debug, PartialEq, Eq)]
struct Stanza {
    version: String,
    depends: Vec<String>,
}

impl Lists {
    /// Looks the packages up. They will be unpacked below `cache`.
    pub fn look_up(names: &BTreeSet<&str>, cache: &Path) -> Result<Self> {
        let ask = |how: &[&str], names: &mut dyn Iterator<Item = &str>| {
            run::output(Command::new("apt-cache").args(how).args(names))
                .context("look up Debian packages; `apt-get update` may mend it")
        };
        // Two questions in all: apt reads its lists anew for each.
        let tree = ask(
            &["depends", "--recurse", "--important"],
            &mut names.iter().copied(),
        )?;
        let shown = ask(&["show", "--no-all-versions"], &mut packages(&tree))?;
        let stanzas = parse(&shown).into_iter().collect();
        Ok(Self {
            stanzas,
            cache: cache.to_owned(),
        })
    }

    /// The package in the version that the lists offer, unpacked.
    pub fn fetch(&self, name: &str) -> Result<Package> {
        let stanza = self
            .stanzas
            .get(name)
            .with_context(|| format!("find Debian package {name}; `apt-get update` may mend it"))?;
        let package = Package {
            name: name.to_owned(),
            version: stanza.version.clone(),
            root: self.cache.join(format!("{name}_{}", stanza.version)),
        };
        if package.root.is_dir() {
            return Ok(package);
        }
        let _lock = Lock::wait(
            &self.cache.join(format!("{name}.lock")),
            &format!("Debian package {name}"),
        )?;
        if !package.root.is_dir() {
            unpack(&package, &self.cache).with_context(|| format!("fetch Debian package {name}"))?;
        }
        Ok(package)
    }

    /// What a package depends on itself, as far as the lists have it.
    pub fn depends(&self, name: &str) -> impl Iterator<Item = &str> {
        let stanza = self.stanzas.get(name);
        let names = stanza.into_iter().flat_map(|stanza| &stanza.depends);
        names
            .map(String::as_str)
            .filter(|name| self.stanzas.contains_key(*name))
    }
}

/// The packages in a tree that `apt-cache depends` printed: each stands at the start of a line once, above what it depends on.
/// Names that others provide are in angle brackets.
fn packages(tree: &str) -> impl Iterator<Item = &str> {
    tree.lines().filter(|line| !line.starts_with([' ', '<']))
}

/// The packages that `apt-cache show` printed.
fn parse(shown: &str) -> Vec<(String, Stanza)> {
    let stanza = |text: &str| {
        let field = |name: &str| {
            let mut lines = text.lines();
            lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
        };
        let depends = ["Pre-Depends", "Depends"].into_iter().filter_map(field);
        let stanza = Stanza {
            version: field("Version")?.to_owned(),
            depends: depends.flat_map(names).collect(),
        };
        Some((field("Package")?.to_owned(), stanza))
    };
    shown.split("\n\n").filter_map(stanza).collect()
}

/// The names in a list of dependencies, which may hold versions, architectures and alternatives.
fn names(depends: &str) -> impl Iterator<Item = String> {
    depends
        .split([',', '|'])
        .filter_map(|word| word.split_whitespace().next())
        .map(|word| word.split(':').next().unwrap_or(word).to_owned())
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
    fn versions_and_dependencies_are_read_from_stanzas() {
        let shown = concat!(
            "Package: libc6\nVersion: 2.36-9+deb12u10\nDepends: libgcc-s1\nSHA256: x\n\n",
            "N: a remark\n\n",
            "Package: pcscd\nVersion: 1.9.9-2\nPre-Depends: init-system-helpers (>= 1.54~)\n",
            "Depends: libccid | pcsc-ifd-handler, libc6 (>= 2.34), perl:any\nDescription: Depends: nothing\n",
        );
        let stanza = |version: &str, depends: &[&str]| Stanza {
            version: version.to_owned(),
            depends: depends.iter().map(|name| (*name).to_owned()).collect(),
        };
        let pcscd = [
            "init-system-helpers",
            "libccid",
            "pcsc-ifd-handler",
            "libc6",
            "perl",
        ];
        assert_eq!(
            parse(shown),
            [
                ("libc6".to_owned(), stanza("2.36-9+deb12u10", &["libgcc-s1"])),
                ("pcscd".to_owned(), stanza("1.9.9-2", &pcscd)),
            ]
        );
        assert_eq!(parse("N: nothing found\n"), []);
    }

    #[test]
    fn packages_are_read_from_a_tree_of_dependencies() {
        let tree = "pcscd\n |Depends: libccid\n  Depends: <pcsc-ifd-handler>\n    libccid\nlibccid\n<pcsc-ifd-handler>\n";
        assert_eq!(packages(tree).collect::<Vec<_>>(), ["pcscd", "libccid"]);
    }

    #[test]
    fn a_package_that_no_list_has_is_named() {
        let lists = Lists {
            stanzas: BTreeMap::new(),
            cache: PathBuf::new(),
        };
        let error = lists.fetch("absent").unwrap_err().to_string();
        assert!(error.contains("Debian package absent"), "{error}");
        assert_eq!(lists.depends("absent").count(), 0);
    }
}
