use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::code::Code;
use crate::model::{Token, data, path, secret, tombstone};
use crate::recover::recover;

fn paths(token: &Token) -> Vec<String> {
    Contents::of(&token.list())
        .paths()
        .map(ToString::to_string)
        .collect()
}

fn read(token: &Token, at: &str) -> Data {
    token
        .read(at)
        .unwrap_or_else(|error| panic!("{at}: {error}"))
        .data
}

#[test]
fn a_secret_that_the_original_wrote_is_read() {
    let token = Token::default()
        .with_object("db/password", Some("s3cr3t"))
        .with_object(
            "db/_metadata",
            Some(r#"{"labels":{"sync.version":"4","sync.timestamp":"2026-07-07T08:00:00Z"}}"#),
        )
        .with_object("db", Some("under the key data"))
        .with_object("db/username", Some("admin"));
    let found = token.read("db").unwrap();
    let expected = [
        ("data", "under the key data"),
        ("password", "s3cr3t"),
        ("username", "admin"),
    ];
    assert_eq!(found.data, data(&expected));
    assert_eq!(found.metadata.stamp, crate::model::stamp(4));
}

#[test]
fn a_secret_without_metadata_is_read_as_version_nought() {
    let token = Token::default()
        .with_object("db/password", Some("x"))
        .with_object("flat", Some("y"));
    assert_eq!(paths(&token), ["db", "flat"]);
    assert_eq!(read(&token, "db"), data(&[("password", "x")]));
    assert_eq!(read(&token, "flat"), data(&[("data", "y")]));
    assert_eq!(token.read("db").unwrap().metadata, Metadata::default());
    let list = token.list();
    assert_eq!(Contents::of(&list).stamp(&path("db")), Ok(Some(Stamp::default())));
    assert_eq!(Contents::of(&list).stamp(&path("nothing")), Ok(None));
}

#[test]
fn neighbours_by_prefix_are_other_secrets() {
    let names = ["a", "ab", "a-b", "a.b", "a/b", "a_"];
    let token = names.iter().fold(Token::default(), |token, name| {
        token.with(name, &secret(1, &[("of", name), ("data", name)]))
    });
    for name in names {
        assert_eq!(read(&token, name), data(&[("of", name), ("data", name)]));
    }
    assert_eq!(paths(&token), ["a", "a-b", "a.b", "a/b", "a_", "ab"]);
    assert_eq!(token.read("a/of").unwrap_err().code(), Code::NotFound);
}

#[test]
fn metadata_says_whose_a_label_is() {
    let token = Token::default()
        .with_object("a/b", Some("x"))
        .with_object("a/c", Some("y"));
    assert_eq!(paths(&token), ["a"]);
    assert_eq!(read(&token, "a"), data(&[("b", "x"), ("c", "y")]));
    let token = token.with_object("a/b/_metadata", Some("{}"));
    assert_eq!(paths(&token), ["a", "a/b"]);
    assert_eq!(read(&token, "a"), data(&[("c", "y")]));
    assert_eq!(read(&token, "a/b"), data(&[("data", "x")]));
}

#[test]
fn a_label_that_nobody_claims_is_also_read_as_a_path() {
    // A seed stores one value under a path with slashes, and writes no metadata.
    let token = Token::default().with_object("secrets/default/token", Some("x"));
    assert_eq!(read(&token, "secrets/default/token"), data(&[("data", "x")]));
    assert_eq!(read(&token, "secrets/default"), data(&[("token", "x")]));
    let list = token.list();
    assert_eq!(
        Contents::of(&list).stamp(&path("secrets/default/token")),
        Ok(Some(Stamp::default()))
    );
    // A secret is read with all its keys, or not at all.
    let several = token.clone().with_object("secrets/default/token/user", Some("u"));
    let whole = data(&[("data", "x"), ("user", "u")]);
    assert_eq!(read(&several, "secrets/default/token"), whole);
    let list = several.list();
    let (contents, token_path) = (Contents::of(&list), path("secrets/default/token"));
    assert_eq!(contents.objects_of(&token_path).unwrap().count(), 2);
    // As soon as somebody claims it, it is his.
    let claimed = token.clone().with_object("secrets/default/_metadata", Some("{}"));
    assert_eq!(
        claimed.read("secrets/default/token").unwrap_err().code(),
        Code::NotFound
    );
    let twice = token.with_object("secrets/default/token", Some("y"));
    assert_eq!(
        twice.read("secrets/default/token").unwrap_err().code(),
        Code::DataLoss
    );
}

#[test]
fn an_object_that_cannot_be_read_fails_its_secret_and_no_other() {
    let token = Token::default()
        .with("a", &secret(1, &[("x", "1"), ("y", "2")]))
        .with("b", &secret(1, &[("x", "1")]))
        .with_object("a/z", None);
    let error = token.read("a").unwrap_err();
    assert_eq!(error.to_string(), "a: the object a/z cannot be read");
    assert_eq!(error.code(), Code::DataLoss);
    assert_eq!(read(&token, "b"), data(&[("x", "1")]));
    // The version is known nevertheless.
    let list = token.list();
    assert_eq!(Contents::of(&list).stamp(&path("a")).unwrap().unwrap().version, 1);
    let token = Token::default()
        .with_object("a/x", Some("1"))
        .with_object("a/_metadata", None);
    assert_eq!(
        token.read("a").unwrap_err().to_string(),
        "a: the object a/_metadata cannot be read"
    );
}

#[test]
fn objects_that_are_there_twice_count_once_if_they_are_the_same() {
    let once = Token::default().with("a", &secret(1, &[("x", "1"), ("data", "2")]));
    let twice = once
        .clone()
        .with("a", &secret(1, &[("x", "1")]))
        .with_object("a/data", Some("2"));
    assert_eq!(twice.read("a"), once.read("a"));
    for (label, value) in [
        ("a/x", "hunter2"),
        ("a/data", "hunter2"),
        ("a", "hunter2"),
        ("a/_metadata", "{}"),
    ] {
        let error = once
            .clone()
            .with_object(label, Some(value))
            .read("a")
            .unwrap_err();
        assert_eq!(error.code(), Code::DataLoss, "{label}");
        assert!(matches!(error, ReadError::Contradiction { .. }), "{error}");
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}

#[test]
fn what_would_shrink_a_secret_fails_it() {
    let with = |label: &str, value: &str| {
        let token = Token::default().with("a", &secret(1, &[("x", "1")]));
        token
            .with_object(label, Some(value))
            .read("a")
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        with("a/my key", "1"),
        "a: the object a/my key has a key that no Secret can have"
    );
    assert_eq!(
        with("a/", "1"),
        "a: the object a/ has a key that no Secret can have"
    );
    let token = Token::default()
        .with_object("a/x", Some("1"))
        .with_object("a/_metadata", Some("hunter2"));
    let error = token.read("a").unwrap_err();
    assert_eq!(
        error.to_string(),
        "a: the metadata is not the JSON that it should be (line 1, column 1)"
    );
    let labels = r#"{"labels":{"sync.version":"x"}}"#;
    let token = Token::default()
        .with_object("a/x", Some("1"))
        .with_object("a/_metadata", Some(labels));
    assert_eq!(token.read("a").unwrap_err().code(), Code::DataLoss);
    // Metadata alone is neither a secret without keys nor none.
    let token = Token::default().with_object("a/_metadata", Some("{}"));
    assert_eq!(token.read("a"), Err(ReadError::Empty { path: path("a") }));
}

#[test]
fn what_was_deleted_is_listed_with_its_version() {
    let token = Token::default()
        .with("a", &tombstone(7))
        .with("b", &secret(2, &[("x", "1")]));
    assert_eq!(paths(&token), ["a", "b"]);
    assert_eq!(token.read("a"), Ok(tombstone(7)));
    let list = token.list();
    let contents = Contents::of(&list);
    let (dead, live) = (
        contents.describe(&path("a")).unwrap(),
        contents.describe(&path("b")).unwrap(),
    );
    assert!(dead.metadata.stamp.deleted && dead.metadata.stamp.version == 7 && dead.keys == 0);
    assert_eq!((live.metadata.stamp.version, live.keys), (2, 1));
    assert_eq!(live.checksum, checksum(&data(&[("x", "1")])));
    // Somebody writes a value there who knows nothing of tombstones: it is there.
    let again = token.with_object("a/x", Some("1"));
    let found = again.read("a").unwrap();
    assert!(!found.is_deleted() && found.metadata.stamp.version == 7);
    let list = again.list();
    assert!(!Contents::of(&list).stamp(&path("a")).unwrap().unwrap().deleted);
}

#[test]
fn objects_of_others_are_counted_and_left_alone() {
    let mut token = Token::default()
        .with("a", &secret(1, &[("x", "1")]))
        .with_object("My Certificate", Some("cert"))
        .with_object(".trustplane/later/_metadata", Some("?"))
        .with_object("_metadata", Some("?"))
        .with_object("a b/c", Some("?"));
    token.add_object(&Generation { counter: 5, epoch: 2 }.object());
    let list = token.list();
    let contents = Contents::of(&list);
    assert_eq!(
        contents.paths().map(SecretPath::as_str).collect::<Vec<_>>(),
        ["a"]
    );
    assert_eq!((contents.usage().objects, contents.usage().foreign), (7, 4));
    assert_eq!(
        contents.usage().bytes,
        list.iter().map(Found::size).sum::<usize>()
    );
    assert_eq!(contents.generation(), Generation { counter: 5, epoch: 2 });
}

#[test]
fn a_generation_that_is_damaged_says_nothing() {
    let mut token = Token::default().with_object(".trustplane/generation/_metadata", Some("TPG"));
    let list = token.list();
    assert_eq!(Contents::of(&list).generation(), Generation::default());
    token.add_object(&Generation { counter: 3, epoch: 0 }.object());
    token.add_object(&Generation { counter: 2, epoch: 4 }.object());
    let list = token.list();
    assert_eq!(
        Contents::of(&list).generation(),
        Generation { counter: 3, epoch: 4 }
    );
}

#[test]
fn the_highest_epoch_is_that_of_the_token_or_of_any_secret() {
    let mut written = secret(1, &[("x", "1")]);
    written.metadata.stamp.epoch = Some(6);
    let mut token = Token::default().with("a", &written);
    assert_eq!(Contents::of(&token.list()).epoch(), 6);
    token.add_object(&Generation { counter: 1, epoch: 9 }.object());
    assert_eq!(Contents::of(&token.list()).epoch(), 9);
}

#[test]
fn a_path_with_a_journal_is_not_served() {
    let mark = PathMark::of(&path("a"));
    let mut token = Token::default()
        .with("a", &secret(1, &[("x", "1")]))
        .with("b", &secret(1, &[("x", "1")]));
    token.add(&Label::of_journal(mark, None).to_string(), Some("damaged"));
    token.add(
        &Label::of_journal(PathMark::of(&path("gone")), None).to_string(),
        Some("damaged"),
    );
    for lost in ["a", "gone"] {
        let error = token.read(lost).unwrap_err();
        assert_eq!(error, ReadError::Interrupted { path: path(lost) });
        assert_eq!(error.code(), Code::DataLoss);
        assert!(Contents::of(&token.list()).stamp(&path(lost)).is_err());
    }
    assert_eq!(read(&token, "b"), data(&[("x", "1")]));
    let list = token.list();
    let contents = Contents::of(&list);
    // Whoever asks what became of it is told also if nobody knows the path.
    let ended = recover(&contents).ended;
    let told: Vec<_> = ended.into_iter().map(|ended| (ended.mark, ended.path)).collect();
    let expected = [(mark, Some(path("a"))), (PathMark::of(&path("gone")), None)];
    assert!(
        told.len() == 2 && expected.iter().all(|one| told.contains(one)),
        "{told:?}"
    );
}

/// Paths and keys that get in each other's way if boundaries are not exact.
const NAMES: [&str; 8] = ["a", "ab", "a-b", "a.b", "b", "a/b", "a/bc", "a/b/c"];

fn any_secrets() -> impl Strategy<Value = BTreeMap<&'static str, BTreeMap<&'static str, String>>> {
    let key = prop::sample::select(vec!["data", "x", "y.z", "_", "of-a"]);
    let values = prop::collection::btree_map(key, "[a-c]{0,3}", 1..4);
    prop::collection::btree_map(prop::sample::select(NAMES.to_vec()), values, 0..6)
}

fn pairs<'a>(values: &'a BTreeMap<&'static str, String>) -> Vec<(&'a str, &'a str)> {
    values.iter().map(|(key, value)| (*key, value.as_str())).collect()
}

proptest! {
    #[test]
    fn what_is_laid_out_is_read_again(secrets in any_secrets(), order: u64) {
        let mut token = Token { order, ..Token::default() };
        for (name, values) in &secrets {
            token = token.with(name, &secret(1, &pairs(values)));
        }
        let expected: Vec<&str> = secrets.keys().copied().collect();
        prop_assert_eq!(paths(&token), expected);
        for (name, values) in &secrets {
            prop_assert_eq!(token.read(name), Ok(secret(1, &pairs(values))));
        }
    }

    /// The original writes in any order, and need not write metadata. Without it the key `data` of a path with slashes is also a
    /// key of the path above, and is listed there.
    #[test]
    fn what_the_original_lays_out_is_read(secrets in any_secrets(), order: u64, metadata: bool) {
        let mut token = Token { order, ..Token::default() };
        let (mut expected, mut listed) = (BTreeMap::<&str, Vec<(&str, &str)>>::new(), BTreeSet::new());
        for (name, values) in &secrets {
            for (key, value) in pairs(values) {
                expected.entry(name).or_default().push((key, value));
                match name.rsplit_once('/').filter(|_| key == "data" && !metadata) {
                    Some((above, last)) => {
                        expected.entry(above).or_default().push((last, value));
                        listed.insert(above);
                    }
                    None => {
                        listed.insert(name);
                    }
                }
                let label = if key == "data" { (*name).to_owned() } else { format!("{name}/{key}") };
                token.add(&label, Some(value));
            }
            if metadata {
                token.add(&format!("{name}/_metadata"), Some("{}"));
            }
        }
        prop_assert_eq!(paths(&token), Vec::from_iter(listed));
        for (name, pairs) in expected {
            prop_assert_eq!(read(&token, name), data(&pairs));
        }
    }

    #[test]
    fn any_labels_and_values_are_sorted(
        objects in prop::collection::vec(("[ab./_ ]{0,6}(/_metadata)?", prop::option::of("[{}a]{0,3}")), 0..12),
    ) {
        let mut token = Token::default();
        for (label, value) in &objects {
            token.add(label, value.as_deref());
        }
        let list = token.list();
        let contents = Contents::of(&list);
        let pieces: usize = contents.paths().map(|path| contents.pieces(path).len()).sum();
        prop_assert_eq!(pieces + contents.usage().foreign, objects.len());
        for path in contents.paths() {
            let _ = contents.describe(path);
        }
    }
}
