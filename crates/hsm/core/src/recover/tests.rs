//! Crashes after every step, in changes and in their recovery, and tools that come in between.

mod crashes;
mod halves;
mod sequences;
mod strangers;

use super::*;
use crate::limits::Limits;
use crate::model::{Token, path, replace, secret};
use crate::secret::Secret;
use crate::version::Expected;

/// `a` with two values, and the write that changes one, removes one and adds one.
fn before() -> Token {
    Token::default()
        .with("a", &secret(1, &[("x", "1"), ("y", "2")]))
        .with("ab", &secret(1, &[("x", "1")]))
}

fn wish() -> Secret {
    secret(2, &[("x", "7"), ("z", "3")])
}

/// After how many of its steps all that is new is there: journal, generation, metadata, x, z, then x, y and metadata go, then the
/// journal. There is no generation before it.
const ALL_NEW: usize = 5;

/// The steps of a write that expects anything.
fn write(token: &Token, at: &str, wish: &Secret) -> Vec<Op<u64>> {
    let list = token.list();
    let plan = replace(
        &Contents::of(&list),
        &path(at),
        wish,
        Expected::Any,
        &Limits::default(),
    );
    plan.unwrap_or_else(|error| panic!("{error}"))
}

/// The token after so many steps of a write.
fn interrupted(token: &Token, at: &str, wish: &Secret, steps: usize) -> Token {
    let mut token = token.clone();
    let ops = write(&token, at, wish);
    assert!(steps < ops.len(), "{steps} of {} steps", ops.len());
    token.run(&ops, Some(steps)).unwrap_err();
    token
}
