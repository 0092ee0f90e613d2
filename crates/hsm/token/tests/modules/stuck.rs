//! A change that the token does not let anybody end keeps its own path out of service, and no other.

use trustplane_hsm_core::code::Code;
use trustplane_hsm_core::examples::{path, secret};
use trustplane_hsm_core::layout::ReadError;
use trustplane_hsm_core::recover::{End, Loss};
use trustplane_hsm_core::version::Expected;
use trustplane_hsm_token::{Store, StoreError};
use trustplane_pkcs11_shim::pkcs11::CKR_DEVICE_MEMORY;
use trustplane_pkcs11_shim::{Action, Control, Fault};

use crate::raw::Raw;
use crate::secrets::store;
use crate::stage::Stage;

suite! {
    on softhsm:
        an_object_that_nobody_can_destroy_costs_its_own_secret_and_no_other,
        a_change_beside_one_that_is_stuck_is_ended;
}

const TOKEN: &str = "stuck";

/// Has a write of `a` stop where the token refuses to destroy what was there.
fn get_stuck(store: &mut Store<'_>) {
    let error = store.write(&path("a"), &secret(1, &[("k", b"new")]), Expected::Any);
    let error = error.unwrap_err();
    assert!(matches!(error, StoreError::Unknown(_)), "{error}");
    assert!(!error.needs_initialisation());
}

/// All but `a` is served.
fn assert_others_are_served(store: &mut Store<'_>, others: &[&str]) {
    let gone = store.read(&path("a")).unwrap_err();
    assert!(
        matches!(gone, StoreError::Read(ReadError::Interrupted { .. })),
        "{gone}"
    );
    assert_eq!(gone.code(), Some(Code::DataLoss));
    let listing = store.survey(true).unwrap().listing;
    let served = listing.iter().filter(|(_, found)| found.is_ok());
    let served: Vec<&str> = served.map(|(path, _)| path.as_str()).collect();
    assert_eq!(served, others);
    for other in others {
        store.read(&path(other)).unwrap();
    }
    let stuck = store.interrupted();
    let is_stuck = |end| end == End::Lost(Loss::Refused);
    assert!(
        stuck
            .iter()
            .any(|ended| ended.path == Some(path("a")) && is_stuck(ended.end)),
        "{stuck:?}"
    );
}

fn an_object_that_nobody_can_destroy_costs_its_own_secret_and_no_other(stage: &Stage) {
    let mut module = stage.shimmed();
    let info = stage.provision(&mut module, TOKEN);
    let mut opened = store(&module, TOKEN);
    Raw::new(&info).create_for_ever("a/k", "old");
    opened
        .write(&path("b"), &secret(1, &[("k", b"v")]), Expected::Absent)
        .unwrap();
    get_stuck(&mut opened);
    assert_others_are_served(&mut opened, &["b"]);
    opened
        .write(&path("b"), &secret(2, &[("k", b"w")]), Expected::Version(1))
        .unwrap();
    opened
        .write(&path("c"), &secret(1, &[("k", b"v")]), Expected::Absent)
        .unwrap();
    let refused = opened
        .write(&path("a"), &secret(2, &[("k", b"v")]), Expected::Any)
        .unwrap_err();
    assert_eq!(refused.code(), Some(Code::FailedPrecondition), "{refused}");
    drop(opened);
    module.initialise_again().unwrap();
    assert_others_are_served(&mut store(&module, TOKEN), &["b", "c"]);
}

fn a_change_beside_one_that_is_stuck_is_ended(stage: &Stage) {
    let mut module = stage.shimmed();
    let info = stage.provision(&mut module, TOKEN);
    let mut opened = store(&module, TOKEN);
    Raw::new(&info).create_for_ever("a/k", "old");
    get_stuck(&mut opened);
    // Some of these marks come before that of the one that is stuck, and some after it.
    for name in ["b", "c", "d", "e", "f"] {
        let first = secret(1, &[("k", b"v")]);
        opened.write(&path(name), &first, Expected::Absent).unwrap();
        let fault = Fault::before(3, Action::Answer(CKR_DEVICE_MEMORY)).of("C_DestroyObject");
        stage.set(Control::fault(fault));
        let second = secret(2, &[("k", b"w")]);
        opened.write(&path(name), &second, Expected::Version(1)).unwrap();
        assert!(stage.shim.has_failed().unwrap(), "{name}");
        stage.heal();
        assert_eq!(opened.read(&path(name)).unwrap(), second, "{name}");
    }
    assert_others_are_served(&mut opened, &["b", "c", "d", "e", "f"]);
}
