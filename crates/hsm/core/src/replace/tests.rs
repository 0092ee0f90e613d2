use super::*;
use crate::limits::Profile;
use crate::model::{Fault, Token, path, replace, secret, tombstone};
use crate::recover::End;

fn plan_with(token: &Token, at: &str, wish: &Secret, expected: Expected) -> Result<Vec<Op<u64>>, WriteError> {
    replace(
        &Contents::of(&token.list()),
        &path(at),
        wish,
        expected,
        &Limits::default(),
    )
}

fn plan_of(token: &Token, at: &str, wish: &Secret) -> Vec<Op<u64>> {
    plan_with(token, at, wish, Expected::Any).unwrap_or_else(|error| panic!("{error}"))
}

fn written(token: &Token, at: &str, wish: &Secret) -> Token {
    let mut after = token.clone();
    after.run(&plan_of(token, at, wish), None).unwrap();
    after
}

fn shown(ops: &[Op<u64>]) -> Vec<String> {
    ops.iter().map(ToString::to_string).collect()
}

#[test]
fn all_that_is_new_is_there_before_anything_old_goes() {
    let token = Token::default().with("a", &secret(1, &[("x", "1"), ("y", "2")]));
    let steps = shown(&plan_of(
        &token,
        "a",
        &secret(2, &[("x", "1"), ("y", "3"), ("z", "4")]),
    ));
    let journal = format!("create .trustplane/journal/{}/", PathMark::of(&path("a")));
    assert!(steps[0].starts_with(&journal), "{}", steps[0]);
    let expected = [
        "create .trustplane/generation/_metadata",
        "create a/_metadata",
        "create a/y",
        "create a/z",
        "destroy an object",
        "destroy an object",
        "destroy what step 0 made",
    ];
    assert_eq!(steps[1..], expected);
}

#[test]
fn a_secret_is_replaced_as_a_whole_and_nothing_of_ours_is_left() {
    let token = Token::default().with("ab", &secret(1, &[("x", "1")]));
    let first = written(&token, "a", &secret(1, &[("x", "1"), ("data", "2")]));
    assert_eq!(first.read("a"), Ok(secret(1, &[("x", "1"), ("data", "2")])));
    let second = written(&first, "a", &secret(2, &[("y", "3")]));
    assert_eq!(second.read("a"), Ok(secret(2, &[("y", "3")])));
    assert_eq!(second.read("ab"), token.read("ab"));
    let expected = token.clone().with("a", &secret(2, &[("y", "3")]));
    assert_eq!(second.snapshot(), expected.snapshot());
    assert_eq!((first.generation(), second.generation()), ((1, 1), (1, 2)));
}

#[test]
fn what_is_there_already_is_not_written_again() {
    let token = Token::default().with("a", &secret(1, &[("x", "1")]));
    assert_eq!(plan_of(&token, "a", &secret(1, &[("x", "1")])), []);
}

#[test]
fn delete_leaves_a_tombstone_and_purge_leaves_nothing() {
    let token = Token::default()
        .with("a", &secret(1, &[("x", "1")]))
        .with("a/b", &secret(1, &[("x", "1")]));
    let deleted = written(&token, "a", &tombstone(2));
    assert_eq!(deleted.read("a"), Ok(tombstone(2)));
    let purge = |version| {
        purge(
            &Contents::of(&deleted.list()),
            &path("a"),
            version,
            None,
            &Limits::default(),
        )
    };
    let error = purge(3).unwrap_err();
    assert_eq!(error.to_string(), "a: there is no tombstone of version 3");
    let mut purged = deleted.clone();
    purged.run(&purge(2).unwrap(), None).unwrap();
    assert_eq!(purged.read("a").unwrap_err().code(), Code::NotFound);
    let other = Token::default().with("a/b", &secret(1, &[("x", "1")]));
    assert_eq!(purged.snapshot(), other.snapshot());
    // What lives is not purged.
    let live = super::purge(
        &Contents::of(&token.list()),
        &path("a"),
        1,
        None,
        &Limits::default(),
    );
    assert_eq!(live.unwrap_err().code(), Code::FailedPrecondition);
}

#[test]
fn a_secret_has_keys_unless_it_was_deleted() {
    let token = Token::default();
    let mut dead_with_keys = secret(1, &[("x", "1")]);
    dead_with_keys.metadata.stamp.deleted = true;
    for bad in [secret(1, &[]), dead_with_keys] {
        let error = plan_with(&token, "a", &bad, Expected::Any).unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument);
    }
}

#[test]
fn a_writer_that_expects_another_version_is_refused() {
    let token = Token::default()
        .with("a", &secret(3, &[("x", "1")]))
        .with("dead", &tombstone(5));
    let wish = secret(9, &[("x", "2")]);
    let refused = |at, expected| plan_with(&token, at, &wish, expected).unwrap_err();
    let error = refused("a", Expected::Version(2));
    assert_eq!(error.to_string(), "a: expected version 2, found version 3");
    assert_eq!(error.code(), Code::FailedPrecondition);
    assert_eq!(
        refused("a", Expected::Absent).to_string(),
        "a: expected nothing, found version 3"
    );
    assert_eq!(
        refused("b", Expected::Version(1)).to_string(),
        "b: expected version 1, found nothing"
    );
    for (at, good) in [
        ("a", Expected::Version(3)),
        ("b", Expected::Absent),
        ("dead", Expected::Absent),
        ("dead", Expected::Version(5)),
    ] {
        assert!(plan_with(&token, at, &wish, good).is_ok(), "{at} {good}");
    }
}

#[test]
fn what_cannot_be_read_is_written_anew_only_by_one_who_expects_anything() {
    let token = Token::default()
        .with_object("a/x", Some("1"))
        .with_object("a/_metadata", Some("damaged"));
    let wish = secret(2, &[("y", "2")]);
    let error = plan_with(&token, "a", &wish, Expected::Version(1)).unwrap_err();
    assert_eq!(error.code(), Code::DataLoss);
    let mended = written(&token, "a", &wish);
    assert_eq!(mended.snapshot(), Token::default().with("a", &wish).snapshot());
}

#[test]
fn an_epoch_never_falls() {
    let epoch = |epoch, version| {
        let mut wish = secret(version, &[("x", &format!("{version}"))]);
        wish.metadata.stamp.epoch = epoch;
        wish
    };
    let token = written(&Token::default(), "a", &epoch(Some(4), 1));
    // Whichever secret the newer writer wrote, the older one is too late.
    for at in ["a", "b"] {
        let error = plan_with(&token, at, &epoch(Some(3), 2), Expected::Any).unwrap_err();
        assert_eq!(error.code(), Code::FailedPrecondition);
        assert!(
            error
                .to_string()
                .ends_with("has epoch 3, but the token was written in epoch 4"),
            "{error}"
        );
        assert!(plan_with(&token, at, &epoch(Some(4), 2), Expected::Any).is_ok());
    }
    // One without an epoch, such as the original, may write, and the token remembers.
    let token = written(&token, "a", &epoch(None, 2));
    let mut token = written(&token, "a", &tombstone(3));
    let ops = purge(
        &Contents::of(&token.list()),
        &path("a"),
        3,
        None,
        &Limits::default(),
    )
    .unwrap();
    token.run(&ops, None).unwrap();
    assert!(plan_with(&token, "b", &epoch(Some(3), 2), Expected::Any).is_err());
}

#[test]
fn a_label_of_another_secret_is_refused_before_anything_is_written() {
    let token = Token::default()
        .with("a", &secret(1, &[("b", "1")]))
        .with("c/d", &secret(1, &[("x", "1")]));
    let refused = |at: &str, wish: &Secret| plan_with(&token, at, wish, Expected::Any).unwrap_err();
    let plain = secret(1, &[("x", "1")]);
    assert_eq!(
        refused("a/b", &plain).to_string(),
        "a/b: the object a/b belongs to the secret a"
    );
    assert_eq!(refused("a/b", &tombstone(1)).code(), Code::FailedPrecondition);
    let with_d = secret(1, &[("d", "1")]);
    assert_eq!(
        refused("c", &with_d).to_string(),
        "c: the object c/d belongs to the secret c/d"
    );
    // Also without metadata, and also if the path below has no key `data`.
    let seed = Token::default().with_object("a/b", Some("1"));
    assert!(plan_with(&seed, "a/b", &plain, Expected::Any).is_err());
    assert!(plan_with(&seed, "a", &secret(1, &[("b", "2")]), Expected::Any).is_ok());
    assert!(plan_with(&token, "a/c", &plain, Expected::Any).is_ok());
    assert!(plan_with(&token, "c", &plain, Expected::Any).is_ok());
}

#[test]
fn objects_of_the_seeds_are_replaced_with_their_secret() {
    let seed = Token::default()
        .with_object("a/x", Some("1"))
        .with_object("a/y", Some("2"))
        .with_object("ab/x", Some("1"));
    let wish = secret(1, &[("x", "1"), ("z", "3")]);
    let expected = Token::default().with("a", &wish).with_object("ab/x", Some("1"));
    assert_eq!(written(&seed, "a", &wish).snapshot(), expected.snapshot());
}

#[test]
fn whatever_a_secret_is_made_of_is_replaced_with_it() {
    let odd = Token::default()
        .with("a", &secret(1, &[("x", "1")]))
        .with_object("a/x", Some("1"))
        .with_object("a/x", Some("other"))
        .with_object("a/data", Some("1"))
        .with_object("a/my key", Some("1"))
        .with_object("a/dark", None)
        .with_object("a/_metadata", Some("{}"));
    let wish = secret(2, &[("x", "1")]);
    assert_eq!(
        written(&odd, "a", &wish).snapshot(),
        Token::default().with("a", &wish).snapshot()
    );
}

#[test]
fn a_path_with_work_left_is_recovered_first_and_others_need_not_wait() {
    let new = secret(2, &[("x", "2")]);
    let mut token = Token::default().with("a", &secret(1, &[("x", "1")]));
    let ops = plan_of(&token, "a", &new);
    assert_eq!(token.run(&ops, Some(ops.len() - 1)), Err(Fault::Crash));
    let error = plan_with(&token, "a", &new, Expected::Any).unwrap_err();
    assert!(matches!(error, WriteError::RecoverFirst { .. }), "{error}");
    let other = secret(1, &[("y", "1")]);
    let ops = plan_of(&token, "b", &other);
    token.run(&ops, None).unwrap();
    assert_eq!(token.read("b"), Ok(other.clone()));
    assert_eq!(token.recover(), Ok(vec![End::Finished]));
    assert_eq!((token.read("a"), token.read("b")), (Ok(new.clone()), Ok(other)));
    assert!(plan_with(&token, "a", &new, Expected::Any).is_ok());
}

#[test]
fn limits_are_checked_before_anything_is_written() {
    let token = Token::default();
    let plan = |at: &str, wish: &Secret, limits: &Limits| {
        replace(
            &Contents::of(&token.list()),
            &path(at),
            wish,
            Expected::Any,
            limits,
        )
    };
    let opensc = Profile::PicoHsm.limits();
    let name = "n".repeat(200);
    let key = "k".repeat(53);
    assert!(plan(&name, &secret(1, &[(&key, "1")]), &opensc).is_ok());
    let error = plan(&name, &secret(1, &[(&format!("{key}k"), "1")]), &opensc).unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    let error = plan("a", &secret(1, &[("x", &"v".repeat(4097))]), &opensc).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("a: the value of a/x has 4097 bytes"),
        "{error}"
    );
    // The metadata is an object too.
    let mut wordy = secret(1, &[("x", "1")]);
    wordy.metadata.description = "d".repeat(4097);
    assert!(plan("a", &wordy, &opensc).is_err());
}

#[test]
fn room_is_needed_for_both_copies_and_the_journal() {
    let old = secret(1, &[("x", "1"), ("y", "2")]);
    let token = written(&Token::default(), "a", &old);
    assert_eq!(token.len(), 4);
    let wish = secret(2, &[("x", "3"), ("y", "2")]);
    // Four objects, a journal, new metadata and one new value; the generation takes the place of the one before it.
    for (objects, fits) in [(6, false), (7, true)] {
        let limits = Limits {
            objects: Some(objects),
            ..Limits::default()
        };
        let plan = replace(
            &Contents::of(&token.list()),
            &path("a"),
            &wish,
            Expected::Any,
            &limits,
        );
        assert_eq!(plan.is_ok(), fits, "{objects}");
        // The limit is exactly what a token needs.
        let mut tight = Token {
            capacity: Some(objects),
            ..token.clone()
        };
        assert_eq!(
            tight.run(&plan_of(&token, "a", &wish), None).is_ok(),
            fits,
            "{objects}"
        );
        if let Err(error) = plan {
            assert_eq!(error.code(), Code::ResourceExhausted);
        }
    }
    let bytes: usize = token.list().iter().map(Found::size).sum();
    let limits = |bytes| Limits {
        bytes: Some(bytes),
        ..Limits::default()
    };
    let plan = |limits| {
        replace(
            &Contents::of(&token.list()),
            &path("a"),
            &wish,
            Expected::Any,
            &limits,
        )
    };
    assert_eq!(
        plan(limits(bytes + 100)).unwrap_err().code(),
        Code::ResourceExhausted
    );
    assert!(plan(limits(bytes + 500)).is_ok());
}

/// A token with as many secrets of two keys as it takes, and its limits.
fn filled(limits: &Limits) -> (Token, usize) {
    let mut token = Token::default();
    for number in 0.. {
        let wish = secret(1, &[("x", "1"), ("y", "2")]);
        let at = path(&format!("s{number}"));
        match replace(&Contents::of(&token.list()), &at, &wish, Expected::Absent, limits) {
            Ok(ops) => token.run(&ops, None).unwrap(),
            Err(error) => {
                assert_eq!(error.code(), Code::ResourceExhausted, "{error}");
                return (token, number);
            }
        }
    }
    unreachable!()
}

#[test]
fn a_token_that_is_filled_up_to_its_limit_can_still_be_changed_and_emptied() {
    let objects = Limits {
        objects: Some(30),
        ..Limits::default()
    };
    let bytes = Limits {
        bytes: Some(4000),
        ..Limits::default()
    };
    for limits in [objects, bytes] {
        let (full, count) = filled(&limits);
        assert!(count > 4, "{count}");
        let mut token = Token {
            capacity: limits.objects,
            ..full
        };
        for number in 0..count {
            let at = path(&format!("s{number}"));
            let newer = secret(2, &[("x", "3"), ("y", "4")]);
            for wish in [newer, tombstone(3)] {
                let ops = replace(&Contents::of(&token.list()), &at, &wish, Expected::Any, &limits);
                token.run(&ops.unwrap(), None).unwrap();
            }
            let ops = purge(&Contents::of(&token.list()), &at, 3, None, &limits);
            token.run(&ops.unwrap(), None).unwrap();
        }
        assert_eq!(token.snapshot(), []);
    }
}

#[test]
fn a_token_that_another_tool_has_filled_is_changed_as_far_as_there_is_room() {
    let mut token = Token::default()
        .with("live", &secret(1, &[("x", "1")]))
        .with("dead", &tombstone(4))
        .with_object("of another tool", Some("1"));
    token.add_object(&Generation { counter: 5, epoch: 0 }.object());
    for room in 0..3 {
        let limits = Limits {
            objects: Some(token.len() + room),
            ..Limits::default()
        };
        let mut tight = Token {
            capacity: limits.objects,
            ..token.clone()
        };
        let list = tight.list();
        let contents = Contents::of(&list);
        let delete = replace(&contents, &path("live"), &tombstone(2), Expected::Any, &limits);
        assert_eq!(delete.is_ok(), room == 2, "{room}");
        // What was deleted can be removed however full it is, and makes room.
        let ops = purge(&contents, &path("dead"), 4, None, &limits).unwrap();
        tight.run(&ops, None).unwrap();
        assert_eq!(tight.read("dead").unwrap_err().code(), Code::NotFound);
        assert_eq!(tight.generation(), (1, 6));
        token.order += 1;
    }
}

#[test]
fn a_secret_of_which_no_second_copy_fits_is_written_all_the_same() {
    let names: Vec<String> = (0..20).map(|n| format!("key-{n}")).collect();
    let pairs: Vec<_> = names.iter().map(|name| (name.as_str(), "1")).collect();
    let limits = Limits {
        objects: Some(30),
        ..Limits::default()
    };
    let plan = |token: &Token, wish: &Secret| {
        replace(
            &Contents::of(&token.list()),
            &path("a"),
            wish,
            Expected::Any,
            &limits,
        )
    };
    let mut token = Token::default();
    let ops = plan(&token, &secret(1, &pairs)).unwrap();
    token.run(&ops, None).unwrap();
    // It can be changed by and by, and deleted.
    let mut some = secret(2, &pairs);
    some.data.extend(crate::model::data(&[("key-0", "2")]));
    assert!(plan(&token, &some).is_ok());
    assert!(plan(&token, &tombstone(2)).is_ok());
}

#[test]
fn a_counter_that_is_forged_to_the_highest_begins_anew() {
    for counter in [HIGHEST - 2, HIGHEST - 1] {
        let mut token = Token::default().with("a", &secret(1, &[("x", "1")]));
        token.add_object(&Generation { counter, epoch: 3 }.object());
        let after = written(&token, "a", &secret(2, &[("x", "2")]));
        let now = Contents::of(&after.list()).generation();
        assert!(
            now.counter != counter && now.counter > 0 && now.epoch == 3,
            "{now:?}"
        );
        // So its journal can be followed.
        let ops = plan_of(&token, "a", &secret(2, &[("x", "2")]));
        for steps in 1..ops.len() {
            let mut token = token.clone();
            token.run(&ops, Some(steps)).unwrap_err();
            let ends = token.recover().unwrap();
            assert!(matches!(ends[..], [End::Finished | End::Undone]), "{ends:?}");
        }
    }
}

#[test]
fn a_hundred_keys_are_changed_behind_one_small_journal() {
    let names: Vec<String> = (0..100).map(|n| format!("key-{n}")).collect();
    let all = |value| {
        let pairs: Vec<_> = names.iter().map(|name| (name.as_str(), value)).collect();
        secret(1, &pairs)
    };
    let token = Token::default().with("a", &all("1"));
    let ops = plan_of(&token, "a", &all("2"));
    let [Op::Create(journal), ..] = &ops[..] else {
        panic!("a journal comes first")
    };
    assert!(journal.value.len() < 1500, "{}", journal.value.len());
    // 100 values are made and 100 destroyed; metadata is the same.
    assert_eq!(ops.len(), 2 + 100 + 100 + 1);
}

#[test]
fn no_error_and_no_step_shows_a_value() {
    let token = Token::default().with("a", &secret(1, &[("b", "hunter2")]));
    let wish = secret(2, &[("x", "hunter2")]);
    let texts = [
        format!("{:?}", plan_of(&token, "a", &wish)),
        format!("{:?}", plan_with(&token, "a/b", &wish, Expected::Any)),
        format!("{:?}", plan_with(&token, "a", &wish, Expected::Absent)),
        format!("{:?}", Contents::of(&token.list())),
    ];
    for text in texts {
        assert!(!text.contains("hunter2") && !text.contains("104, 117"), "{text}");
    }
}

#[test]
fn what_is_left_of_metadata_alone_can_be_purged() {
    let token = Token::default()
        .with("b", &secret(1, &[("x", "1")]))
        .with_object("a/_metadata", None);
    assert_eq!(token.read("a").unwrap_err().code(), Code::DataLoss);
    let list = token.list();
    let contents = Contents::of(&list);
    for plan in [
        purge(&contents, &path("a"), 3, None, &Limits::default()),
        purge_without_journal(&contents, &path("a"), 3, None),
    ] {
        let mut purged = token.clone();
        purged.run(&plan.unwrap(), None).unwrap();
        assert_eq!(purged.read("a").unwrap_err().code(), Code::NotFound);
        assert_eq!(purged.read("b"), token.read("b"));
    }
    // Where a value is left, there is something to lose.
    let token = token.with_object("a/x", Some("1"));
    let list = token.list();
    let refused = purge(&Contents::of(&list), &path("a"), 3, None, &Limits::default());
    assert_eq!(refused.unwrap_err().code(), Code::DataLoss);
}
