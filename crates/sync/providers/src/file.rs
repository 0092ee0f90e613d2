//! Secrets from files beneath a directory that the admin chose. The kernel itself keeps every path beneath it, whatever
//! symbolic links there are.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use futures::future::BoxFuture;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2, statat};
use rustix::io::Errno;
use trustplane_sync_core::data::{Payload, Value};
use trustplane_sync_core::fetch::{FetchError, Fetched};

use crate::{Locator, Provider};

/// No Secret could hold more.
const MOST_BYTES: u64 = 1024 * 1024;
/// The most files of one directory.
const MOST_FILES: usize = 1024;

/// Reads files beneath a directory: a file is the secret itself, a directory is a map of its files.
pub struct Files {
    root: Arc<File>,
}

impl Files {
    /// Reads beneath this directory.
    pub fn beneath(root: &Path) -> std::io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat(CWD, root, flags, Mode::empty())?;
        Ok(Self {
            root: Arc::new(root.into()),
        })
    }
}

impl Provider for Files {
    fn name(&self) -> &'static str {
        "file"
    }

    fn fetch<'a>(&'a self, wanted: &'a [Locator]) -> BoxFuture<'a, Vec<Result<Fetched, FetchError>>> {
        let (root, paths) = (self.root.clone(), wanted.to_vec());
        Box::pin(async move {
            // A disk can keep us waiting.
            let read = move || paths.iter().map(|locator| answer(&root, locator)).collect();
            let unavailable = |_| unavailable("the read was given up");
            let count = wanted.len();
            tokio::task::spawn_blocking(read)
                .await
                .map_err(unavailable)
                .unwrap_or_else(|error| vec![Err(error); count])
        })
    }
}

fn answer(root: &File, locator: &Locator) -> Result<Fetched, FetchError> {
    if locator.version.is_some() {
        return Err(FetchError::Invalid {
            what: "files have no versions".to_owned(),
        });
    }
    let path = locator.path.trim_start_matches('/');
    let file = open(root, path)?;
    let payload = match kind(&file)? {
        FileType::Directory => Payload::Map(read_directory(root, path, file)?),
        FileType::RegularFile => Payload::Bytes(read_file(file)?),
        _ => return Err(FetchError::NotFound),
    };
    Ok(Fetched {
        provider: "file",
        payload,
        version: None,
    })
}

/// Opens without waiting for the other end of a pipe, and never outside of the root.
fn open(root: &File, path: &str) -> Result<File, FetchError> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    match openat2(root, path, flags, Mode::empty(), resolve) {
        Ok(file) => Ok(file.into()),
        // A way out looks like a way that does not exist.
        Err(
            Errno::NOENT
            | Errno::NOTDIR
            | Errno::XDEV
            | Errno::LOOP
            | Errno::NAMETOOLONG
            | Errno::NXIO
            | Errno::INVAL,
        ) => Err(FetchError::NotFound),
        Err(Errno::ACCESS | Errno::PERM) => Err(FetchError::Denied {
            permission: "to read the file".to_owned(),
        }),
        Err(_) => Err(unavailable("the file cannot be opened")),
    }
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

fn read_directory(root: &File, path: &str, directory: File) -> Result<BTreeMap<String, Value>, FetchError> {
    let wrong = |_| unavailable("the directory cannot be read");
    let mut map = BTreeMap::new();
    for entry in Dir::read_from(&directory).map_err(wrong)? {
        let entry = entry.map_err(wrong)?;
        let Ok(name) = entry.file_name().to_str() else {
            continue;
        };
        // Kubernetes keeps the versions of a mounted ConfigMap in such directories.
        if name.starts_with("..") || name == "." {
            continue;
        }
        let is_directory = statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory);
        if is_directory {
            continue;
        }
        if map.len() >= MOST_FILES {
            return Err(FetchError::Invalid {
                what: format!("the directory has more than {MOST_FILES} files"),
            });
        }
        let file = open(root, &format!("{path}/{name}"))?;
        if kind(&file)? == FileType::RegularFile {
            map.insert(name.to_owned(), read_file(file)?);
        }
    }
    Ok(map)
}

fn unavailable(what: &str) -> FetchError {
    FetchError::Unavailable {
        what: what.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    async fn fetch(files: &Files, path: &str) -> Result<Payload, FetchError> {
        let locator = Locator {
            path: path.to_owned(),
            version: None,
        };
        files
            .fetch(&[locator])
            .await
            .remove(0)
            .map(|fetched| fetched.payload)
    }

    fn bytes(text: &str) -> Payload {
        Payload::Bytes(Value::new(text))
    }

    #[tokio::test]
    async fn a_file_is_a_secret_and_a_directory_a_map() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("root");
        fs::create_dir_all(root.join("shop/db/sub")).unwrap();
        fs::write(root.join("shop/one.json"), "{}").unwrap();
        fs::write(root.join("shop/db/user"), "u").unwrap();
        // As Kubernetes mounts a ConfigMap: a link into a directory of a version.
        fs::create_dir(root.join("shop/db/..v1")).unwrap();
        fs::write(root.join("shop/db/..v1/password"), "p").unwrap();
        symlink("..v1", root.join("shop/db/..data")).unwrap();
        symlink("..data/password", root.join("shop/db/password")).unwrap();
        let files = Files::beneath(&root).unwrap();
        assert_eq!(fetch(&files, "shop/one.json").await, Ok(bytes("{}")));
        assert_eq!(fetch(&files, "/shop/one.json").await, Ok(bytes("{}")));
        let map = [("password", "p"), ("user", "u")].map(|(key, value)| (key.to_owned(), Value::new(value)));
        assert_eq!(fetch(&files, "shop/db").await, Ok(Payload::Map(map.into())));
        assert_eq!(fetch(&files, "shop/none").await, Err(FetchError::NotFound));
        assert_eq!(fetch(&files, "shop/one.json/x").await, Err(FetchError::NotFound));
    }

    #[tokio::test]
    async fn there_is_no_way_out() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("root");
        fs::create_dir(&root).unwrap();
        fs::create_dir(root.join("dir")).unwrap();
        fs::write(place.path().join("outside"), "CANARY").unwrap();
        symlink("../outside", root.join("relative")).unwrap();
        symlink(place.path().join("outside"), root.join("absolute")).unwrap();
        symlink("/proc/self/environ", root.join("magic")).unwrap();
        symlink("..", root.join("up")).unwrap();
        symlink("../../outside", root.join("dir/leak")).unwrap();
        let files = Files::beneath(&root).unwrap();
        for path in [
            "relative",
            "absolute",
            "magic",
            "up/outside",
            "../outside",
            "dir/../../outside",
            "/etc/passwd",
            "dir",
        ] {
            assert_eq!(fetch(&files, path).await, Err(FetchError::NotFound), "{path}");
        }
    }

    #[tokio::test]
    async fn odd_files_neither_hang_nor_fill_the_memory() {
        let place = tempfile::tempdir().unwrap();
        let files = Files::beneath(place.path()).unwrap();
        rustix::fs::mknodat(CWD, place.path().join("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        assert_eq!(fetch(&files, "pipe").await, Err(FetchError::NotFound));
        let large = File::create(place.path().join("large")).unwrap();
        large.set_len(1 << 40).unwrap();
        let told = FetchError::Invalid {
            what: "the file has more than 1048576 bytes".to_owned(),
        };
        assert_eq!(fetch(&files, "large").await, Err(told));
    }
}
