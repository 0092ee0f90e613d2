//! For every change, for every step after which it is interrupted, for every step after which its recovery is interrupted, and
//! once more: the path holds exactly the old value or exactly the new one, and everything else is untouched.

use super::*;
use crate::label::{Label, Meaning};
use crate::model::{Fault, Snapshot, tombstone};
use crate::replace::purge;

/// How often a recovery is itself interrupted.
const DEPTH: usize = 2;

pub struct Case {
    pub name: &'static str,
    pub before: Token,
    pub plan: fn(&Token) -> Vec<Op<u64>>,
}

fn neighbours() -> Token {
    let names = ["ab", "a-b", "a.b", "a/b", "a/b/c"];
    let token = names.iter().fold(Token::default(), |token, name| {
        token.with(name, &secret(1, &[("x", name), ("data", name)]))
    });
    token
        .with_object("a b", Some("of another tool"))
        .with_object("a/b/d/e", Some("seed"))
}

fn full() -> Secret {
    secret(1, &[("x", "1"), ("y", "2"), ("data", "3")])
}

pub fn cases() -> Vec<Case> {
    let used = || {
        let mut token = neighbours().with("a", &full());
        let ops = write(&token, "z", &secret(1, &[("x", "1")]));
        token.run(&ops, None).unwrap();
        token
    };
    let journal = Label::of_journal(PathMark::of(&path("a")), None).to_string();
    vec![
        Case {
            name: "the first write to an empty token",
            before: Token::default(),
            plan: |token| write(token, "a", &full()),
        },
        Case {
            name: "a secret that is new",
            before: neighbours(),
            plan: |token| write(token, "a", &full()),
        },
        Case {
            name: "a secret that is new, below another path",
            before: used(),
            plan: |token| write(token, "a/n", &full()),
        },
        Case {
            name: "every value is changed",
            before: used(),
            plan: |token| write(token, "a", &secret(2, &[("x", "7"), ("y", "8"), ("data", "9")])),
        },
        Case {
            name: "one value is changed",
            before: used(),
            plan: |token| write(token, "a", &secret(2, &[("x", "7"), ("y", "2"), ("data", "3")])),
        },
        Case {
            name: "the metadata alone is changed",
            before: used(),
            plan: |token| {
                write(
                    token,
                    "a",
                    &Secret {
                        metadata: secret(2, &[]).metadata,
                        ..full()
                    },
                )
            },
        },
        Case {
            name: "keys go, come and stay",
            before: used(),
            plan: |token| write(token, "a", &secret(2, &[("x", "1"), ("n", "2")])),
        },
        Case {
            name: "a key comes and one changes, under the same metadata",
            before: used().with("b", &secret(1, &[("y", "1")])),
            plan: |token| write(token, "b", &secret(1, &[("x", "2"), ("y", "2")])),
        },
        Case {
            name: "two values are swapped",
            before: used(),
            plan: |token| write(token, "a", &secret(1, &[("x", "2"), ("y", "1"), ("data", "3")])),
        },
        Case {
            name: "it is deleted",
            before: used(),
            plan: |token| write(token, "a", &tombstone(2)),
        },
        Case {
            name: "it is written again after it was deleted",
            before: used().with("c", &tombstone(2)),
            plan: |token| write(token, "c", &full()),
        },
        Case {
            name: "a tombstone is removed",
            before: used().with("c", &tombstone(2)),
            plan: |token| {
                purge(
                    &Contents::of(&token.list()),
                    &path("c"),
                    2,
                    None,
                    &Limits::default(),
                )
                .unwrap()
            },
        },
        Case {
            name: "a secret of the seeds, without metadata",
            before: neighbours()
                .with_object("a/x", Some("1"))
                .with_object("a/old", Some("2")),
            plan: |token| write(token, "a", &full()),
        },
        Case {
            name: "a secret of the seeds with the keys of the new one",
            before: neighbours()
                .with_object("a/x", Some("8"))
                .with_object("a/y", Some("9")),
            plan: |token| write(token, "a", &secret(1, &[("x", "1"), ("y", "2")])),
        },
        Case {
            name: "copies of one object",
            before: neighbours()
                .with("a", &full())
                .with("a", &full())
                .with_object("a/old", Some("1"))
                .with_object("a/old", Some("1")),
            plan: |token| write(token, "a", &secret(2, &[("x", "1")])),
        },
        Case {
            name: "nothing but copies are removed",
            before: neighbours().with("a", &full()).with("a", &full()),
            plan: |token| write(token, "a", &full()),
        },
        Case {
            name: "objects that contradict each other or cannot be read",
            before: used()
                .with_object("a/x", Some("2"))
                .with_object("a/dark", None)
                .with_object("a/my key", Some("1")),
            plan: |token| write(token, "a", &secret(2, &[("x", "2"), ("n", "3")])),
        },
        Case {
            name: "a path with a journal that cannot be followed",
            before: used()
                .with_object(&journal, Some("damaged"))
                .with_object(&journal, None),
            plan: |token| write(token, "a", &secret(2, &[("x", "1"), ("n", "3")])),
        },
    ]
}

/// How many steps it takes until there is no way back: all that is new is there, or, if nothing is, the journal.
fn turning_point(ops: &[Op<u64>]) -> usize {
    let is_new = |op: &Op<u64>| matches!(op, Op::Create(object) if !object.label.to_string().starts_with(".trustplane/"));
    ops.iter().rposition(is_new).map_or(1, |last| last + 1)
}

/// How many steps these take.
fn count(token: &Token, ops: &[Op<u64>]) -> usize {
    let halves = |handle: &u64| {
        let found = token
            .objects
            .iter()
            .find(|found| found.handle == *handle)
            .unwrap();
        usize::from(token.halves && found.value.is_some())
    };
    let steps = ops.iter().map(|op| match op {
        Op::Create(_) => 1,
        Op::Destroy(handle) => 1 + halves(handle),
        Op::DestroyCreated(_) => 1 + usize::from(token.halves),
    });
    steps.sum()
}

/// Recovers a token, and also after each step of the recovery, and looks at each token that comes out.
fn recover_in_every_way(token: &Token, depth: usize, look: &mut dyn FnMut(&Token)) {
    let list = token.list();
    let ops = recover(&Contents::of(&list)).ops;
    for steps in 0..count(token, &ops) {
        if depth > 0 {
            let mut again = token.clone();
            assert_eq!(again.run(&ops, Some(steps)), Err(Fault::Crash));
            recover_in_every_way(&again, depth - 1, look);
        }
    }
    let mut done = token.clone();
    done.run(&ops, None).unwrap();
    let list = done.list();
    assert_eq!(
        recover(&Contents::of(&list)).ops,
        [],
        "a second recovery has nothing to do"
    );
    look(&done);
}

/// Has a change be interrupted after every step, and its recovery as well, and says how many tokens came out of that.
fn crash_everywhere(case: &Case, before: &Token) -> usize {
    let ops = (case.plan)(before);
    let mut after = before.clone();
    after.run(&ops, None).unwrap();
    let (old, new): (Snapshot, Snapshot) = (before.snapshot(), after.snapshot());
    assert_ne!(old, new, "{}", case.name);
    let counter = before.generation().1;
    let (all, no_way_back) = (count(before, &ops), count(before, &ops[..turning_point(&ops)]));
    let mut looks = 0;
    for steps in 0..=all {
        let mut token = before.clone();
        let done = token.run(&ops, Some(steps));
        assert_eq!(done.is_ok(), steps == all);
        let finished = steps >= no_way_back;
        let expected = if finished { &new } else { &old };
        recover_in_every_way(&token, DEPTH, &mut |recovered| {
            looks += 1;
            let at = format!("{}, {steps} of {all} steps", case.name);
            let mut left = recovered.snapshot();
            // Of a change whose end its labels do not tell, the last half of the journal stays; everything else is done.
            left.retain(|object| !is_mute_half(object) || expected.contains(object));
            assert_eq!(left, *expected, "{at}");
            // Who knows the generation knows that something has changed.
            let (objects, now) = recovered.generation();
            assert!(
                objects <= 1 && now >= counter && (now > counter || !finished),
                "{at}"
            );
        });
    }
    looks
}

/// Whether it is a journal that was destroyed by half and does not tell the end of its change.
fn is_mute_half((label, value): &(Label, Option<Vec<u8>>)) -> bool {
    value.is_none() && matches!(label.meaning(), Meaning::Journal(_)) && label.turn().is_none()
}

#[test]
fn a_crash_after_any_step_leaves_the_old_value_or_the_new_one() {
    let mut looks = 0;
    for case in cases() {
        for order in 0..2 {
            let before = Token {
                order: order * 7,
                ..case.before.clone()
            };
            looks += crash_everywhere(&case, &before);
        }
    }
    assert!(looks > 2_000, "{looks}");
}

#[test]
fn a_crash_after_any_half_of_a_step_leaves_the_old_value_or_the_new_one() {
    let mut looks = 0;
    for case in cases() {
        let before = Token {
            halves: true,
            ..case.before.clone()
        };
        looks += crash_everywhere(&case, &before);
    }
    assert!(looks > 4_000, "{looks}");
}

#[test]
fn a_token_that_is_full_keeps_the_old_value() {
    for case in cases() {
        let ops = (case.plan)(&case.before);
        let old = case.before.snapshot();
        let mut clean = case.before.clone();
        clean.run(&ops, None).unwrap();
        let creates = ops.iter().filter(|op| matches!(op, Op::Create(_))).count();
        for room in 0..creates {
            let mut token = Token {
                creates: Some(room),
                ..case.before.clone()
            };
            assert_eq!(token.run(&ops, None), Err(Fault::Full), "{}, {room}", case.name);
            if turning_point(&ops) > 1 {
                // Going back makes nothing, so it cannot fail for want of room.
                token
                    .recover()
                    .unwrap_or_else(|fault| panic!("{}, {room}: {fault:?}", case.name));
                assert_eq!(token.snapshot(), old, "{}, {room}", case.name);
            }
        }
    }
}

/// The room is that of a token, not of one write: what is destroyed makes room.
#[test]
fn whatever_the_room_a_recovery_comes_to_an_end() {
    for case in cases() {
        let ops = (case.plan)(&case.before);
        let old = case.before.snapshot();
        let mut clean = case.before.clone();
        clean.run(&ops, None).unwrap();
        let new = clean.snapshot();
        for room in 0..=ops.len() {
            let mut token = Token {
                capacity: Some(case.before.len() + room),
                ..case.before.clone()
            };
            let result = token.run(&ops, None);
            token
                .recover()
                .unwrap_or_else(|fault| panic!("{}, {room}: {fault:?}", case.name));
            let expected = if result.is_ok() || (turning_point(&ops) == 1 && room > 0) {
                &new
            } else {
                &old
            };
            assert_eq!(token.snapshot(), *expected, "{}, {room}", case.name);
        }
    }
}

#[test]
fn several_interrupted_changes_are_ended_together() {
    // Two processes wrote to one token, which they should not have done.
    let before = Token::default()
        .with("a", &secret(1, &[("x", "1")]))
        .with("b", &secret(1, &[("x", "1")]));
    let (wish_a, wish_b) = (secret(2, &[("x", "2")]), secret(2, &[("x", "3")]));
    let (ops_a, ops_b) = (write(&before, "a", &wish_a), write(&before, "b", &wish_b));
    for steps_a in 1..ops_a.len() {
        for steps_b in 1..ops_b.len() {
            let mut token = before.clone();
            token.run(&ops_a, Some(steps_a)).unwrap_err();
            token.run(&ops_b, Some(steps_b)).unwrap_err();
            let value = |at, done, wish: &Secret| {
                if done {
                    wish.clone()
                } else {
                    before.read(at).unwrap()
                }
            };
            let a = value("a", steps_a >= turning_point(&ops_a), &wish_a);
            let b = value("b", steps_b >= turning_point(&ops_b), &wish_b);
            let expected = Token::default().with("a", &a).with("b", &b).snapshot();
            recover_in_every_way(&token, 1, &mut |recovered| {
                assert_eq!(recovered.snapshot(), expected, "{steps_a} {steps_b}");
                assert!(recovered.generation().0 <= 1);
            });
        }
    }
}
