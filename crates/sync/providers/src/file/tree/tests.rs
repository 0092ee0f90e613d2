//! Changes between the steps of one read, one by one.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, openat};

use super::*;

/// A volume with two keys of one version, as kubelet mounts it.
fn volume(root: &Path) -> File {
    let shop = root.join("shop");
    fs::create_dir(&shop).unwrap();
    version(root, "..v1", "1");
    symlink("..v1", shop.join("..data")).unwrap();
    for key in ["user", "password"] {
        symlink(format!("..data/{key}"), shop.join(key)).unwrap();
    }
    openat(CWD, root, DIRECTORY, Mode::empty()).unwrap().into()
}

fn version(root: &Path, name: &str, value: &str) {
    let directory = root.join("shop").join(name);
    fs::create_dir(&directory).unwrap();
    for key in ["user", "password"] {
        fs::write(directory.join(key), value).unwrap();
    }
}

fn point_to(root: &Path, name: &str) {
    let next = root.join("shop/..next");
    symlink(name, &next).unwrap();
    fs::rename(next, root.join("shop/..data")).unwrap();
}

fn pair(value: &str) -> Payload {
    Payload::Map(
        ["user", "password"]
            .map(|key| (key.to_owned(), Value::new(value)))
            .into(),
    )
}

#[test]
fn a_version_that_is_being_removed_does_not_count() {
    let place = tempfile::tempdir().unwrap();
    let root = volume(place.path());
    let mut walk = Walk::default();
    let shop = walk.open(&root, "shop", READ).unwrap();
    let old = walk.version(&shop).unwrap().unwrap();
    // Kubelet moves on while we read, and has taken away the first file of the version that we hold.
    version(place.path(), "..v2", "2");
    point_to(place.path(), "..v2");
    fs::remove_file(place.path().join("shop/..v1/user")).unwrap();
    let mut map = BTreeMap::new();
    read_into(&mut map, &old, false).unwrap();
    assert_eq!(map.len(), 1, "a torn map");
    assert!(!walk.holds(), "which is noticed");
    assert_eq!(read(&root, "shop"), Ok(pair("2")));
}

#[test]
fn what_has_vanished_is_read_again_and_not_missing() {
    let place = tempfile::tempdir().unwrap();
    let root = volume(place.path());
    let mut walk = Walk::default();
    let shop = walk.open(&root, "shop", READ).unwrap();
    let old = walk.version(&shop).unwrap().unwrap();
    fs::remove_dir_all(place.path().join("shop/..v1")).unwrap();
    assert_eq!(read_into(&mut BTreeMap::new(), &old, false), Err(Fault::Vanished));
    // A link that never gets well: an outage, and never a secret that does not exist.
    let told = unavailable("the files change faster than they can be read");
    assert_eq!(read(&root, "shop"), Err(told.clone()));
    assert_eq!(read(&root, "shop/user"), Err(told));
    version(place.path(), "..v2", "2");
    point_to(place.path(), "..v2");
    assert_eq!(read(&root, "shop"), Ok(pair("2")));
    // A key that the new version does not have is one that does not exist.
    fs::remove_file(place.path().join("shop/..v2/user")).unwrap();
    assert_eq!(read(&root, "shop/user"), Err(FetchError::NotFound));
}

/// A file is renamed to and fro, so that it often has another name than the directory has listed.
#[test]
fn file_that_vanishes_between_listing_and_opening_is_not_left_out() {
    let place = tempfile::tempdir().unwrap();
    let shop = place.path().join("shop");
    fs::create_dir(&shop).unwrap();
    fs::write(shop.join("a"), "1").unwrap();
    let root: File = openat(CWD, place.path(), DIRECTORY, Mode::empty())
        .unwrap()
        .into();
    let done = AtomicBool::new(false);
    let empty = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                fs::rename(shop.join("a"), shop.join("b")).unwrap();
                fs::rename(shop.join("b"), shop.join("a")).unwrap();
            }
        });
        let is_empty = |read| matches!(read, Ok(Payload::Map(files)) if files.is_empty());
        let empty = (0..3_000).filter(|_| is_empty(read(&root, "shop"))).count();
        done.store(true, Ordering::Relaxed);
        empty
    });
    assert_eq!(empty, 0, "the directory was never empty");
}
