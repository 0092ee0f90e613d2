//! A token that goes is missed at once, and one that comes back is served again.

use trustplane_hsm_core::version::Expected;
use trustplane_hsm_token::{PinTries, Selector, StoreError, TokenError};
use trustplane_pkcs11_shim::pkcs11::{
    CKR_DEVICE_ERROR, CKR_DEVICE_REMOVED, CKR_SESSION_HANDLE_INVALID, CKR_TOKEN_NOT_PRESENT,
};
use trustplane_pkcs11_shim::{Action, Control, Duration, Fault};

use crate::secrets::{path, secret, store};
use crate::stage::{Stage, find, role};

suite! {
    on every module:
        an_unplugged_token_fails_at_once_and_serves_again_once_initialised_at_no_cost_of_tries,
        a_token_that_comes_after_the_module_is_found_once_it_is_initialised_again,
        an_initialisation_that_failed_can_be_tried_again,
        a_search_that_could_not_be_ended_is_left_behind,
        a_module_that_hangs_can_be_killed_with_its_process_and_the_next_one_recovers;
}

fn an_unplugged_token_fails_at_once_and_serves_again_once_initialised_at_no_cost_of_tries(stage: &Stage) {
    let mut module = stage.shimmed();
    stage.provision(&mut module, "stick");
    let kept = secret(1, &[("k", b"v")]);
    let mut plugged = store(&module, "stick");
    plugged.write(&path("a"), &kept, Expected::Absent).unwrap();
    for code in [
        CKR_DEVICE_REMOVED,
        CKR_TOKEN_NOT_PRESENT,
        CKR_SESSION_HANDLE_INVALID,
        CKR_DEVICE_ERROR,
    ] {
        let gone = Fault::before(1, Action::Answer(code)).lasting(Duration::UntilInitialised);
        stage.set(Control::fault(gone));
        // What is known of the token does not count once it is gone.
        for error in [
            plugged.read(&path("a")).err().unwrap(),
            plugged.list().err().unwrap(),
            plugged.generation().err().unwrap(),
            plugged
                .delete(&path("a"), Default::default(), Expected::Any)
                .err()
                .unwrap(),
        ] {
            assert!(
                matches!(error, StoreError::Token(TokenError::Removed(_))),
                "{error}"
            );
            assert!(error.needs_initialisation());
            assert_eq!(error.code(), None);
        }
        drop(plugged);
        module.initialise_again().unwrap();
        plugged = store(&module, "stick");
        assert_eq!(plugged.read(&path("a")).unwrap(), kept);
        let logins = stage.shim.calls().unwrap();
        let logins: Vec<_> = logins.iter().filter(|call| call.function == "C_Login").collect();
        assert!(logins.len() == 1 && logins[0].code == Some(0), "{logins:?}");
        assert_eq!(find(&module, "stick").pin_tries, PinTries::Unknown);
    }
}

fn a_token_that_comes_after_the_module_is_found_once_it_is_initialised_again(stage: &Stage) {
    let mut module = stage.module();
    let serial = stage.provision(&mut module, "late").serial;
    let selector = Selector::serial(&serial).unwrap();
    let plug = stage.unplug();
    module.initialise_again().unwrap();
    assert!(module.inventory().unwrap().choose(&selector).is_err());
    plug();
    module.initialise_again().unwrap();
    assert_eq!(
        module.inventory().unwrap().choose(&selector).unwrap().label,
        "late"
    );
}

fn an_initialisation_that_failed_can_be_tried_again(stage: &Stage) {
    let mut module = stage.shimmed();
    stage.provision(&mut module, "again");
    for function in ["C_Finalize", "C_Initialize"] {
        stage.set(Control::fault(
            Fault::before(1, Action::Answer(CKR_DEVICE_ERROR)).of(function),
        ));
        let error = module.initialise_again().unwrap_err();
        assert!(
            error.to_string().starts_with(&format!("{function} answered")),
            "{error}"
        );
        module.initialise_again().unwrap();
        find(&module, "again");
    }
}

fn a_search_that_could_not_be_ended_is_left_behind(stage: &Stage) {
    let mut module = stage.shimmed();
    stage.provision(&mut module, "search");
    let mut store = store(&module, "search");
    let kept = secret(1, &[("k", b"v")]);
    store.write(&path("a"), &kept, Expected::Absent).unwrap();
    let fault = Fault::before(1, Action::Answer(CKR_DEVICE_ERROR)).of("C_FindObjectsFinal");
    stage.set(Control::fault(fault));
    assert_eq!(store.list().unwrap().len(), 1);
    assert!(stage.shim.has_failed().unwrap());
    assert_eq!(store.read(&path("a")).unwrap(), kept);
    store
        .delete(&path("a"), crate::secrets::stamp(2), Expected::Version(1))
        .unwrap();
}

fn a_module_that_hangs_can_be_killed_with_its_process_and_the_next_one_recovers(stage: &Stage) {
    let mut module = stage.module();
    stage.provision(&mut module, "frozen");
    let (old, new) = (secret(1, &[("k", b"v")]), secret(2, &[("k", b"w")]));
    store(&module, "frozen")
        .write(&path("a"), &old, Expected::Absent)
        .unwrap();
    let mut other = stage.start("replug::writer_as_a_process", "frozen writer");
    let status = other.kill_when_frozen(stage);
    assert_eq!(status.code(), None, "it has not frozen: {status}");
    module.initialise_again().unwrap();
    let mut store = store(&module, "frozen");
    assert_eq!(store.read(&path("a")).unwrap(), old);
    assert_eq!(store.interrupted().len(), 1);
    store.write(&path("a"), &new, Expected::Version(1)).unwrap();
}

/// Not a test by itself: what the one before starts as a process of its own.
#[test]
fn writer_as_a_process() {
    if role().as_deref() == Some("frozen writer") {
        let stage = Stage::inherited().unwrap();
        let module = stage.shimmed();
        let mut store = store(&module, "frozen");
        // Journal and generation are there, and the new metadata.
        let fault = Fault::after(3, Action::Freeze).of("C_CreateObject");
        stage.set(Control::fault(fault));
        store
            .write(&path("a"), &secret(2, &[("k", b"w")]), Expected::Version(1))
            .unwrap();
    }
}
