//! The files of an image: the shared objects of Debian, its CA certificates, one user, and our binary. No shell.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use trustplane_cluster::image_archive::{Entry, Layer};

use super::debian::{self, Package};
use super::objects;
use super::recipe::Recipe;

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
    let fetch = |names: &[&str]| {
        names
            .iter()
            .map(|name| debian::fetch(name, cache))
            .collect::<Result<Vec<_>>>()
    };
    let base = fetch(BASE)?;
    let adds = fetch(recipe.adds)?;
    let certificates = debian::fetch(CERTIFICATES, cache)?;

    let added: Vec<Added> = adds.iter().map(added).collect::<Result<Vec<_>>>()?.concat();
    let mut programs = vec![program.to_owned()];
    for file in &added {
        if let Added::File { source, .. } = file
            && objects::is_object(source)?
        {
            programs.push(source.clone());
        }
    }
    let all = [base, adds].concat();
    let linked = objects::linked(&programs, &all)?;

    let used: Vec<&Package> = all
        .iter()
        .filter(|package| {
            linked.packages.contains(&package.name) || recipe.adds.contains(&package.name.as_str())
        })
        .chain([&certificates])
        .collect();
    let mut entries = furniture(&certificates)?;
    entries.extend(
        used.iter()
            .map(|package| licence(package, cache))
            .collect::<Result<Vec<_>>>()?,
    );
    entries.extend(
        linked
            .files
            .into_iter()
            .map(|(path, source)| Entry::file(path, source, 0o755)),
    );
    entries.extend(
        linked
            .links
            .into_iter()
            .map(|(path, target)| Entry::symlink(path, target)),
    );

    let binary = Entry::file(entrypoint(recipe), program, 0o755);
    let mut layers = vec![Layer::new(entries)];
    if !added.is_empty() {
        layers.push(Layer::new(added.into_iter().map(Added::entry)));
    }
    let also = recipe.also_at.iter();
    let also = also.map(|path| Entry::symlink((*path).to_owned(), entrypoint(recipe)));
    layers.push(Layer::new(also.chain([binary])));
    let packages = used
        .iter()
        .map(|package| format!("{}={}", package.name, package.version))
        .collect();
    Ok(RootFs { layers, packages })
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
fn licence(package: &Package, cache: &Path) -> Result<Entry> {
    let directory = format!("usr/share/doc/{}", package.name);
    let mut root = package.root.clone();
    let mut holder = directory.clone();
    // Packages made from one source may keep one copy: the directory is then a link named after the package that has it.
    if let Ok(target) = fs::read_link(root.join(&directory)) {
        let other = target
            .file_name()
            .and_then(|name| name.to_str())
            .context("understand a link to a licence")?;
        root = debian::fetch(other, cache)?.root;
        holder = format!("usr/share/doc/{other}");
    }
    let source = root.join(holder).join("copyright");
    ensure!(source.is_file(), "Debian package {} has no licence", package.name);
    Ok(Entry::file(format!("/{directory}/copyright"), source, 0o644))
}

#[derive(Debug, Clone)]
enum Added {
    File {
        path: String,
        source: PathBuf,
        mode: u32,
    },
    Link {
        path: String,
        target: String,
    },
}

impl Added {
    fn entry(self) -> Entry {
        match self {
            Self::File { path, source, mode } => Entry::file(path, source, mode),
            Self::Link { path, target } => Entry::symlink(path, target),
        }
    }
}

/// Every file of a package that a program could open: documentation and the like stay out.
fn added(package: &Package) -> Result<Vec<Added>> {
    const LEFT_OUT: &[&str] = &[
        "usr/share/doc",
        "usr/share/man",
        "usr/share/locale",
        "usr/share/lintian",
        "usr/share/bug",
    ];
    let mut found = Vec::new();
    let mut directories = vec![package.root.clone()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).with_context(|| format!("list {}", directory.display()))? {
            let source = entry?.path();
            let inside = source.strip_prefix(&package.root)?;
            if LEFT_OUT.iter().any(|left_out| inside.starts_with(left_out)) {
                continue;
            }
            let path = format!("/{}", inside.display());
            if source.is_symlink() {
                found.push(Added::Link {
                    path,
                    target: fs::read_link(&source)?.display().to_string(),
                });
            } else if source.is_dir() {
                directories.push(source);
            } else {
                use std::os::unix::fs::PermissionsExt;
                let mode = fs::metadata(&source)?.permissions().mode() & 0o777;
                found.push(Added::File { path, source, mode });
            }
        }
    }
    Ok(found)
}
