//! A PIN is tried once, and never when that could lock a token without an order.

use trustplane_hsm_token::{Attempt, Pin, PinTries, TokenError};
use trustplane_pkcs11_shim::pkcs11::*;
use trustplane_pkcs11_shim::{Action, Control, Duration, Fault, PinTries as Shown};

use crate::raw::{Object, Raw};
use crate::stage::{OFFICER, PIN, Stage, find, log_in, pin};

suite! {
    on every module:
        a_wrong_pin_costs_one_try_and_the_next_one_needs_an_order,
        no_pin_is_tried_by_itself_when_few_tries_are_left_and_none_when_it_is_locked,
        what_a_token_answers_to_a_pin_is_told_without_the_pin,
        a_changed_pin_is_the_only_one_that_works,
        a_blank_token_is_provisioned_also_after_a_failure_and_one_in_use_never;
    // Kryoptic lets nobody make an object before there is a user.
    on softhsm:
        a_token_that_shows_an_object_is_in_use_though_it_has_no_user,
        flags_that_show_at_any_call_of_a_login_cost_one_try_at_most,
        a_change_of_the_pin_that_fails_at_any_call_leaves_the_old_or_the_new_one,
        a_provisioning_that_fails_at_any_call_can_be_done_again;
}

/// How often a PIN was tried since the control was set.
fn tries(stage: &Stage) -> usize {
    let calls = stage.shim.calls().unwrap();
    calls
        .iter()
        .filter(|call| ["C_Login", "C_SetPIN"].contains(&call.function.as_str()))
        .count()
}

fn a_wrong_pin_costs_one_try_and_the_next_one_needs_an_order(stage: &Stage) {
    let mut module = stage.shimmed();
    let info = stage.provision(&mut module, "pin");
    let token = module.open(&info).unwrap();
    stage.heal();
    let told_after = stage.bench.wrong_pins_until_it_tells();
    for tried in 1..=told_after {
        assert_eq!(token.info().unwrap().pin_tries, PinTries::Unknown);
        let wrong = token.log_in(&Pin::new("999999"), Attempt::Automatic).unwrap_err();
        assert!(matches!(wrong, TokenError::PinIncorrect(_)), "{wrong}");
        assert_eq!(tries(stage), tried);
    }
    assert_eq!(token.info().unwrap().pin_tries, PinTries::Low);
    for refused in [
        token.log_in(&pin(), Attempt::Automatic).unwrap_err(),
        token.change_pin(&pin(), &pin(), Attempt::Automatic).unwrap_err(),
    ] {
        assert_eq!(refused, TokenError::PinTriesLow(PinTries::Low));
    }
    assert_eq!(tries(stage), told_after);
    // Not in this session only.
    drop(token);
    module.initialise_again().unwrap();
    let token = module.open(&find(&module, "pin")).unwrap();
    token.log_in(&pin(), Attempt::Automatic).unwrap_err();
    assert_eq!(tries(stage), told_after);
    token.log_in(&pin(), Attempt::Ordered).unwrap();
    assert_eq!(tries(stage), told_after + 1);
    assert_eq!(token.info().unwrap().pin_tries, PinTries::Unknown);
}

fn no_pin_is_tried_by_itself_when_few_tries_are_left_and_none_when_it_is_locked(stage: &Stage) {
    let mut module = stage.shimmed();
    let info = stage.provision(&mut module, "pin");
    for (shown, tries_left, by_order) in [
        (Shown::Low, PinTries::Low, true),
        (Shown::Final, PinTries::Final, true),
        (Shown::Locked, PinTries::Locked, false),
    ] {
        stage.set(Control {
            pin_tries: Some(shown),
            ..Control::default()
        });
        let token = module.open(&info).unwrap();
        let refused = token.log_in(&pin(), Attempt::Automatic).unwrap_err();
        assert_eq!(refused, TokenError::PinTriesLow(tries_left));
        assert_eq!(tries(stage), 0);
        assert_eq!(token.log_in(&pin(), Attempt::Ordered).is_ok(), by_order);
        assert_eq!(tries(stage), usize::from(by_order));
    }
}

fn what_a_token_answers_to_a_pin_is_told_without_the_pin(stage: &Stage) {
    let mut module = stage.shimmed();
    let info = stage.provision(&mut module, "pin");
    let token = module.open(&info).unwrap();
    type Is = fn(&TokenError) -> bool;
    let answers: [(CK_RV, Is); 7] = [
        (CKR_PIN_INCORRECT, |e| matches!(e, TokenError::PinIncorrect(_))),
        (CKR_PIN_LOCKED, |e| matches!(e, TokenError::PinLocked(_))),
        (CKR_PIN_EXPIRED, |e| matches!(e, TokenError::PinExpired(_))),
        (CKR_PIN_LEN_RANGE, |e| matches!(e, TokenError::PinForm(_))),
        (CKR_PIN_INVALID, |e| matches!(e, TokenError::PinForm(_))),
        (CKR_USER_PIN_NOT_INITIALIZED, |e| {
            matches!(e, TokenError::PinNotSet)
        }),
        (CKR_DEVICE_REMOVED, TokenError::needs_initialisation),
    ];
    for (code, is) in answers {
        stage.set(Control::fault(
            Fault::before(1, Action::Answer(code)).of("C_Login"),
        ));
        let error = token.log_in(&pin(), Attempt::Automatic).unwrap_err();
        assert!(is(&error), "{error}");
        let told = format!("{error} {error:?}");
        assert!(!told.contains(PIN), "{told}");
        assert_eq!(tries(stage), 1);
    }
}

fn a_changed_pin_is_the_only_one_that_works(stage: &Stage) {
    let mut module = stage.module();
    let info = stage.provision(&mut module, "pin");
    let new = Pin::new("135790");
    let token = module.open(&info).unwrap();
    let wrong = token
        .change_pin(&Pin::new("999999"), &new, Attempt::Automatic)
        .unwrap_err();
    assert!(matches!(wrong, TokenError::PinIncorrect(_)), "{wrong}");
    token.change_pin(&pin(), &new, Attempt::Ordered).unwrap();
    if stage.bench.has_a_shortest_pin() {
        let short = token
            .change_pin(&new, &Pin::new("1"), Attempt::Ordered)
            .unwrap_err();
        assert!(matches!(short, TokenError::PinForm(_)), "{short}");
    }
    drop(token);
    module.initialise_again().unwrap();
    let token = module.open(&find(&module, "pin")).unwrap();
    token.log_in(&pin(), Attempt::Ordered).unwrap_err();
    token.log_in(&new, Attempt::Ordered).unwrap();
}

fn a_blank_token_is_provisioned_also_after_a_failure_and_one_in_use_never(stage: &Stage) {
    let mut module = stage.shimmed();
    let officer = Pin::new(OFFICER);
    let blank = module.inventory().unwrap().blank().unwrap().clone();
    let unset = module
        .open(&blank)
        .and_then(|token| token.log_in(&pin(), Attempt::Ordered));
    assert!(unset.is_err());
    for label in ["", "a label of more than thirty-two bytes"] {
        let refused = module.provision(&blank, label, &officer, &pin()).unwrap_err();
        assert_eq!(refused, TokenError::TokenLabel);
    }
    // It has a label and an officer, but no user.
    stage.set(Control::fault(
        Fault::before(1, Action::Answer(CKR_DEVICE_ERROR)).of("C_InitPIN"),
    ));
    module.provision(&blank, "dev-a", &officer, &pin()).unwrap_err();
    module.initialise_again().unwrap();
    let half = find(&module, "dev-a");
    assert!(half.initialised && !half.has_user_pin);
    let refused = module
        .open(&half)
        .unwrap()
        .log_in(&pin(), Attempt::Automatic)
        .unwrap_err();
    assert_eq!(refused, TokenError::PinNotSet);
    module.provision(&half, "dev-a", &officer, &pin()).unwrap();
    module.initialise_again().unwrap();

    let info = find(&module, "dev-a");
    let token = log_in(&module, "dev-a");
    Raw::new(&info).create(&Object::new("a/k", "precious"));
    drop(token);
    let refused = module.provision(&info, "dev-b", &officer, &pin()).unwrap_err();
    assert_eq!(
        refused,
        TokenError::InUse {
            label: "dev-a".to_owned()
        }
    );
    // Nor by somebody who has an old picture of it.
    let refused = module.provision(&half, "dev-b", &officer, &pin()).unwrap_err();
    assert!(matches!(
        refused,
        TokenError::InUse { .. } | TokenError::AnotherToken { .. }
    ));
    assert_eq!(log_in(&module, "dev-a").objects().unwrap().found.len(), 1);
}

fn a_token_that_shows_an_object_is_in_use_though_it_has_no_user(stage: &Stage) {
    let mut module = stage.shimmed();
    let officer = Pin::new(OFFICER);
    let blank = module.inventory().unwrap().blank().unwrap().clone();
    stage.set(Control::fault(
        Fault::before(1, Action::Answer(CKR_DEVICE_ERROR)).of("C_InitPIN"),
    ));
    module.provision(&blank, "dev-a", &officer, &pin()).unwrap_err();
    module.initialise_again().unwrap();
    let half = find(&module, "dev-a");
    let raw = Raw::new(&half);
    raw.create(&Object {
        private: false,
        ..Object::new("a/k", "precious")
    });
    stage.heal();
    let refused = module.provision(&half, "dev-a", &officer, &pin()).unwrap_err();
    assert_eq!(
        refused,
        TokenError::InUse {
            label: "dev-a".to_owned()
        }
    );
    let asked = stage.shim.calls().unwrap();
    assert!(asked.iter().all(|call| call.function != "C_InitToken"));
    assert_eq!(raw.all(), [("a/k".to_owned(), b"precious".to_vec())]);
    raw.destroy("a/k");
    drop(raw);
    module.provision(&half, "dev-a", &officer, &pin()).unwrap();
}

fn flags_that_show_at_any_call_of_a_login_cost_one_try_at_most(stage: &Stage) {
    let mut module = stage.shimmed();
    let info = stage.provision(&mut module, "pin");
    for shown in [Shown::Low, Shown::Final, Shown::Locked] {
        let mut refused = 0;
        for since in 1.. {
            module.initialise_again().unwrap();
            stage.set(Control {
                pin_tries: Some(shown),
                since,
                ..Control::default()
            });
            let token = module.open(&info).unwrap();
            let tried = token.log_in(&pin(), Attempt::Automatic);
            assert_eq!(tries(stage), usize::from(tried.is_ok()), "{since}");
            if tried.is_ok() {
                break;
            }
            refused += 1;
        }
        assert!(refused > 2, "{refused}");
    }
}

/// What a device that goes answers, at a call or after it.
fn removals(at: u64) -> [Control; 2] {
    let removed = Action::Answer(CKR_DEVICE_REMOVED);
    [Fault::before(at, removed), Fault::after(at, removed)]
        .map(|fault| Control::fault(fault.lasting(Duration::UntilInitialised)))
}

fn a_change_of_the_pin_that_fails_at_any_call_leaves_the_old_or_the_new_one(stage: &Stage) {
    let mut module = stage.shimmed();
    let info = stage.provision(&mut module, "pin");
    let (mut now, mut next) = (pin(), Pin::new("135790"));
    let (mut failed, mut changed) = (0, 0);
    for at in 1.. {
        let mut happened = false;
        for control in removals(at) {
            stage.set(control);
            let result = module
                .open(&info)
                .and_then(|token| token.change_pin(&now, &next, Attempt::Automatic));
            happened |= stage.shim.has_failed().unwrap();
            assert!(tries(stage) <= 1, "{at}");
            stage.heal();
            module.initialise_again().unwrap();
            let token = module.open(&info).unwrap();
            // One of both is right, and only that.
            let is_new = token.log_in(&next, Attempt::Ordered).is_ok();
            assert!(is_new || token.log_in(&now, Attempt::Ordered).is_ok(), "{at}");
            assert!(is_new || result.is_err(), "{at}");
            failed += usize::from(result.is_err());
            if is_new {
                changed += 1;
                std::mem::swap(&mut now, &mut next);
            }
            drop(token);
            module.initialise_again().unwrap();
        }
        if !happened {
            break;
        }
    }
    assert!(failed > 8 && changed > 2, "{failed} {changed}");
}

fn a_provisioning_that_fails_at_any_call_can_be_done_again(stage: &Stage) {
    let mut module = stage.shimmed();
    let officer = Pin::new(OFFICER);
    let mut failed = 0;
    for at in 1.. {
        let mut happened = false;
        for control in removals(at) {
            stage.clear();
            module.initialise_again().unwrap();
            let blank = module.inventory().unwrap().blank().unwrap().clone();
            stage.set(control);
            let result = module.provision(&blank, "dev-a", &officer, &pin());
            happened |= stage.shim.has_failed().unwrap();
            assert!(tries(stage) <= 1, "{at}");
            stage.heal();
            module.initialise_again().unwrap();
            failed += usize::from(result.is_err());
            let inventory = module.inventory().unwrap();
            let ready = inventory.tokens.iter().any(|token| token.has_user_pin);
            assert!(ready || result.is_err(), "{at}");
            if !ready {
                let again = inventory.tokens.iter().find(|token| token.label == "dev-a");
                let again = again.unwrap_or_else(|| inventory.blank().unwrap()).clone();
                module.provision(&again, "dev-a", &officer, &pin()).unwrap();
                module.initialise_again().unwrap();
            }
            drop(log_in(&module, "dev-a"));
        }
        if !happened {
            break;
        }
    }
    assert!(failed > 10, "{failed}");
}
