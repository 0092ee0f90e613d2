//! The files of an image: the shared objects of Debian, its CA certificates, one user, what the recipe adds, and our binary. No
//! shell.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use trustplane_cluster::image_archive::{Entry, Layer};

use super::debian::{Lists, Package};
use super::objects::{self, Linked, Object};
use super::recipe::{Extras, Recipe};
use super::taken::{self, Parts};

/// What every image may take shared objects from.
const BASE: &[&str] = &["libc6", "libgcc-s1"];
const CERTIFICATES: &str = "ca-certificates";
const USER: &str = "nonroot";
/// The user of every image. The chart names the same.
pub const UID: u32 = 65532;

/// The layers of an image, and the Debian packages in them as `name=version`.
pub struct RootFs {
    pub layers: Vec<Layer>,
    pub packages: Vec<String>,
}

/// Puts the image's file system together round a compiled program.
pub fn assemble(recipe: &Recipe, program: &Path, cache: &Path) -> Result<RootFs> {
    let extras = &recipe.extras;
    let taken = extras.debian.iter().map(|taken| taken.package);
    let names = BASE.iter().copied().chain([CERTIFICATES]).chain(taken);
    let lists = Lists::look_up(&names.collect(), cache)?;
    let certificates = lists.fetch(CERTIFICATES)?;
    let mut packages = BASE
        .iter()
        .map(|name| lists.fetch(name))
        .collect::<Result<Vec<_>>>()?;
    let mut used = BTreeMap::from([(certificates.name.clone(), certificates.clone())]);
    let mut parts = Parts::default();
    for taken in extras.debian {
        let package = lists.fetch(taken.package)?;
        parts.take(taken, &package)?;
        used.insert(package.name.clone(), package.clone());
        packages.push(package);
    }

    let mut objects = parts.objects()?;
    objects.push(Object {
        source: program.to_owned(),
        package: None,
    });
    let linked = objects::linked(objects, &packages, &lists)?;
    used.extend(linked.packages.clone());

    let mut base = furniture(&certificates)?;
    for package in used.values() {
        base.push(licence(package, &lists)?);
    }
    base.extend(shared(linked, &parts)?);
    let mut added = parts.entries(extras.readers)?;
    added.extend(own(extras));
    let binary = Entry::file(entrypoint(recipe), program, 0o755);
    let also = recipe.also_at.iter();
    let also = also.map(|path| Entry::symlink((*path).to_owned(), entrypoint(recipe)));

    let mut layers = vec![Layer::new(base)];
    if !added.is_empty() {
        layers.push(Layer::new(added));
    }
    layers.push(Layer::new(also.chain([binary])));
    let packages = used
        .values()
        .map(|package| format!("{}={}", package.name, package.version))
        .collect();
    Ok(RootFs { layers, packages })
}

/// The shared objects, but for those that the recipe names itself.
fn shared(linked: Linked, parts: &Parts) -> Result<Vec<Entry>> {
    let links = linked.links.into_iter();
    let links = links.map(|(path, target)| Ok(Entry::symlink(path, target)));
    let files = linked.files.into_iter().filter(|(path, _)| !parts.has(path));
    links
        .chain(files.map(|(path, source)| taken::file(path, source)))
        .collect()
}

/// What the recipe adds that is in no package.
fn own(extras: &Extras) -> impl Iterator<Item = Entry> {
    let files = extras.files.iter();
    let files = files.map(|(path, content)| Entry::bytes(*path, *content, 0o644));
    let directories = extras.directories.iter();
    let owner = u64::from(UID);
    files.chain(directories.map(move |path| Entry::directory(*path, 0o700).owned_by(owner, owner)))
}

/// Where the program is in the image.
pub fn entrypoint(recipe: &Recipe) -> String {
    format!("/usr/bin/{}", recipe.binary)
}

/// What a program of ours expects of any system.
fn furniture(certificates: &Package) -> Result<Vec<Entry>> {
    Ok(vec![
        Entry::bytes(
            "/etc/passwd",
            format!("{USER}:x:{UID}:{UID}::/:/nonexistent\n"),
            0o644,
        ),
        Entry::bytes("/etc/group", format!("{USER}:x:{UID}:\n"), 0o644),
        // Without it glibc asks DNS before /etc/hosts.
        Entry::bytes("/etc/nsswitch.conf", "hosts: files dns\n", 0o644),
        Entry::bytes("/etc/ssl/certs/ca-certificates.crt", bundle(certificates)?, 0o644),
        Entry::directory("/tmp", 0o1777),
    ])
}

/// All certificates of the package as one file, as `update-ca-certificates` writes it.
fn bundle(package: &Package) -> Result<Vec<u8>> {
    let directory = package.root.join("usr/share/ca-certificates/mozilla");
    let mut files = fs::read_dir(&directory)
        .and_then(|entries| {
            entries
                .map(|entry| Ok(entry?.path()))
                .collect::<std::io::Result<Vec<_>>>()
        })
        .with_context(|| format!("list {}", directory.display()))?;
    files.sort();
    let mut bundle = Vec::new();
    for file in files {
        bundle.extend(fs::read(&file).with_context(|| format!("read {}", file.display()))?);
        if !bundle.ends_with(b"\n") {
            bundle.push(b'\n');
        }
    }
    ensure!(
        !bundle.is_empty(),
        "Debian package {} holds no certificate",
        package.name
    );
    Ok(bundle)
}

/// Who passes on a package's files passes on its licence.
fn licence(package: &Package, lists: &Lists) -> Result<Entry> {
    let directory = format!("usr/share/doc/{}", package.name);
    let mut root = package.root.clone();
    let mut holder = directory.clone();
    // Packages made from one source may keep one copy: the directory is then a link named after the package that has it.
    if let Ok(target) = fs::read_link(root.join(&directory)) {
        let other = target
            .file_name()
            .and_then(|name| name.to_str())
            .context("understand a link to a licence")?;
        root = lists.fetch(other)?.root;
        holder = format!("usr/share/doc/{other}");
    }
    let source = root.join(holder).join("copyright");
    ensure!(source.is_file(), "Debian package {} has no licence", package.name);
    Ok(Entry::file(format!("/{directory}/copyright"), source, 0o644))
}

#[cfg(test)]
mod tests;
