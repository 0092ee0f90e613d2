//! Which shared objects a program needs, found in unpacked Debian packages as the dynamic loader would find them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::debian::Package;
use crate::run;

/// Where the loader looks when it has no cache, in its order.
fn search_path() -> [String; 4] {
    let triplet = format!("{}-linux-gnu", std::env::consts::ARCH);
    [
        format!("lib/{triplet}"),
        format!("usr/lib/{triplet}"),
        "lib".into(),
        "usr/lib".into(),
    ]
}

/// What a program links, by its path in the image.
#[derive(Debug, Default)]
pub struct Linked {
    /// Files: path in the image, and where the content is.
    pub files: BTreeMap<String, PathBuf>,
    /// Links: path in the image, and the path in the image that it means.
    pub links: BTreeMap<String, String>,
    /// The packages that something was taken from.
    pub packages: BTreeSet<String>,
}

/// Finds the loader and every shared object that the programs need, directly and through each other.
pub fn linked(programs: &[PathBuf], packages: &[Package]) -> Result<Linked> {
    let mut found = Linked::default();
    let mut seen = BTreeSet::new();
    let mut queue: VecDeque<PathBuf> = programs.iter().cloned().collect();
    while let Some(program) = queue.pop_front() {
        if let Some(loader) = interpreter(&program)? {
            let (package, real) = packages
                .iter()
                .find_map(|package| Some((package, resolve(&package.root, loader.trim_start_matches('/'))?)))
                .with_context(|| format!("find the loader {loader}"))?;
            let path = format!("/{}", real.strip_prefix(&package.root)?.display());
            if path != loader {
                found.links.insert(loader, path.clone());
            }
            found.files.insert(path, real);
            found.packages.insert(package.name.clone());
        }
        for name in needed(&program)? {
            if !seen.insert(name.clone()) {
                continue;
            }
            let Some((package, path, real)) = find(&name, packages) else {
                bail!(
                    "{} needs {name}, which none of the image's packages has",
                    program.display()
                );
            };
            found.packages.insert(package.name.clone());
            found.files.insert(format!("/{path}"), real.clone());
            queue.push_back(real);
        }
    }
    Ok(found)
}

/// Whether the file is a program or a shared object.
pub fn is_object(path: &Path) -> Result<bool> {
    let mut magic = [0; 4];
    let mut file = File::open(path).with_context(|| format!("open {}", path.display()))?;
    Ok(file.read(&mut magic)? == 4 && &magic == b"\x7fELF")
}

fn find<'a>(name: &str, packages: &'a [Package]) -> Option<(&'a Package, String, PathBuf)> {
    search_path().iter().find_map(|directory| {
        let path = format!("{directory}/{name}");
        packages
            .iter()
            .find_map(|package| Some((package, path.clone(), resolve(&package.root, &path)?)))
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

    /// This test program itself is linked as our binaries are.
    #[test]
    fn the_loader_and_the_libraries_of_a_program_are_found_or_named() {
        let machine = Package {
            name: "machine".into(),
            version: String::new(),
            root: PathBuf::from("/"),
        };
        let program = std::env::current_exe().unwrap();
        let found = linked(std::slice::from_ref(&program), &[machine]).unwrap();
        assert!(
            found.files.keys().any(|path| path.ends_with("/libc.so.6")),
            "{found:?}"
        );
        assert!(
            found.files.keys().any(|path| path.contains("ld-linux")),
            "{found:?}"
        );
        let error = linked(&[program], &[]).unwrap_err().to_string();
        assert!(error.contains("find the loader /lib"), "{error}");
    }
}
