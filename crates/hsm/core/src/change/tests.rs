use super::*;
use crate::code::Code;
use crate::model::{Token, path, secret, stamp, tombstone};

fn plan(token: &Token, wish: &Change<'_>, terms: impl Into<Terms>) -> Result<(Token, Secret), WriteError> {
    let list = token.list();
    let contents = Contents::of(&list);
    let (ops, secret) = change(&contents, &path("a"), wish, terms.into(), &Limits::default())?;
    let mut after = token.clone();
    after.run(&ops, None).unwrap();
    Ok((after, secret))
}

fn refused(token: &Token, wish: &Change<'_>, terms: impl Into<Terms>) -> (Code, String) {
    let error = plan(token, wish, terms).unwrap_err();
    (error.code(), error.to_string())
}

fn next() -> Terms {
    Terms::next(Expected::Any)
}

fn holding(secret: &Secret) -> Token {
    Token::default().with("a", secret)
}

#[test]
fn the_next_version_is_one_more_than_what_is_there_whatever_the_stamp_says() {
    let wish = secret(77, &[("k", "new")]);
    for (there, version) in [
        (Token::default(), 1),
        (holding(&secret(0, &[("k", "old")])), 1),
        (holding(&secret(4, &[("k", "old")])), 5),
        // What was deleted was counted too.
        (holding(&tombstone(6)), 7),
        // A seed has no metadata, so nobody has counted.
        (Token::default().with_object("a", Some("old")), 1),
    ] {
        let (after, written) = plan(&there, &Change::Put(&wish), next()).unwrap();
        assert_eq!(written, secret(version, &[("k", "new")]));
        assert_eq!(after.read("a"), Ok(written));
    }
}

#[test]
fn a_version_that_is_given_is_taken_whatever_there_is() {
    let damaged = holding(&secret(4, &[("k", "old")])).with_object("a/k", None);
    let wish = secret(2, &[("k", "new")]);
    let (after, written) = plan(&damaged, &Change::Put(&wish), Expected::Any).unwrap();
    assert_eq!(written, wish);
    assert_eq!(after.read("a"), Ok(wish));
}

#[test]
fn of_what_cannot_be_read_nobody_knows_the_next_version() {
    let wish = secret(0, &[("k", "new")]);
    let there = secret(4, &[("k", "old")]);
    let unreadable = holding(&there).with_object("a/l", None);
    let twice = holding(&there).with_object("a/k", Some("other"));
    let mut uncounted = holding(&there);
    uncounted.remove("a/_metadata");
    uncounted.add("a/_metadata", Some("no JSON"));
    for damaged in [unreadable, twice, uncounted] {
        for change in [
            Change::Put(&wish),
            Change::Delete(stamp(0)),
            Change::DeleteKey(&key("k"), stamp(0)),
        ] {
            let (code, text) = refused(&damaged, &change, next());
            assert_eq!(code, Code::DataLoss, "{text}");
            assert!(
                text.ends_with("; it can be written anew only with a version"),
                "{text}"
            );
        }
    }
}

#[test]
fn after_the_highest_version_there_is_none() {
    let there = holding(&secret(HIGHEST, &[("k", "old")]));
    let wish = secret(0, &[("k", "new")]);
    let told = refused(&there, &Change::Put(&wish), next());
    assert_eq!(
        told,
        (
            Code::FailedPrecondition,
            "a: there is no higher version".to_owned()
        )
    );
    let (_, last) = plan(
        &holding(&secret(HIGHEST - 1, &[("k", "old")])),
        &Change::Put(&wish),
        next(),
    )
    .unwrap();
    assert_eq!(last.metadata.stamp.version, HIGHEST);
}

#[test]
fn what_is_expected_is_judged_in_the_same_look() {
    let there = holding(&secret(4, &[("k", "old"), ("l", "2")]));
    let wish = secret(0, &[("k", "new")]);
    for change in [
        Change::Put(&wish),
        Change::Delete(stamp(0)),
        Change::DeleteKey(&key("k"), stamp(0)),
    ] {
        for (expected, text) in [
            (Expected::Version(3), "a: expected version 3, found version 4"),
            (Expected::Absent, "a: expected nothing, found version 4"),
        ] {
            let told = refused(&there, &change, Terms::next(expected));
            assert_eq!(told, (Code::FailedPrecondition, text.to_owned()));
        }
        let (_, after) = plan(&there, &change, Terms::next(Expected::Version(4))).unwrap();
        assert_eq!(after.metadata.stamp.version, 5);
    }
    let nothing = refused(
        &Token::default(),
        &Change::Put(&wish),
        Terms::next(Expected::Version(1)),
    );
    assert_eq!(nothing.1, "a: expected version 1, found nothing");
}

#[test]
fn a_deletion_that_counts_needs_something_to_delete() {
    let gone = Change::Delete(stamp(9));
    let (after, left) = plan(&holding(&secret(4, &[("k", "old")])), &gone, next()).unwrap();
    assert_eq!((left, after.read("a")), (tombstone(5), Ok(tombstone(5))));
    let told = refused(&Token::default(), &gone, next());
    assert_eq!(told, (Code::NotFound, "a: there is no such secret".to_owned()));
    let told = refused(&holding(&tombstone(4)), &gone, next());
    assert_eq!(told, (Code::NotFound, "a: it was deleted".to_owned()));
    // With a version it stands for itself, because a late copy may still come.
    for there in [Token::default(), holding(&tombstone(4))] {
        assert_eq!(plan(&there, &gone, Expected::Any).unwrap().1, tombstone(9));
    }
}

#[test]
fn a_key_goes_and_the_others_stay_as_they_are() {
    let mut there = secret(4, &[("k", "1"), ("l", "2")]);
    there.metadata.description = "kept".to_owned();
    let without = |name: &str, there: &Secret, terms: Terms| {
        plan(&holding(there), &Change::DeleteKey(&key(name), stamp(9)), terms)
    };
    for (terms, version) in [(next(), 5), (Expected::Any.into(), 9)] {
        let (after, left) = without("k", &there, terms).unwrap();
        let mut expected = secret(version, &[("l", "2")]);
        expected.metadata.description = "kept".to_owned();
        assert_eq!((after.read("a"), left), (Ok(expected.clone()), expected));
    }
    let (_, last) = without("k", &secret(4, &[("k", "1")]), next()).unwrap();
    assert_eq!(last, tombstone(5));
    for (name, there) in [("m", there), ("k", tombstone(4))] {
        let error = without(name, &there, next()).unwrap_err();
        assert_eq!(error.code(), Code::NotFound, "{error}");
    }
}

fn key(name: &str) -> KeyName {
    KeyName::parse(name).unwrap()
}
