//! Crashes after every step, in changes and in their recovery, and tools that come in between.

mod crashes;
mod halves;
mod sequences;
mod strangers;

use super::*;
use crate::limits::Limits;
use crate::model::{Token, path, replace};
use crate::secret::Secret;
use crate::version::Expected;

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
