//! A process that dies at any call leaves the old secret or the new one.

use std::os::unix::process::ExitStatusExt;

use trustplane_pkcs11_shim::{Action, Control, Fault, Moment};

use crate::change::{Change, Outcome, Scene, TOKEN};
use crate::secrets::store;
use crate::stage::{Stage, role};

suite! {
    on every module:
        death_after_any_call_of_a_replacement_leaves_old_or_new,
        death_after_any_call_of_a_replacement_that_counts_leaves_old_or_new,
        death_after_any_call_of_a_deletion_leaves_old_or_new,
        death_after_any_call_of_the_deletion_of_a_key_leaves_old_or_new,
        death_after_any_call_of_a_first_write_leaves_old_or_new,
        death_after_any_call_of_a_purge_leaves_old_or_new,
        a_module_that_freezes_at_any_call_and_is_killed_leaves_old_or_new;
}

const SIGABRT: i32 = 6;
const SIGKILL: i32 = 9;

/// Has a process die after every call of a change, one after the other, until it comes through. To die before a call is to die
/// after the one before it.
fn die_at_every_call(stage: &Stage, change: Change) {
    end_at_every_call(stage, change, Moment::After, Action::Abort);
}

fn end_at_every_call(stage: &Stage, change: Change, moment: Moment, action: Action) {
    let mut module = stage.module();
    let scene = Scene::set(stage, &mut module, change);
    let mut outcomes = Vec::new();
    let signal = match action {
        Action::Freeze => SIGKILL,
        _ => SIGABRT,
    };
    for at in 1.. {
        let role = format!("{change:?} {moment:?} {action:?} {at}");
        // So that the fault of the one before is not taken for its own.
        stage.heal();
        let mut victim = stage.start("crashes::victim_as_a_process", &role);
        let status = match action {
            Action::Freeze => victim.kill_when_frozen(stage),
            _ => victim.wait(),
        };
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
        assert_eq!(status.signal(), Some(signal), "call {at}: {status}");
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
        "{} times {action:?} {moment:?} a call of {change:?}, {new} of them with the new secret",
        outcomes.len()
    );
    assert!(outcomes.len() > 12 && new > 1, "{outcomes:?}");
}

fn death_after_any_call_of_a_replacement_leaves_old_or_new(stage: &Stage) {
    die_at_every_call(stage, Change::Replace);
}

fn death_after_any_call_of_a_replacement_that_counts_leaves_old_or_new(stage: &Stage) {
    die_at_every_call(stage, Change::Count);
}

fn death_after_any_call_of_a_deletion_leaves_old_or_new(stage: &Stage) {
    die_at_every_call(stage, Change::Delete);
}

fn death_after_any_call_of_the_deletion_of_a_key_leaves_old_or_new(stage: &Stage) {
    die_at_every_call(stage, Change::DeleteKey);
}

fn death_after_any_call_of_a_first_write_leaves_old_or_new(stage: &Stage) {
    die_at_every_call(stage, Change::First);
}

fn death_after_any_call_of_a_purge_leaves_old_or_new(stage: &Stage) {
    die_at_every_call(stage, Change::Purge);
}

fn a_module_that_freezes_at_any_call_and_is_killed_leaves_old_or_new(stage: &Stage) {
    end_at_every_call(stage, Change::Replace, Moment::Before, Action::Freeze);
}

/// Not a test by itself: what the others start as a process of its own, to die.
#[test]
fn victim_as_a_process() {
    let Some(role) = role() else {
        return;
    };
    let words: Vec<&str> = role.split(' ').collect();
    let change = Change::parse(words[0]).unwrap();
    let at = words[3].parse().unwrap();
    let action = match words[2] {
        "Freeze" => Action::Freeze,
        _ => Action::Abort,
    };
    let fault = match words[1] {
        "Before" => Fault::before(at, action),
        _ => Fault::after(at, action),
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
