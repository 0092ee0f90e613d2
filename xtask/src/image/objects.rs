//! Which shared objects a program needs, found in unpacked Debian packages as the dynamic loader would find them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::debian::{Lists, Package};
use crate::run;

/// Where Debian keeps what differs from one architecture to the next.
pub fn triplet() -> String {
    format!("{}-linux-gnu", std::env::consts::ARCH)
}

/// Where the loader looks when it has no cache, in its order.
fn search_path() -> [String; 4] {
    let triplet = triplet();
    [
        format!("lib/{triplet}"),
        format!("usr/lib/{triplet}"),
        "lib".into(),
        "usr/lib".into(),
    ]
}

/// A program or a shared object in an image.
#[derive(Debug, Clone)]
pub struct Object {
    /// Where its content is.
    pub source: PathBuf,
    /// The Debian package that it is from. Our own programs are from none.
    pub package: Option<String>,
}

/// Where packages come from, as far as this module asks.
pub trait Archive {
    /// The names of what a package depends on.
    fn depends(&self, package: &str) -> Vec<String>;
    /// The package of that name, unpacked.
    fn fetch(&self, name: &str) -> Result<Package>;
}

impl Archive for Lists {
    fn depends(&self, package: &str) -> Vec<String> {
        self.depends(package).map(str::to_owned).collect()
    }

    fn fetch(&self, name: &str) -> Result<Package> {
        self.fetch(name)
    }
}

/// What the programs of an image link, by path in the image.
#[derive(Debug, Default)]
pub struct Linked {
    /// Files: path in the image, and where the content is.
    pub files: BTreeMap<String, PathBuf>,
    /// Links: path in the image, and the path in the image that it means.
    pub links: BTreeMap<String, String>,
    /// The packages that something was taken from.
    pub packages: BTreeMap<String, Package>,
}

/// Finds the loader and every shared object that the objects need, directly and through each other: in the packages given, and
/// in what an object's own package depends on.
pub fn linked(objects: Vec<Object>, packages: &[Package], archive: &impl Archive) -> Result<Linked> {
    let mut known = packages.to_vec();
    let mut found = Linked::default();
    let mut seen = BTreeSet::new();
    let mut queue = VecDeque::from(objects);
    while let Some(object) = queue.pop_front() {
        if let Some(loader) = interpreter(&object.source)? {
            found.add_loader(loader, &known)?;
        }
        for name in needed(&object.source)? {
            if !seen.insert(name.clone()) {
                continue;
            }
            let (package, path, source) = find_anywhere(&name, &object, &mut known, archive)?;
            found.files.insert(format!("/{path}"), source.clone());
            queue.push_back(Object {
                source,
                package: Some(package.name.clone()),
            });
            found.packages.insert(package.name.clone(), package);
        }
    }
    Ok(found)
}

impl Linked {
    fn add_loader(&mut self, loader: String, packages: &[Package]) -> Result<()> {
        let (package, real) = packages
            .iter()
            .find_map(|package| Some((package, resolve(&package.root, loader.trim_start_matches('/'))?)))
            .with_context(|| format!("find the loader {loader}"))?;
        let path = format!("/{}", real.strip_prefix(&package.root)?.display());
        if path != loader {
            self.links.insert(loader, path.clone());
        }
        self.files.insert(path, real);
        self.packages.insert(package.name.clone(), package.clone());
        Ok(())
    }
}

type Found = (Package, String, PathBuf);

/// Looks in the known packages first. What Debian's tools found that an object links, its package names as a dependency.
fn find_anywhere(
    name: &str,
    user: &Object,
    known: &mut Vec<Package>,
    archive: &impl Archive,
) -> Result<Found> {
    if let Some(found) = find(name, known) {
        return Ok(found);
    }
    let depends = user.package.iter().flat_map(|package| archive.depends(package));
    for other in depends {
        if known.iter().any(|package| package.name == other) {
            continue;
        }
        known.push(archive.fetch(&other)?);
        if let Some(found) = find(name, &known[known.len() - 1..]) {
            return Ok(found);
        }
    }
    bail!(
        "{} needs {name}, which neither the image's packages have nor those that its own depends on",
        user.source.display()
    )
}

/// Whether the file is a program or a shared object.
pub fn is_object(path: &Path) -> Result<bool> {
    let mut magic = [0; 4];
    let mut file = File::open(path).with_context(|| format!("open {}", path.display()))?;
    Ok(file.read(&mut magic)? == 4 && &magic == b"\x7fELF")
}

fn find(name: &str, packages: &[Package]) -> Option<Found> {
    search_path().iter().find_map(|directory| {
        let path = format!("{directory}/{name}");
        packages
            .iter()
            .find_map(|package| Some((package.clone(), path.clone(), resolve(&package.root, &path)?)))
    })
}

/// Follows links as if `root` were `/`, to a file that exists.
fn resolve(root: &Path, path: &str) -> Option<PathBuf> {
    let mut at = root.join(path);
    // A chain that is longer than any package's is a loop.
    for _ in 0..8 {
        if !at.is_symlink() {
            return at.is_file().then_some(at);
        }
        let target = fs::read_link(&at).ok()?;
        at = match target.strip_prefix("/") {
            Ok(absolute) => root.join(absolute),
            Err(_) => fs::canonicalize(at.parent()?).ok()?.join(target),
        };
    }
    None
}

fn needed(object: &Path) -> Result<Vec<String>> {
    Ok(bracketed(&readelf("--dynamic", object)?, "(NEEDED)"))
}

fn interpreter(object: &Path) -> Result<Option<String>> {
    Ok(bracketed(
        &readelf("--program-headers", object)?,
        "[Requesting program interpreter",
    )
    .pop()
    .and_then(|text| text.split_once(": ").map(|(_, path)| path.to_owned())))
}

fn readelf(what: &str, object: &Path) -> Result<String> {
    run::output(
        Command::new("readelf")
            .env("LC_ALL", "C")
            .args([what, "--wide"])
            .arg(object),
    )
    .with_context(|| format!("read the headers of {}", object.display()))
}

/// What stands in brackets on every line that contains `mark`.
fn bracketed(text: &str, mark: &str) -> Vec<String> {
    let inner = |line: &str| Some(line.split_once('[')?.1.rsplit_once(']')?.0.to_owned());
    text.lines()
        .filter(|line| line.contains(mark))
        .filter_map(inner)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn reads_what_readelf_prints() {
        let dynamic =
            " 0x01 (NEEDED)   Shared library: [libc.so.6]\n 0x0e (SONAME)  Library soname: [x.so]\n";
        assert_eq!(bracketed(dynamic, "(NEEDED)"), ["libc.so.6"]);
        let headers = "      [Requesting program interpreter: /lib64/ld-linux-x86-64.so.2]\n";
        assert_eq!(
            bracketed(headers, "[Requesting program interpreter"),
            ["Requesting program interpreter: /lib64/ld-linux-x86-64.so.2"]
        );
    }

    #[test]
    fn a_link_of_a_package_never_leads_to_a_file_of_this_machine() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        fs::create_dir_all(root.join("lib")).unwrap();
        fs::write(root.join("lib/real.so.1.2"), "").unwrap();
        symlink("/lib/real.so.1.2", root.join("absolute")).unwrap();
        symlink("real.so.1.2", root.join("lib/relative")).unwrap();
        symlink("/etc/passwd", root.join("outside")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        let real = fs::canonicalize(root.join("lib/real.so.1.2")).unwrap();
        assert_eq!(
            resolve(root, "absolute").and_then(|p| fs::canonicalize(p).ok()),
            Some(real.clone())
        );
        assert_eq!(resolve(root, "lib/relative"), Some(real));
        assert_eq!(resolve(root, "outside"), None);
        assert_eq!(resolve(root, "loop"), None);
    }

    /// Packages as directories that a test fills, and who depends on whom.
    struct Shelf(BTreeMap<&'static str, (PathBuf, &'static [&'static str])>);

    impl Archive for Shelf {
        fn depends(&self, package: &str) -> Vec<String> {
            let names = self.0.get(package).map_or(&[][..], |(_, depends)| depends);
            names.iter().map(|name| (*name).to_owned()).collect()
        }

        fn fetch(&self, name: &str) -> Result<Package> {
            let (root, _) = self.0.get(name).context("no such package")?;
            Ok(Package {
                name: name.to_owned(),
                version: String::new(),
                root: root.clone(),
            })
        }
    }

    /// This test program itself is linked as our binaries are.
    fn ourselves() -> Vec<Object> {
        vec![Object {
            source: std::env::current_exe().unwrap(),
            package: None,
        }]
    }

    #[test]
    fn the_loader_and_the_libraries_of_a_program_are_found_or_named() {
        let shelf = Shelf([("machine", (PathBuf::from("/"), &[][..]))].into());
        let machine = shelf.fetch("machine").unwrap();
        let found = linked(ourselves(), &[machine], &shelf).unwrap();
        assert!(
            found.files.keys().any(|path| path.ends_with("/libc.so.6")),
            "{found:?}"
        );
        assert!(
            found.files.keys().any(|path| path.contains("ld-linux")),
            "{found:?}"
        );
        let error = linked(ourselves(), &[], &shelf).unwrap_err().to_string();
        assert!(error.contains("find the loader /lib"), "{error}");
    }

    #[test]
    fn a_library_is_looked_for_in_what_the_package_of_its_user_depends_on() {
        let directory = tempfile::tempdir().unwrap();
        let empty = directory.path().to_owned();
        let shelf = Shelf(
            [
                ("empty", (empty.clone(), &[][..])),
                ("user", (empty.clone(), &["empty", "machine"][..])),
                ("stranger", (empty, &["empty"][..])),
                ("machine", (PathBuf::from("/"), &[][..])),
            ]
            .into(),
        );
        let object = |package: &str| Object {
            // A shared object, because it names no loader: that is no matter of who depends on whom.
            source: find("libgcc_s.so.1", &[shelf.fetch("machine").unwrap()])
                .unwrap()
                .2,
            package: Some(package.to_owned()),
        };
        let found = linked(vec![object("user")], &[], &shelf).unwrap();
        assert_eq!(found.packages.keys().collect::<Vec<_>>(), ["machine"]);
        let error = linked(vec![object("stranger")], &[], &shelf).unwrap_err();
        assert!(error.to_string().contains("needs libc.so.6"), "{error}");
    }
}
