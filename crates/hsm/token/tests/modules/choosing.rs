//! A token is chosen by what it is, before any PIN is tried.

use std::path::Path;

use trustplane_hsm_token::{ChoiceError, Module, PinTries, Selector, TokenError};
use trustplane_pkcs11_shim::pkcs11::{CKR_DEVICE_ERROR, CKR_TOKEN_NOT_PRESENT};
use trustplane_pkcs11_shim::{Action, Control, Fault};

use crate::stage::Stage;

suite! {
    on every module:
        tokens_are_told_apart_by_serial_label_and_reader_and_never_by_position,
        another_token_in_the_chosen_ones_slot_is_refused,
        a_slot_that_cannot_be_read_keeps_nobody_from_the_others,
        a_reader_is_known_by_the_serial_in_its_name_as_a_whole_word,
        a_process_has_one_module_and_says_why_it_cannot_load_another;
}

fn tokens_are_told_apart_by_serial_label_and_reader_and_never_by_position(stage: &Stage) {
    let mut module = stage.shimmed();
    let serials = ["a", "b", "b"].map(|label| stage.provision(&mut module, label).serial);
    let inventory = module.inventory().unwrap();
    // There is a blank one in the end.
    assert_eq!((inventory.tokens.len(), inventory.bad.len()), (4, 0));
    for serial in &serials {
        let token = inventory.choose(&Selector::serial(serial).unwrap()).unwrap();
        assert_eq!(token.serial, *serial);
        // The name of a slot ends with a number of its own.
        let (_, word) = token.reader.rsplit_once(' ').unwrap();
        let by_reader = inventory.choose(&Selector::reader_serial(word).unwrap()).unwrap();
        assert_eq!(by_reader, token);
    }
    let a = inventory.choose(&Selector::label("a").unwrap()).unwrap();
    assert_eq!((a.manufacturer.as_str(), a.model.as_str()), stage.bench.make());
    assert!(!a.firmware.is_empty());
    assert!(a.initialised && a.has_user_pin && !a.write_protected);
    assert_eq!(a.pin_tries, PinTries::Unknown);
    let several = inventory.choose(&Selector::label("b").unwrap()).unwrap_err();
    assert!(matches!(&several, ChoiceError::Several { seen, .. } if seen.tokens.len() == 2));
    let none = inventory.choose(&Selector::label("c").unwrap()).unwrap_err();
    for serial in &serials {
        assert!(none.to_string().contains(serial), "{none}");
    }
    let blank = inventory.blank().unwrap();
    assert!(!blank.initialised && !blank.has_user_pin);
    // Nobody was logged in by any of this, but to make the tokens.
    stage.heal();
    drop(module.open(a).unwrap());
    let calls = stage.shim.calls().unwrap();
    assert!(calls.iter().all(|call| call.function != "C_Login"), "{calls:?}");
}

fn another_token_in_the_chosen_ones_slot_is_refused(stage: &Stage) {
    let mut module = stage.module();
    let info = stage.provision(&mut module, "right");
    let mut wrong = info.clone();
    wrong.serial = "0123456789abcdef".to_owned();
    let error = module.open(&wrong).err().unwrap();
    assert_eq!(error, TokenError::AnotherToken { slot: info.slot });
    assert!(error.needs_initialisation());
    module.open(&info).unwrap();
}

fn a_slot_that_cannot_be_read_keeps_nobody_from_the_others(stage: &Stage) {
    let mut module = stage.shimmed();
    stage.provision(&mut module, "good");
    for (code, function) in [
        (CKR_TOKEN_NOT_PRESENT, "C_GetTokenInfo"),
        (CKR_DEVICE_ERROR, "C_GetSlotInfo"),
    ] {
        // The first slot is the token's, the second the blank one's.
        for (at, there) in [(1, false), (2, true)] {
            stage.set(Control::fault(
                Fault::before(at, Action::Answer(code)).of(function),
            ));
            let inventory = module.inventory().unwrap();
            assert_eq!((inventory.tokens.len(), inventory.bad.len()), (1, 1));
            let choice = inventory.choose(&Selector::label("good").unwrap());
            assert_eq!(choice.is_ok(), there, "{choice:?}");
            if let Err(error) = choice {
                assert!(
                    error.to_string().contains(&format!("{function} answered")),
                    "{error}"
                );
            }
        }
    }
}

fn a_reader_is_known_by_the_serial_in_its_name_as_a_whole_word(stage: &Stage) {
    stage.set(Control {
        reader: Some("Pol Henarejos Pico HSM [CCID Interface] (E6614C31) 00 00".to_owned()),
        ..Control::default()
    });
    let mut module = stage.shimmed();
    stage.provision(&mut module, "pico");
    let inventory = module.inventory().unwrap();
    let choose = |serial: &str| {
        let selector = Selector::of(None, Some("pico"), Some(serial)).unwrap();
        inventory.choose(&selector).map(|token| token.label.clone())
    };
    assert_eq!(choose("E6614C31").unwrap(), "pico");
    assert!(choose("E6614C3").is_err());
    assert!(choose("6614C31").is_err());
}

fn a_process_has_one_module_and_says_why_it_cannot_load_another(stage: &Stage) {
    let absent = Module::load(Path::new("/nowhere/module.so")).unwrap_err();
    assert!(matches!(&absent, TokenError::Load { path, .. } if path == "/nowhere/module.so"));
    // A library that is no module.
    let error = Module::load(Path::new("libc.so.6")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "load PKCS#11 module libc.so.6: it has no C_GetFunctionList"
    );
    let module = stage.module();
    let second = Module::load(&stage.bench.library()).unwrap_err();
    assert!(matches!(second, TokenError::SecondModule { .. }), "{second}");
    drop(module);
    stage.module().inventory().unwrap();
}
