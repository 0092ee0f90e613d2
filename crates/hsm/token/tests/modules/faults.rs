//! A call that fails, anywhere, leaves the old secret or the new one; and so does a recovery that fails.

use trustplane_hsm_core::limits::Limits;
use trustplane_hsm_token::{Module, Store};
use trustplane_pkcs11_shim::pkcs11::*;
use trustplane_pkcs11_shim::{Action, Control, Duration, Fault, Moment};

use crate::change::{Change, Outcome, Scene, TOKEN};
use crate::secrets::store;
use crate::stage::{Stage, log_in};

suite! {
    on softhsm:
        a_recovery_that_fails_at_any_call_is_recovered,
        an_unplugged_device_at_any_call_leaves_old_or_new,
        a_removal_that_is_over_at_once_leaves_old_or_new,
        a_lost_session_at_any_call_leaves_old_or_new,
        a_token_that_is_not_there_at_any_call_leaves_old_or_new,
        no_memory_at_any_call_leaves_old_or_new;
}

/// Has every call of a change fail, one after the other, until it comes through. Says how often it did.
fn fail_at_every_call(stage: &Stage, change: Change, fault: &Fault) {
    let mut module = stage.shimmed();
    let scene = Scene::set(stage, &mut module, change);
    let (mut failed, mut new) = (0, 0);
    for at in 1.. {
        let mut changed = store(&module, TOKEN);
        stage.set(Control::fault(Fault { at, ..fault.clone() }));
        let result = change.make(&mut changed);
        let happened = stage.shim.has_failed().unwrap();
        stage.heal();
        let at_once = match fault.lasts {
            // It goes on, and knows by itself that it has to look.
            Duration::Once => Some(scene.outcome(&mut changed, change)),
            _ => None,
        };
        drop(changed);
        module.initialise_again().unwrap();
        let outcome = scene.outcome(&mut store(&module, TOKEN), change);
        assert!(at_once.is_none_or(|at_once| at_once == outcome), "call {at}");
        if result.is_ok() {
            assert_eq!(outcome, Outcome::New, "call {at}: what was acknowledged is there");
        }
        scene.reset(stage, &mut module);
        if !happened {
            assert!(result.is_ok(), "{result:?}");
            break;
        }
        failed += 1;
        new += usize::from(outcome == Outcome::New);
    }
    println!("{failed} failures of {change:?} by {fault:?}, {new} of them with the new secret");
    assert!(failed > 12 && new > 0, "{failed} {new}");
}

/// All changes, and both moments of each call.
fn fail_everywhere(stage: &Stage, code: CK_RV, lasts: Duration) {
    for change in Change::ALL {
        for moment in [Moment::Before, Moment::After] {
            let fault = Fault {
                moment,
                lasts,
                ..Fault::before(1, Action::Answer(code))
            };
            stage.clear();
            fail_at_every_call(stage, change, &fault);
        }
    }
}

fn an_unplugged_device_at_any_call_leaves_old_or_new(stage: &Stage) {
    fail_everywhere(stage, CKR_DEVICE_REMOVED, Duration::UntilInitialised);
}

fn a_removal_that_is_over_at_once_leaves_old_or_new(stage: &Stage) {
    fail_everywhere(stage, CKR_DEVICE_REMOVED, Duration::Once);
}

fn a_lost_session_at_any_call_leaves_old_or_new(stage: &Stage) {
    fail_everywhere(stage, CKR_SESSION_HANDLE_INVALID, Duration::Once);
}

fn a_token_that_is_not_there_at_any_call_leaves_old_or_new(stage: &Stage) {
    fail_everywhere(stage, CKR_TOKEN_NOT_PRESENT, Duration::UntilInitialised);
}

fn no_memory_at_any_call_leaves_old_or_new(stage: &Stage) {
    fail_everywhere(stage, CKR_DEVICE_MEMORY, Duration::Once);
}

fn a_recovery_that_fails_at_any_call_is_recovered(stage: &Stage) {
    let mut module = stage.shimmed();
    let mut points = 0;
    for change in Change::ALL {
        stage.clear();
        module.initialise_again().unwrap();
        let scene = Scene::set(stage, &mut module, change);
        // The change stops after each object that it makes or destroys.
        for function in ["C_CreateObject", "C_DestroyObject"] {
            for at in 1.. {
                let removed = Action::Answer(CKR_DEVICE_REMOVED);
                let fault = Fault::after(at, removed)
                    .of(function)
                    .lasting(Duration::UntilInitialised);
                let mut changed = store(&module, TOKEN);
                stage.set(Control::fault(fault));
                let result = change.make(&mut changed);
                stage.heal();
                drop(changed);
                if result.is_ok() {
                    scene.reset(stage, &mut module);
                    break;
                }
                points += fail_recovery(stage, &mut module, &scene, change);
            }
        }
    }
    println!("{points} failures of recoveries");
    assert!(points > 200, "{points}");
}

/// Has the recovery fail at every call until it comes through, each time on what the one before has left.
fn fail_recovery(stage: &Stage, module: &mut Module, scene: &Scene, change: Change) -> usize {
    let mut failed = 0;
    for at in 1.. {
        stage.heal();
        module.initialise_again().unwrap();
        let token = log_in(module, TOKEN);
        let removed = Fault::after(at, Action::Answer(CKR_DEVICE_REMOVED));
        stage.set(Control::fault(removed.lasting(Duration::UntilInitialised)));
        let opened = Store::open(token, Limits::default());
        let happened = stage.shim.has_failed().unwrap();
        stage.heal();
        if !happened {
            scene.outcome(&mut opened.unwrap(), change);
            break;
        }
        failed += 1;
    }
    scene.reset(stage, module);
    failed
}
