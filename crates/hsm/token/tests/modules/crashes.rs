//! A process that dies at any call leaves the old secret or the new one.

use std::os::unix::process::ExitStatusExt;

use trustplane_pkcs11_shim::{Action, Control, Fault, Moment};

use crate::change::{Change, Outcome, Scene, TOKEN};
use crate::secrets::store;
use crate::stage::{Stage, role};

suite! {
    on every module:
        death_before_any_call_of_a_replacement_leaves_old_or_new,
        death_after_any_call_of_a_replacement_leaves_old_or_new,
        death_before_any_call_of_a_replacement_that_counts_leaves_old_or_new,
        death_after_any_call_of_a_replacement_that_counts_leaves_old_or_new,
        death_before_any_call_of_a_deletion_leaves_old_or_new,
        death_after_any_call_of_a_deletion_leaves_old_or_new;
}

const SIGABRT: i32 = 6;

/// Has a process die at every call of a change, one after the other, until it comes through.
fn die_at_every_call(stage: &Stage, change: Change, moment: Moment) {
    let mut module = stage.module();
    let scene = Scene::set(stage, &mut module, change);
    let mut outcomes = Vec::new();
    for at in 1.. {
        let mut victim = stage.start(
            "crashes::victim_as_a_process",
            &format!("{change:?} {moment:?} {at}"),
        );
        let status = victim.wait().unwrap();
        module.initialise_again().unwrap();
        let mut left = store(&module, TOKEN);
        let outcome = scene.outcome(&mut left, change);
        drop(left);
        scene.reset(stage, &mut module);
        if status.success() {
            assert!(!stage.shim.has_failed().unwrap());
            assert_eq!(outcome, Outcome::New);
            break;
        }
        assert_eq!(status.signal(), Some(SIGABRT), "call {at}: {status}");
        outcomes.push(outcome);
    }
    // First the old one is left, then the new one, and there is no way back.
    assert!(
        outcomes.is_sorted_by_key(|outcome| *outcome == Outcome::New),
        "{outcomes:?}"
    );
    let new = outcomes
        .iter()
        .filter(|outcome| **outcome == Outcome::New)
        .count();
    println!(
        "{} deaths {moment:?} a call of {change:?}, {new} of them with the new secret",
        outcomes.len()
    );
    assert!(outcomes.len() > 20 && new > 2, "{outcomes:?}");
}

fn death_before_any_call_of_a_replacement_leaves_old_or_new(stage: &Stage) {
    die_at_every_call(stage, Change::Replace, Moment::Before);
}

fn death_after_any_call_of_a_replacement_leaves_old_or_new(stage: &Stage) {
    die_at_every_call(stage, Change::Replace, Moment::After);
}

fn death_before_any_call_of_a_replacement_that_counts_leaves_old_or_new(stage: &Stage) {
    die_at_every_call(stage, Change::Count, Moment::Before);
}

fn death_after_any_call_of_a_replacement_that_counts_leaves_old_or_new(stage: &Stage) {
    die_at_every_call(stage, Change::Count, Moment::After);
}

fn death_before_any_call_of_a_deletion_leaves_old_or_new(stage: &Stage) {
    die_at_every_call(stage, Change::Delete, Moment::Before);
}

fn death_after_any_call_of_a_deletion_leaves_old_or_new(stage: &Stage) {
    die_at_every_call(stage, Change::Delete, Moment::After);
}

/// Not a test by itself: what the others start as a process of its own, to die.
#[test]
fn victim_as_a_process() {
    let Some(role) = role() else {
        return;
    };
    let words: Vec<&str> = role.split(' ').collect();
    let change = Change::parse(words[0]).unwrap();
    let at = words[2].parse().unwrap();
    let fault = match words[1] {
        "Before" => Fault::before(at, Action::Abort),
        _ => Fault::after(at, Action::Abort),
    };
    let stage = Stage::inherited().unwrap();
    stage.heal();
    let module = stage.shimmed();
    let mut store = store(&module, TOKEN);
    stage.set(Control::fault(fault));
    let changed = change.make(&mut store);
    // Taking leave is no part of the change.
    let failed = stage.shim.has_failed().unwrap();
    stage.heal();
    changed.unwrap();
    assert!(!failed);
}
