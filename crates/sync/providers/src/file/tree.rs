//! Reads beneath a directory without leaving the way that a path names.
//!
//! Each part of a path is opened by itself, and a symbolic link is not followed. The exception is how kubelet mounts a Secret or
//! a ConfigMap, so that all its files change at once:
//!
//! ```text
//! shop/password -> ..data/password
//! shop/..data   -> ..2026_01_31
//! shop/..2026_01_31/password
//! ```
//!
//! A link `NAME -> ..data/NAME` leads into the directory that `..data` names, and nowhere else: it stays what the path says.
//!
//! **Guarantees**: what one read gives comes from one such directory. If kubelet changes `..data` meanwhile, or a file vanishes
//! that was there a moment ago, everything is read again; after [`TRIES`] the answer is that it is unavailable, never that it
//! does not exist.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;

use rustix::fs::{Dir, FileType, Mode, OFlags, ResolveFlags, fstat, openat2, readlinkat};
use rustix::io::Errno;
use trustplane_sync_core::data::{Payload, Value};
use trustplane_sync_core::fetch::FetchError;

use super::DIRECTORY;
use crate::outage::unavailable;

/// No Secret could hold more.
const MOST_BYTES: u64 = 1024 * 1024;
/// The most files of one directory.
const MOST_FILES: usize = 1024;
/// How often a read begins again because something changed under it.
const TRIES: usize = 16;
/// The link that kubelet moves from one version to the next.
const DATA: &str = "..data";
/// To read, without waiting for the other end of a pipe.
const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);
/// Along the names alone.
const NAMES: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_SYMLINKS);

/// Why one try gave nothing.
#[derive(Debug, PartialEq, Eq)]
enum Fault {
    /// It was there a moment ago: read again.
    Vanished,
    /// What to tell.
    Told(FetchError),
}

impl From<FetchError> for Fault {
    fn from(error: FetchError) -> Self {
        Self::Told(error)
    }
}

/// What a path names.
pub(super) fn read(root: &File, path: &str) -> Result<Payload, FetchError> {
    for _ in 0..TRIES {
        let mut walk = Walk::default();
        match walk.read(root, path) {
            Err(Fault::Vanished) => {}
            Ok(payload) if walk.holds() => return Ok(payload),
            Err(Fault::Told(error)) if walk.holds() => return Err(error),
            Ok(_) | Err(Fault::Told(_)) => {}
        }
    }
    Err(unavailable("the files change faster than they can be read"))
}

/// Whether a path names a directory.
pub(super) fn is_directory(root: &File, path: &str) -> bool {
    Walk::default().open(root, path, DIRECTORY).is_ok()
}

/// One try: the directories that it has come through, and what `..data` was in them.
#[derive(Default)]
struct Walk(Vec<Pin>);

/// The version of a directory that kubelet keeps.
struct Pin {
    directory: File,
    /// What `..data` led to; nothing if the directory is not kubelet's.
    version: Option<String>,
}

impl Pin {
    fn of(directory: &File) -> Result<Self, FetchError> {
        let wrong = |_| unavailable("the directory cannot be opened");
        Ok(Self {
            version: link(directory, DATA).filter(|version| is_version(version)),
            directory: directory.try_clone().map_err(wrong)?,
        })
    }

    fn holds(&self) -> bool {
        link(&self.directory, DATA).filter(|version| is_version(version)) == self.version
    }
}

impl Walk {
    /// Whether everything that was read is still of the version that it was read from. Kubelet moves `..data` before it takes a
    /// version away, so that nothing of it was missing.
    fn holds(&self) -> bool {
        self.0.iter().all(Pin::holds)
    }

    fn read(&mut self, root: &File, path: &str) -> Result<Payload, Fault> {
        let file = self.open(root, path, READ)?;
        match kind(&file)? {
            FileType::Directory => Ok(Payload::Map(self.read_directory(&file)?)),
            FileType::RegularFile => Ok(Payload::Bytes(read_file(file)?)),
            _ => Err(FetchError::NotFound.into()),
        }
    }

    /// Opens what a path names, part by part.
    fn open(&mut self, root: &File, path: &str, flags: OFlags) -> Result<File, Fault> {
        let parts: Vec<&str> = path.split('/').collect();
        if parts
            .iter()
            .any(|part| part.is_empty() || *part == "." || part.starts_with(".."))
        {
            return Err(invalid(
                "no part of the path may be empty, '.', or begin with '..'",
            ));
        }
        let mut at: Option<File> = None;
        for (index, part) in parts.iter().enumerate() {
            let flags = if index + 1 == parts.len() {
                flags
            } else {
                DIRECTORY
            };
            at = Some(self.step(at.as_ref().unwrap_or(root), part, flags)?);
        }
        at.ok_or(Fault::Told(FetchError::NotFound))
    }

    /// Opens one part in a directory: itself, or what kubelet's link leads to.
    fn step(&mut self, directory: &File, part: &str, flags: OFlags) -> Result<File, Fault> {
        match openat2(directory, part, flags, Mode::empty(), NAMES) {
            Ok(file) => Ok(file.into()),
            Err(Errno::LOOP) => {
                let version = self.follow(directory, part)?;
                openat2(&version, part, flags, Mode::empty(), NAMES)
                    .map(File::from)
                    .map_err(|error| told(error).into())
            }
            Err(error) => Err(told(error).into()),
        }
    }

    /// The directory that kubelet's link leads into. No other link leads anywhere.
    fn follow(&mut self, directory: &File, part: &str) -> Result<File, Fault> {
        let target = link(directory, part).ok_or(Fault::Vanished)?;
        if target.strip_prefix(DATA).and_then(|rest| rest.strip_prefix('/')) != Some(part) {
            return Err(invalid(
                "a part of the path is a symbolic link: only those that Kubernetes makes in a volume are followed",
            ));
        }
        self.version(directory)?.ok_or(Fault::Told(FetchError::NotFound))
    }

    /// The version of a directory that `..data` names now; nothing if it is not kubelet's.
    fn version(&mut self, directory: &File) -> Result<Option<File>, Fault> {
        let pin = Pin::of(directory)?;
        let name = pin.version.clone();
        self.0.push(pin);
        let Some(name) = name else { return Ok(None) };
        match openat2(directory, &name, READ | OFlags::DIRECTORY, Mode::empty(), NAMES) {
            Ok(version) => Ok(Some(version.into())),
            Err(Errno::NOENT) => Err(Fault::Vanished),
            Err(error) => Err(told(error).into()),
        }
    }

    /// The files of a directory: those of its version, and those that lie beside.
    fn read_directory(&mut self, directory: &File) -> Result<BTreeMap<String, Value>, Fault> {
        let mut map = BTreeMap::new();
        let version = self.version(directory)?;
        if let Some(version) = &version {
            read_into(&mut map, version, false)?;
        }
        read_into(&mut map, directory, version.is_some())?;
        Ok(map)
    }
}

/// Reads the files of one directory. `is_kubelets` says that the links in it lead to what was read already.
fn read_into(map: &mut BTreeMap<String, Value>, directory: &File, is_kubelets: bool) -> Result<(), Fault> {
    let gone_or = |error: Errno| match error {
        Errno::NOENT => Fault::Vanished,
        _ => Fault::Told(unavailable("the directory cannot be read")),
    };
    for entry in Dir::read_from(directory).map_err(gone_or)? {
        let entry = entry.map_err(gone_or)?;
        let Ok(name) = entry.file_name().to_str() else {
            continue;
        };
        // Kubelet's own, and the directory itself.
        if name.starts_with("..") || name == "." {
            continue;
        }
        let file: File = match openat2(directory, name, READ, Mode::empty(), NAMES) {
            Ok(file) => file.into(),
            Err(Errno::NOENT) => return Err(Fault::Vanished),
            // A socket.
            Err(Errno::NXIO) => continue,
            Err(Errno::LOOP) if is_kubelets && is_kubelets_link(directory, name) => continue,
            Err(Errno::LOOP) => {
                return Err(invalid(
                    "the directory holds a symbolic link: only those that Kubernetes makes in a volume are followed",
                ));
            }
            Err(error) => return Err(told(error).into()),
        };
        if kind(&file)? != FileType::RegularFile {
            continue;
        }
        if map.len() >= MOST_FILES {
            return Err(invalid(&format!(
                "the directory has more than {MOST_FILES} files"
            )));
        }
        map.insert(name.to_owned(), read_file(file)?);
    }
    // One that was removed meanwhile lists fewer files than it had, without an error.
    match fstat(directory) {
        Ok(stat) if stat.st_nlink > 0 => Ok(()),
        _ => Err(Fault::Vanished),
    }
}

fn is_kubelets_link(directory: &File, name: &str) -> bool {
    link(directory, name).is_some_and(|target| target == format!("{DATA}/{name}"))
}

/// What a symbolic link says.
fn link(directory: &File, name: &str) -> Option<String> {
    readlinkat(directory, name, Vec::new()).ok()?.into_string().ok()
}

/// Whether kubelet could have named a version so: one part, which no path can name.
fn is_version(name: &str) -> bool {
    name.len() > 2 && name.starts_with("..") && !name.contains('/')
}

fn told(error: Errno) -> FetchError {
    match error {
        Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::NXIO | Errno::INVAL => {
            FetchError::NotFound
        }
        Errno::ACCESS | Errno::PERM => FetchError::Denied {
            permission: "to read the file".to_owned(),
        },
        _ => unavailable("the file cannot be opened"),
    }
}

fn invalid(what: &str) -> Fault {
    Fault::Told(FetchError::Invalid {
        what: what.to_owned(),
    })
}

fn kind(file: &File) -> Result<FileType, FetchError> {
    let stat = fstat(file).map_err(|_| unavailable("the file cannot be looked at"))?;
    Ok(FileType::from_raw_mode(stat.st_mode))
}

fn read_file(file: File) -> Result<Value, FetchError> {
    let mut bytes = Vec::new();
    let read = file.take(MOST_BYTES + 1).read_to_end(&mut bytes);
    let value = Value::new(bytes);
    match read {
        Ok(count) if count as u64 <= MOST_BYTES => Ok(value),
        Ok(_) => Err(FetchError::Invalid {
            what: format!("the file has more than {MOST_BYTES} bytes"),
        }),
        Err(_) => Err(unavailable("the file cannot be read")),
    }
}

#[cfg(test)]
mod tests;
