//! Secrets from files beneath a directory that the admin chose. The kernel itself keeps every path beneath it, whatever
//! symbolic links there are.

mod changes;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2, statat};
use rustix::io::Errno;
use trustplane_sync_core::data::{Payload, Value};
use trustplane_sync_core::fetch::{FetchError, Fetched};

use changes::Changes;

use crate::outage::unavailable;
use crate::{Locator, Provider};

/// No Secret could hold more.
const MOST_BYTES: u64 = 1024 * 1024;
/// A directory to start from.
const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// Never out of the directory that one starts from.
const INSIDE: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS);
/// The most files of one directory.
const MOST_FILES: usize = 1024;

/// Reads files beneath a directory: a file is the secret itself, a directory is a map of its files.
pub struct Files {
    root: Arc<File>,
    changes: Changes,
}

impl Files {
    /// Reads beneath this directory.
    pub fn beneath(root: &Path) -> std::io::Result<Self> {
        Self::rooted(openat(CWD, root, DIRECTORY, Mode::empty())?)
    }

    /// Reads beneath a directory that is beneath this one.
    pub fn within(&self, directory: &str) -> std::io::Result<Self> {
        Self::rooted(openat2(&self.root, directory, DIRECTORY, Mode::empty(), INSIDE)?)
    }

    fn rooted(root: OwnedFd) -> std::io::Result<Self> {
        Ok(Self {
            root: Arc::new(root.into()),
            changes: Changes::new()?,
        })
    }
}

impl Provider for Files {
    fn name(&self) -> &'static str {
        "file"
    }

    fn fetch<'a>(&'a self, wanted: &'a [Locator]) -> BoxFuture<'a, Vec<Result<Fetched, FetchError>>> {
        let (root, changes, paths) = (self.root.clone(), self.changes.clone(), wanted.to_vec());
        Box::pin(async move {
            let answer = move |locator: &Locator| {
                // First, so that no change between the two is missed.
                changes.look_after(&root, locator.path.trim_start_matches('/'));
                answer(&root, locator)
            };
            // A disk can keep us waiting.
            let read = move || paths.iter().map(answer).collect();
            let unavailable = |_| unavailable("the read was given up");
            let count = wanted.len();
            tokio::task::spawn_blocking(read)
                .await
                .map_err(unavailable)
                .unwrap_or_else(|error| vec![Err(error); count])
        })
    }

    fn changes(&self) -> Option<BoxStream<'static, String>> {
        self.changes.stream()
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
        lease: None,
    })
}

/// Opens without waiting for the other end of a pipe, and never outside of the root.
fn open(root: &File, path: &str) -> Result<File, FetchError> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    match openat2(root, path, flags, Mode::empty(), INSIDE) {
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use futures::StreamExt;

    use super::*;

    async fn fetch(files: &Files, path: &str) -> Result<Payload, FetchError> {
        let locator = Locator {
            path: path.to_owned(),
            version: None,
            on_behalf_of: crate::Principal::Process,
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

    #[tokio::test]
    async fn a_change_of_what_was_asked_for_is_told() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path();
        fs::create_dir_all(root.join("shop/..v1")).unwrap();
        fs::write(root.join("shop/..v1/db"), "1").unwrap();
        symlink("..v1", root.join("shop/..data")).unwrap();
        symlink("..data/db", root.join("shop/db")).unwrap();
        let files = Files::beneath(root).unwrap();
        let mut changes = files.changes().unwrap();
        // A move is told for both of its ends, so the same path may come twice.
        let mut hear = async |path: &str| {
            let told = changes
                .by_ref()
                .any(|changed| std::future::ready(changed == path));
            let told = tokio::time::timeout(std::time::Duration::from_secs(60), told).await;
            assert_eq!(told, Ok(true), "{path}");
        };
        fetch(&files, "/shop/db").await.unwrap();
        fetch(&files, "late/one").await.unwrap_err();
        // As Kubernetes does it: a new version, and the link moved over to it.
        fs::create_dir(root.join("shop/..v2")).unwrap();
        hear("shop/db").await;
        fs::write(root.join("shop/..v2/db"), "2").unwrap();
        symlink("..v2", root.join("shop/..next")).unwrap();
        fs::rename(root.join("shop/..next"), root.join("shop/..data")).unwrap();
        hear("shop/db").await;
        assert_eq!(fetch(&files, "shop/db").await, Ok(bytes("2")));
        // One that was not there when it was asked for.
        fs::create_dir(root.join("late")).unwrap();
        hear("late/one").await;
        fetch(&files, "late/one").await.unwrap_err();
        fs::write(root.join("late/one"), "x").unwrap();
        hear("late/one").await;
    }

    #[tokio::test]
    async fn a_part_of_the_tree_is_a_tree_of_its_own() {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir_all(place.path().join("a/b")).unwrap();
        fs::write(place.path().join("a/b/one"), "1").unwrap();
        fs::write(place.path().join("two"), "2").unwrap();
        symlink("..", place.path().join("a/up")).unwrap();
        let files = Files::beneath(place.path()).unwrap();
        let part = files.within("a").unwrap();
        assert_eq!(fetch(&part, "b/one").await, Ok(bytes("1")));
        assert_eq!(fetch(&part, "up/two").await, Err(FetchError::NotFound));
        for way_out in ["..", "a/up/..", "two", "none"] {
            assert!(files.within(way_out).is_err(), "{way_out}");
        }
    }
}
