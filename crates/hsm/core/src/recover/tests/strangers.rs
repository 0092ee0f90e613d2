//! Another tool changes the token between a crash and its recovery. What it wrote is never destroyed, and what cannot be told is
//! not guessed.

use super::*;
use crate::code::Code;
use crate::label::Label;
use crate::model::tombstone;

/// See [`ALL_NEW`].
const BEFORE_X: usize = 3;
const BEFORE_Z: usize = 4;

/// The original writes: it destroys by prefix, then makes what it was given.
fn original_writes(token: &mut Token, at: &str, wish: &Secret) {
    token.remove_prefix(at);
    let rewritten = std::mem::take(token).with(at, wish);
    *token = rewritten;
}

fn ends(token: &mut Token) -> Vec<End> {
    let ends = token.recover().unwrap();
    assert_eq!(recover(&Contents::of(&token.list())).ops, []);
    ends
}

#[test]
fn what_the_original_wrote_since_stands() {
    for steps in 1..=8 {
        // The write was tried again with the same values, and came through: only time and version differ.
        for retried in [
            secret(3, &[("x", "7"), ("z", "3")]),
            secret(3, &[("x", "1")]),
            tombstone(3),
        ] {
            let mut token = interrupted(&before(), "a", &wish(), steps);
            original_writes(&mut token, "a", &retried);
            assert_eq!(ends(&mut token), [End::Overtaken], "{steps}");
            assert_eq!(token.read("a"), Ok(retried.clone()), "{steps}");
        }
    }
}

#[test]
fn what_the_original_wrote_since_stands_also_if_there_was_nothing_before() {
    let empty = Token::default();
    for steps in 1..=4 {
        let mut token = interrupted(&empty, "a", &wish(), steps);
        let retried = secret(3, &[("x", "7"), ("z", "3")]);
        original_writes(&mut token, "a", &retried);
        assert_eq!(ends(&mut token), [End::Overtaken], "{steps}");
        assert_eq!(token.read("a"), Ok(retried), "{steps}");
    }
}

#[test]
fn a_secret_that_another_tool_deleted_stays_deleted() {
    for steps in 1..=8 {
        let mut token = interrupted(&before(), "a", &wish(), steps);
        token.remove_prefix("a/");
        assert_eq!(ends(&mut token), [End::Overtaken], "{steps}");
        assert_eq!(token.read("a").unwrap_err().code(), Code::NotFound, "{steps}");
    }
}

#[test]
fn a_key_that_another_tool_added_stays() {
    // After the turning point it stands beside the new value.
    let mut token = interrupted(&before(), "a", &wish(), ALL_NEW + 1);
    token.add("a/added", Some("9"));
    assert_eq!(ends(&mut token), [End::Finished]);
    assert_eq!(
        token.read("a"),
        Ok(secret(2, &[("x", "7"), ("z", "3"), ("added", "9")]))
    );
    // Before anything new is there it stands beside the old one.
    let mut token = interrupted(&before(), "a", &wish(), 2);
    token.add("a/added", Some("9"));
    assert_eq!(ends(&mut token), [End::Overtaken]);
    assert_eq!(
        token.read("a"),
        Ok(secret(1, &[("x", "1"), ("y", "2"), ("added", "9")]))
    );
}

#[test]
fn a_mixture_is_not_guessed_at_and_is_mended_by_the_next_write() {
    let added = |token: &mut Token| token.add("a/added", Some("9"));
    let removed = |token: &mut Token| token.remove("a/y");
    let changed = |token: &mut Token| {
        token.remove("a/y");
        token.add("a/y", Some("changed"));
    };
    let tools: [fn(&mut Token); 3] = [added, removed, changed];
    for (tool, steps) in tools
        .into_iter()
        .flat_map(|tool| [(tool, BEFORE_X), (tool, BEFORE_Z)])
    {
        let mut token = interrupted(&before(), "a", &wish(), steps);
        tool(&mut token);
        let untouched = token.snapshot();
        assert_eq!(ends(&mut token), [End::Lost(Loss::Mixture)]);
        assert_eq!(token.snapshot(), untouched, "nothing is destroyed");
        assert_eq!(token.read("a").unwrap_err().code(), Code::DataLoss);
        assert_eq!(token.read("ab"), before().read("ab"));
        let mended = secret(4, &[("x", "1")]);
        let ops = write(&token, "a", &mended);
        token.run(&ops, None).unwrap();
        let expected = Token::default()
            .with("a", &mended)
            .with("ab", &secret(1, &[("x", "1")]));
        assert_eq!(token.snapshot(), expected.snapshot());
    }
}

#[test]
fn a_mixture_that_is_mended_can_be_interrupted_too() {
    let mut token = interrupted(&before(), "a", &wish(), BEFORE_Z);
    token.add("a/added", Some("9"));
    let lost = token.clone();
    let mended = secret(4, &[("x", "1")]);
    let ops = write(&lost, "a", &mended);
    for steps in 1..ops.len() {
        let mut token = lost.clone();
        token.run(&ops, Some(steps)).unwrap_err();
        let end = ends(&mut token);
        if end == [End::Finished] {
            assert_eq!(token.read("a"), Ok(mended.clone()), "{steps}");
        } else {
            // The older journal is there still, and is judged as before.
            assert_eq!(end, [End::Undone], "{steps}");
            assert_eq!(token.snapshot(), lost.snapshot(), "{steps}");
            assert_eq!(token.read("a").unwrap_err().code(), Code::DataLoss, "{steps}");
        }
    }
}

#[test]
fn a_journal_that_cannot_be_followed_destroys_nothing() {
    let whole = interrupted(&before(), "a", &wish(), BEFORE_Z);
    let (label, bytes) = whole.journals().remove(0);
    let mut newer = bytes.expose().to_vec();
    newer[3] = 9;
    let cut = bytes.expose()[..20].to_vec();
    let cases = [
        (Some(newer), JournalError::Format(9)),
        (Some(cut), JournalError::Damaged),
        (Some(Vec::new()), JournalError::Damaged),
        (None, JournalError::Unreadable),
    ];
    for (value, error) in cases {
        let mut token = whole.clone();
        token.remove(&label.to_string());
        match value {
            Some(value) => token.add_object(&crate::object::NewObject {
                label: label.clone(),
                value: crate::secret::Value::new(value),
            }),
            None => token.add(&label.to_string(), None),
        }
        let untouched = token.snapshot();
        let list = token.list();
        let recovery = recover(&Contents::of(&list));
        let expected = Ended {
            mark: PathMark::of(&path("a")),
            path: Some(path("a")),
            end: End::Lost(Loss::Journal(error)),
        };
        assert_eq!(recovery.ended, [expected]);
        assert_eq!(ends(&mut token), [End::Lost(Loss::Journal(error))]);
        assert_eq!(token.snapshot(), untouched);
        assert_eq!(token.read("a").unwrap_err().code(), Code::DataLoss);
        assert_eq!(token.read("ab"), before().read("ab"));
    }
}

#[test]
fn a_value_behind_a_damaged_journal_does_not_pass_for_a_key_of_the_path_above() {
    // The label of the key `data` of `a/n` is that of the key `n` of `a`.
    let wish = secret(1, &[("data", "new"), ("x", "1")]);
    for steps in 1..=5 {
        let mut token = interrupted(&before(), "a/n", &wish, steps);
        let label = token.journals().remove(0).0.to_string();
        token.remove(&label);
        token.add(&label, Some("damaged"));
        ends(&mut token);
        assert_eq!(token.read("a"), before().read("a"), "{steps}");
        assert_eq!(token.read("a/n").unwrap_err().code(), Code::DataLoss, "{steps}");
    }
}

#[test]
fn a_value_is_its_paths_own_as_long_as_the_journal_says_so() {
    let wish = secret(1, &[("data", "new"), ("x", "1")]);
    let mut token = interrupted(&before(), "a/n", &wish, 4);
    token.remove("a/n/_metadata");
    assert_eq!(ends(&mut token), [End::Undone]);
    assert_eq!(token.snapshot(), before().snapshot());
}

#[test]
fn two_journals_of_one_path_are_one_if_they_are_the_same() {
    let mut token = interrupted(&before(), "a", &wish(), ALL_NEW);
    let (label, value) = token.journals().remove(0);
    token.add_object(&crate::object::NewObject { label, value });
    assert_eq!(ends(&mut token), [End::Finished]);
    assert_eq!(token.read("a"), Ok(wish()));
}

#[test]
fn two_journals_that_contradict_each_other_destroy_nothing() {
    let mut token = interrupted(&before(), "a", &wish(), ALL_NEW);
    let other = interrupted(&before(), "a", &secret(2, &[("x", "8")]), ALL_NEW);
    let (label, value) = other.journals().remove(0);
    token.add_object(&crate::object::NewObject { label, value });
    let untouched = token.snapshot();
    assert_eq!(ends(&mut token), [End::Lost(Loss::Journals)]);
    assert_eq!(token.snapshot(), untouched);
    let ops = write(&token, "a", &wish());
    token.run(&ops, None).unwrap();
    assert_eq!(token.read("a"), Ok(wish()));
    assert_eq!(token.journals().len(), 0);
}

#[test]
fn generations_that_are_too_many_are_made_one() {
    use crate::generation::Generation;
    let mut token = before();
    for counter in [3, 5, 5, 4] {
        token.add_object(&Generation { counter, epoch: 2 }.object());
    }
    token.add(&Label::of_generation().to_string(), Some("damaged"));
    assert_eq!(ends(&mut token), []);
    assert_eq!(token.generation(), (1, 5));
    // Whoever made one with a higher epoch is not forgotten.
    token.add_object(&Generation { counter: 4, epoch: 6 }.object());
    assert_eq!(ends(&mut token), []);
    assert_eq!(
        (token.generation(), Contents::of(&token.list()).epoch()),
        ((2, 5), 6)
    );
    let ops = write(&token, "a", &wish());
    token.run(&ops, None).unwrap();
    assert_eq!(
        (token.generation(), Contents::of(&token.list()).epoch()),
        ((1, 6), 6)
    );
    // A damaged one alone is replaced by the next change.
    let mut token = before().with_object(&Label::of_generation().to_string(), Some("damaged"));
    assert_eq!(ends(&mut token), []);
    let ops = write(&token, "a", &wish());
    token.run(&ops, None).unwrap();
    assert_eq!(token.generation(), (1, 1));
}
