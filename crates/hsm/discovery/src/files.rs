//! Reading below a directory that others fill, without coming to harm.
//!
//! Links are followed as long as they stay below the directory. Only plain files are read, only their beginning, and never so that
//! it could block: a pipe, an endless file or a directory in the place of a file is the same as no file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::OFlags;

/// The most bytes of a file that are looked at. What the kernel tells in one file is never more.
const LARGEST: usize = 4096;
/// The most entries of a directory that are looked at.
const MOST_ENTRIES: usize = 65_536;

/// A directory that nothing leads out of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Root {
    path: PathBuf,
    /// The most entries of a directory that are looked at.
    most: usize,
}

/// What stands at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// Whether programs could speak to a device through it. A plain file stands for one where there are no devices.
    pub(crate) is_node: bool,
    /// Its mode.
    pub(crate) mode: u32,
    /// The group that it belongs to.
    pub(crate) gid: u32,
}

impl Root {
    /// A directory that exists.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let path = fs::canonicalize(path)?;
        if !fs::metadata(&path)?.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        let most = MOST_ENTRIES;
        Ok(Self { path, most })
    }

    /// Looks at fewer entries of a directory.
    #[cfg(test)]
    pub(crate) fn with_at_most(self, most: usize) -> Self {
        Self { most, ..self }
    }

    /// Where a path leads to, below the directory; nothing if it leads nowhere or out.
    pub(crate) fn real(&self, path: &Path) -> Option<PathBuf> {
        let steps = path.components();
        let plain = steps.clone().all(|step| matches!(step, Component::Normal(_)));
        let real = plain.then(|| fs::canonicalize(self.path.join(path)).ok())??;
        real.strip_prefix(&self.path).ok().map(Path::to_owned)
    }

    /// The beginning of a plain file.
    pub(crate) fn read(&self, path: &Path) -> Option<Vec<u8>> {
        let real = self.path.join(self.real(path)?);
        // To open a device may do something to it, so it is not even opened.
        if !fs::symlink_metadata(&real).ok()?.is_file() {
            return None;
        }
        let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY;
        let flags = i32::try_from(flags.bits()).ok()?;
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(flags)
            .open(real)
            .ok()?;
        beginning(file)
    }

    /// The names in a directory, sorted; none if it is not there.
    pub(crate) fn names(&self, path: &Path) -> io::Result<Vec<String>> {
        let Some(real) = self.real(path) else {
            return Ok(Vec::new());
        };
        names(&self.path.join(real), self.most)
    }

    /// Whether there is a directory.
    pub(crate) fn is_dir(&self, path: &Path) -> bool {
        let real = self.real(path);
        real.is_some_and(|real| self.path.join(real).is_dir())
    }

    /// What stands at a place that is not a link.
    pub(crate) fn place(&self, real: &Path) -> Option<Place> {
        let metadata = fs::symlink_metadata(self.path.join(real)).ok()?;
        let kind = metadata.file_type();
        Some(Place {
            is_node: kind.is_char_device() || kind.is_block_device() || kind.is_file(),
            mode: metadata.mode() & 0o7777,
            gid: metadata.gid(),
        })
    }
}

/// The names in a directory, sorted, if there are not too many.
fn names(dir: &Path, most: usize) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir)? {
        if names.len() == most {
            return Err(io::Error::other(format!("it has more than {most} entries")));
        }
        // A name that is no text is none that we look for.
        if let Ok(name) = entry?.file_name().into_string() {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// The beginning of an open file, if it is still a plain one.
fn beginning(file: File) -> Option<Vec<u8>> {
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut content = Vec::new();
    let limit = u64::try_from(LARGEST).ok()?;
    file.take(limit).read_to_end(&mut content).ok()?;
    Some(content)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    fn root() -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("in")).unwrap();
        fs::write(dir.path().join("secret"), "outside").unwrap();
        fs::write(dir.path().join("in/file"), "inside").unwrap();
        let root = Root::open(&dir.path().join("in")).unwrap();
        (dir, root)
    }

    fn read(root: &Root, path: &str) -> Option<String> {
        let bytes = root.read(Path::new(path))?;
        Some(String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn links_are_followed_inside_and_nowhere_else() {
        let (dir, root) = root();
        let inside = dir.path().join("in");
        fs::create_dir_all(inside.join("devices/a")).unwrap();
        fs::write(inside.join("devices/a/file"), "deep").unwrap();
        symlink("devices/a", inside.join("link")).unwrap();
        symlink("../secret", inside.join("out")).unwrap();
        symlink(dir.path().join("secret"), inside.join("far-out")).unwrap();
        symlink("loop", inside.join("loop")).unwrap();
        assert_eq!(read(&root, "link/file").as_deref(), Some("deep"));
        assert_eq!(read(&root, "file").as_deref(), Some("inside"));
        for path in [
            "out",
            "far-out",
            "loop",
            "../secret",
            "link/../../secret",
            "/etc/hostname",
            "absent",
        ] {
            assert_eq!(read(&root, path), None, "{path}");
        }
    }

    #[test]
    fn what_is_no_plain_file_is_no_file() {
        let (dir, root) = root();
        let inside = dir.path().join("in");
        fs::create_dir(inside.join("directory")).unwrap();
        mknodat(
            CWD,
            inside.join("pipe"),
            FileType::Fifo,
            Mode::RUSR | Mode::WUSR,
            0,
        )
        .unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(inside.join("socket")).unwrap();
        for path in ["directory", "pipe", "socket"] {
            assert_eq!(root.read(Path::new(path)), None, "{path}");
        }
    }

    #[test]
    fn of_an_endless_file_only_the_beginning_is_read() {
        let (dir, root) = root();
        let endless = File::create(dir.path().join("in/endless")).unwrap();
        endless.set_len(1 << 40).unwrap();
        assert_eq!(root.read(Path::new("endless")), Some(vec![0; LARGEST]));
    }

    #[test]
    fn a_directory_that_is_not_there_is_empty_and_one_without_end_is_refused() {
        let (dir, root) = root();
        assert_eq!(root.names(Path::new("absent")).unwrap(), Vec::<String>::new());
        let huge = dir.path().join("in/huge");
        fs::create_dir(&huge).unwrap();
        for number in 0..=10 {
            fs::create_dir(huge.join(number.to_string())).unwrap();
        }
        assert_eq!(names(&huge, 11).unwrap().len(), 11);
        let told = names(&huge, 10).unwrap_err().to_string();
        assert_eq!(told, "it has more than 10 entries");
    }
}
