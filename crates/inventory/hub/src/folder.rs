//! The data directory: the database, the CA, and the lock by which one process serves it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use trustplane_process::lock::{Lock, take};

use crate::store;

/// The name of the directory below the user's data directory.
const NAME: &str = "trustplane-hub";
const LOCK: &str = "hub.lock";

/// Why the data directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// There is no default for this user.
    #[error("no data directory: neither XDG_DATA_HOME nor HOME is set; name one with --data-dir")]
    NoDefault,
    /// A file or directory cannot be made, read or written.
    #[error("cannot {action} {}", .path.display())]
    Io {
        /// What was attempted.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// There is no database.
    #[error(
        "there is no database in the data directory {}: start trustplane-hub with this --data-dir first, or name the directory of a hub",
        .0.display()
    )]
    NoDatabase(PathBuf),
    /// Another process serves it.
    #[error("another trustplane-hub serves {}", .0.display())]
    Taken(PathBuf),
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FolderError {
    let path = path.to_owned();
    move |source| FolderError::Io { action, path, source }
}

/// The directory that a person names, or the default of the user.
pub fn choose(named: Option<&Path>, env: impl Fn(&str) -> Option<String>) -> Result<PathBuf, FolderError> {
    if let Some(named) = named {
        return Ok(named.to_owned());
    }
    let env = |name| env(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let data = env("XDG_DATA_HOME").filter(|path| path.is_absolute());
    let data = data.or_else(|| env("HOME").map(|home| home.join(".local/share")));
    data.map(|data| data.join(NAME)).ok_or(FolderError::NoDefault)
}

/// A data directory that is there.
#[derive(Debug, Clone)]
pub struct Folder(PathBuf);

impl Folder {
    /// Makes the directory for this user alone, if it is not there, and in it the file of the database.
    pub fn open(path: &Path) -> Result<Self, FolderError> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.map_err(failed("make the data directory", path))?;
        // SQLite gives its other files the rights of this one.
        let database = store::file(path);
        let opened = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(&database);
        opened.map_err(failed("open the database", &database))?;
        Ok(Self(path.to_owned()))
    }

    /// A directory in which a hub has made its database. Nothing is made.
    pub fn existing(path: &Path) -> Result<Self, FolderError> {
        let database = store::file(path);
        match fs::metadata(&database) {
            Ok(_) => Ok(Self(path.to_owned())),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                Err(FolderError::NoDatabase(path.to_owned()))
            }
            Err(error) => Err(failed("open the database", &database)(error)),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Serves it: no other process can until the file is dropped.
    pub fn lock(&self) -> Result<File, FolderError> {
        let path = self.0.join(LOCK);
        match take(&path).map_err(failed("lock", &path))? {
            Lock::Ours(file) => Ok(file),
            Lock::Theirs(_) => Err(FolderError::Taken(self.0.clone())),
        }
    }

    /// Reads a small file; `None` if it is not there.
    pub fn read(&self, name: &str) -> Result<Option<Vec<u8>>, FolderError> {
        let path = self.0.join(name);
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed("read", &path)(error)),
        }
    }

    /// Writes a file for this user alone, wholly or not at all. With `replace` it overwrites an existing file; without,
    /// an existing file stays.
    pub fn write(&self, name: &str, bytes: &[u8], replace: bool) -> Result<(), FolderError> {
        let path = self.0.join(name);
        let draft = self.0.join(crate::secret::random_id(&format!(".{name}.")));
        let written = write_draft(&draft, bytes).and_then(|()| {
            if replace {
                return fs::rename(&draft, &path);
            }
            match fs::hard_link(&draft, &path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                linked => linked,
            }
        });
        // After a rename it is gone already.
        let _ = fs::remove_file(&draft);
        written
            .and_then(|()| File::open(&self.0)?.sync_all())
            .map_err(failed("write", &path))
    }
}

fn write_draft(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .create_new(true)
        .write(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_directory_is_the_users_own() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a/hub");
        let folder = Folder::open(&path).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o700);
        assert_eq!(mode(&store::file(&path)), 0o600);
        folder.write("x", b"1", false).unwrap();
        folder.write("x", b"2", false).unwrap();
        assert_eq!(folder.read("x").unwrap().unwrap(), b"1", "the first one stays");
        folder.write("x", b"3", true).unwrap();
        assert_eq!(folder.read("x").unwrap().unwrap(), b"3");
        assert_eq!(mode(&path.join("x")), 0o600);
        assert_eq!(fs::read_dir(&path).unwrap().count(), 2, "no draft is left");
    }

    #[test]
    fn an_existing_directory_is_never_made() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("typo");
        let error = Folder::existing(&path).unwrap_err();
        assert!(
            error.to_string().contains("typo: start trustplane-hub"),
            "{error}"
        );
        assert!(!path.exists());
        Folder::open(&path).unwrap();
        Folder::existing(&path).unwrap();
    }

    #[test]
    fn one_process_serves_a_directory() {
        let root = tempfile::tempdir().unwrap();
        let folder = Folder::open(root.path()).unwrap();
        let lock = folder.lock().unwrap();
        assert!(matches!(folder.lock(), Err(FolderError::Taken(_))));
        drop(lock);
        folder.lock().unwrap();
    }

    #[test]
    fn the_default_follows_the_environment() {
        let of = |pairs: &[(&str, &str)]| {
            let pairs: Vec<_> = pairs
                .iter()
                .map(|(k, v)| (k.to_string(), v.to_string()))
                .collect();
            choose(None, move |name| {
                pairs
                    .iter()
                    .find(|(key, _)| key == name)
                    .map(|(_, value)| value.clone())
            })
        };
        assert_eq!(
            of(&[("XDG_DATA_HOME", "/d"), ("HOME", "/h")]).unwrap(),
            Path::new("/d/trustplane-hub")
        );
        assert_eq!(
            of(&[("XDG_DATA_HOME", "rel"), ("HOME", "/h")]).unwrap(),
            Path::new("/h/.local/share/trustplane-hub")
        );
        assert!(matches!(of(&[]), Err(FolderError::NoDefault)));
        assert_eq!(choose(Some(Path::new("/x")), |_| None).unwrap(), Path::new("/x"));
    }
}
