use std::fs;
use std::os::unix::fs::symlink;

use futures::StreamExt;
use rustix::fs::FileType;
use trustplane_sync_core::data::Value;

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
async fn no_link_leads_anywhere_but_kubelets() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().join("root");
    for folder in ["team-a/data", "team-b"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    fs::write(place.path().join("outside"), "CANARY").unwrap();
    fs::write(root.join("team-b/db"), "CANARY").unwrap();
    fs::write(root.join("team-a/data/admin"), "CANARY").unwrap();
    for (target, link) in [
        ("../../outside", "team-a/out"),
        ("/proc/self/environ", "team-a/magic"),
        // Beneath the root, and yet somebody else's.
        ("../team-b/db", "team-a/db"),
        ("../team-b", "team-a/folder"),
        ("..", "team-a/up"),
        // Their own, but not what the path says.
        ("data/admin", "team-a/alias"),
        ("../data/admin", "team-a/data/alias"),
    ] {
        symlink(target, root.join(link)).unwrap();
    }
    symlink(place.path().join("outside"), root.join("team-a/absolute")).unwrap();
    let files = Files::beneath(&root).unwrap();
    for path in [
        "team-a/out",
        "team-a/absolute",
        "team-a/magic",
        "team-a/db",
        "team-a/folder/db",
        "team-a/folder",
        "team-a/up/team-b/db",
        "team-a/alias",
        // A map of a folder never leaves out what cannot be read.
        "team-a",
        "team-a/data",
        "../outside",
        "team-a/../team-b/db",
        "team-a/./data/admin",
        "team-a//data/admin",
    ] {
        let told = fetch(&files, path).await;
        assert!(
            matches!(told, Err(FetchError::Invalid { .. })),
            "{path}: {}",
            told.is_ok()
        );
    }
    assert_eq!(fetch(&files, "/etc/passwd").await, Err(FetchError::NotFound));
}

#[tokio::test]
async fn a_volume_of_kubelet_is_read_by_its_own_names_only() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path();
    fs::create_dir_all(root.join("team-b/..v1")).unwrap();
    fs::write(root.join("team-b/..v1/db"), "CANARY").unwrap();
    fs::create_dir_all(root.join("team-a/..v1/sub")).unwrap();
    fs::write(root.join("team-a/..v1/sub/key"), "1").unwrap();
    symlink("..v1", root.join("team-a/..data")).unwrap();
    symlink("..data/sub", root.join("team-a/sub")).unwrap();
    let files = Files::beneath(root).unwrap();
    assert_eq!(fetch(&files, "team-a/sub/key").await, Ok(bytes("1")));
    let map = [("key".to_owned(), Value::new("1"))].into();
    assert_eq!(fetch(&files, "team-a/sub").await, Ok(Payload::Map(map)));
    // A policy has judged other parts than these.
    for path in ["team-a/..data/sub/key", "team-a/..v1/sub/key"] {
        let told = fetch(&files, path).await;
        assert!(matches!(told, Err(FetchError::Invalid { .. })), "{path}");
    }
    // Links of the form that kubelet's have, which lead elsewhere.
    fs::remove_file(root.join("team-a/..data")).unwrap();
    symlink("../team-b/..v1", root.join("team-a/..data")).unwrap();
    symlink("..data/db", root.join("team-a/db")).unwrap();
    symlink("..data/../../team-b/..v1/db", root.join("team-a/other")).unwrap();
    assert_eq!(fetch(&files, "team-a/db").await, Err(FetchError::NotFound));
    let told = fetch(&files, "team-a/other").await;
    assert!(matches!(told, Err(FetchError::Invalid { .. })));
}

/// Puts another version in the place of the last one, as kubelet does: the new one is complete before `..data` moves, and the old
/// one is taken away file by file.
fn swap(volume: &Path, from: u32, to: u32) {
    let version = |number: u32| volume.join(format!("..v{number}"));
    fs::create_dir(version(to)).unwrap();
    for key in ["user", "password"] {
        fs::write(version(to).join(key), to.to_string()).unwrap();
    }
    symlink(format!("..v{to}"), volume.join("..data_tmp")).unwrap();
    fs::rename(volume.join("..data_tmp"), volume.join("..data")).unwrap();
    if from > 0 {
        fs::remove_dir_all(version(from)).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_during_a_swap_gives_one_version() {
    const SWAPS: u32 = 400;
    let place = tempfile::tempdir().unwrap();
    let volume = place.path().join("shop");
    fs::create_dir(&volume).unwrap();
    swap(&volume, 0, 1);
    for key in ["user", "password"] {
        symlink(format!("..data/{key}"), volume.join(key)).unwrap();
    }
    let files = Files::beneath(place.path()).unwrap();
    let kubelet =
        std::thread::spawn(move || (1..SWAPS).for_each(|version| swap(&volume, version, version + 1)));
    let mut read = 0;
    while !kubelet.is_finished() {
        match fetch(&files, "shop").await {
            Ok(Payload::Map(map)) => {
                assert_eq!(map.len(), 2, "no key is missing");
                assert_eq!(map["user"], map["password"], "both are of one version");
                read += 1;
            }
            Err(FetchError::Unavailable { .. }) => {}
            other => panic!("neither one version nor an outage: {:?}", other.err()),
        }
        let one = fetch(&files, "shop/user").await;
        let is_fine = matches!(one, Ok(Payload::Bytes(_)) | Err(FetchError::Unavailable { .. }));
        assert!(is_fine, "{:?}", one.err());
    }
    kubelet.join().unwrap();
    assert!(read > 0);
    let map = ["user", "password"].map(|key| (key.to_owned(), Value::new(SWAPS.to_string())));
    assert_eq!(fetch(&files, "shop").await, Ok(Payload::Map(map.into())));
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
    assert!(matches!(
        fetch(&part, "up/two").await,
        Err(FetchError::Invalid { .. })
    ));
    // The folder is found anew when another one is in its place.
    fs::rename(place.path().join("a"), place.path().join("old")).unwrap();
    fs::create_dir_all(place.path().join("a/b")).unwrap();
    fs::write(place.path().join("a/b/one"), "2").unwrap();
    assert_eq!(fetch(&part, "b/one").await, Ok(bytes("2")));
    for way_out in ["..", "a/up/..", "a/up", "two", "none", ""] {
        assert!(files.within(way_out).is_err(), "{way_out}");
    }
}
