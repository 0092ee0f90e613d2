//! What is on a token is read: all of it, whoever wrote it, and never half of it.

use std::collections::BTreeSet;

use trustplane_hsm_core::change::Terms;
use trustplane_hsm_core::code::Code;
use trustplane_hsm_core::generation::Generation;
use trustplane_hsm_core::label::Label;
use trustplane_hsm_core::layout::{Description, ReadError};
use trustplane_hsm_core::limits::Limits;
use trustplane_hsm_core::secret::Secret;
use trustplane_hsm_core::version::Expected;
use trustplane_hsm_token::{Attempt, Module, Objects, Selector, Store, StoreError, TokenError};
use trustplane_pkcs11_shim::pkcs11::{
    CKR_BUFFER_TOO_SMALL, CKR_DEVICE_MEMORY, CKR_DEVICE_REMOVED, CKR_FUNCTION_FAILED, CKR_GENERAL_ERROR,
    CKR_OBJECT_HANDLE_INVALID, CKR_SESSION_HANDLE_INVALID, CKR_TOKEN_NOT_PRESENT,
};
use trustplane_pkcs11_shim::{Action, Control, Duration, Fault};

use crate::raw::{Object, Raw};
use crate::secrets::{self, data, path, secret, store};
use crate::stage::{Stage, log_in, pin, role};

suite! {
    on every module:
        every_object_is_seen_however_many_there_are_and_however_few_are_given_at_once,
        what_the_original_and_its_seeds_wrote_is_read,
        two_objects_for_one_key_are_one_value_or_none,
        an_object_that_cannot_be_read_is_told_and_its_secret_is_not_read_without_it,
        an_object_without_a_readable_label_could_be_anybodys_so_nothing_is_served,
        objects_that_change_while_they_are_read_are_read_again_but_not_for_ever,
        a_lost_login_is_an_error_and_not_an_empty_token,
        what_other_tools_do_is_seen,
        what_another_has_counted_is_counted_on_from,
        a_survey_is_one_look_and_the_generation_one_object,
        an_interrupted_change_is_not_judged_by_half_of_what_is_there;
    on softhsm:
        a_token_that_may_hide_objects_is_neither_read_nor_changed,
        a_read_that_fails_at_any_call_fails_and_is_never_less;
}

fn labels(objects: &Objects) -> Vec<String> {
    let mut labels: Vec<String> = objects
        .found
        .iter()
        .map(|found| found.label.to_string())
        .collect();
    labels.sort();
    labels
}

fn every_object_is_seen_however_many_there_are_and_however_few_are_given_at_once(stage: &Stage) {
    let mut module = stage.shimmed();
    let info = stage.provision(&mut module, "many");
    let mut token = log_in(&module, "many");
    let raw = Raw::new(&info);
    let expected: Vec<String> = (0..230).map(|number| format!("s{number:03}/key")).collect();
    for label in &expected {
        raw.create(&Object::new(label.as_bytes(), label.as_bytes()));
    }
    assert_eq!(labels(&token.objects().unwrap()), expected);
    stage.set(Control {
        batch: Some(7),
        ..Control::default()
    });
    let objects = token.objects().unwrap();
    assert_eq!(labels(&objects), expected);
    assert!(objects.unreadable.is_empty());
    let as_made = |label: &Label, value: &[u8]| label.as_bytes() == value;
    assert!(
        objects
            .found
            .iter()
            .all(|found| as_made(&found.label, found.value.as_ref().unwrap().expose()))
    );
}

fn what_the_original_and_its_seeds_wrote_is_read(stage: &Stage) {
    let mut module = stage.module();
    let info = stage.provision(&mut module, "old");
    let token = log_in(&module, "old");
    let raw = Raw::new(&info);
    let metadata =
        r#"{"description":"a \u003cb\u003e","labels":{"sync.version":"7","team":"x"},"source":"cli"}"#;
    for object in [
        Object::new("db/username", "admin"),
        Object::new("db/password", "s3cr3t"),
        Object::new("db", "the key named data"),
        Object::new("db/_metadata", metadata),
        Object::of_a_seed("secrets/default/test-secret", "old"),
        Object::of_a_seed("api/token", "t"),
        Object {
            private: false,
            ..Object::new("open/key", "k")
        },
        Object::new("no secret of anybody's", "x"),
    ] {
        raw.create(&object);
    }
    let foreign = match stage.bench.takes_labels_of_any_bytes() {
        true => b"\xff\xfe".as_slice(),
        false => b"two words",
    };
    raw.create(&Object::new(foreign, "x"));
    let mut store = Store::open(token, Limits::default()).unwrap();
    let db = store.read(&path("db")).unwrap();
    let expected = data(&[
        ("data", b"the key named data"),
        ("username", b"admin"),
        ("password", b"s3cr3t"),
    ]);
    assert_eq!(db.data, expected);
    assert_eq!(db.metadata.description, "a <b>");
    assert_eq!(db.metadata.stamp.version, 7);
    assert_eq!(db.metadata.labels["team"], "x");
    let read = |store: &mut Store<'_>, text: &str| store.read(&path(text)).map(|secret| secret.data).unwrap();
    assert_eq!(
        read(&mut store, "secrets/default/test-secret"),
        data(&[("data", b"old")])
    );
    assert_eq!(read(&mut store, "api"), data(&[("token", b"t")]));
    assert_eq!(read(&mut store, "open"), data(&[("key", b"k")]));
    assert_eq!(store.capacity().unwrap().usage.foreign, 2);
    // Nothing was written by that.
    assert_eq!(raw.all().len(), 9);
}

fn two_objects_for_one_key_are_one_value_or_none(stage: &Stage) {
    let mut module = stage.module();
    let info = stage.provision(&mut module, "twice");
    let mut store = store(&module, "twice");
    let raw = Raw::new(&info);
    // No module minds that they have one label.
    for (label, value) in [("a/k", "same"), ("a/k", "same"), ("b/k", "one"), ("b/k", "other")] {
        raw.create(&Object::new(label, value));
    }
    assert_eq!(store.read(&path("a")).unwrap().data, data(&[("k", b"same")]));
    let error = store.read(&path("b")).unwrap_err();
    assert_eq!(error.code(), Some(Code::DataLoss), "{error}");
    // To mend it, it is written anew.
    let mended = secret(1, &[("k", b"one")]);
    store.write(&path("b"), &mended, Expected::Any).unwrap();
    assert_eq!(store.read(&path("b")).unwrap(), mended);
    assert_eq!(raw.all().iter().filter(|(label, _)| label == "b/k").count(), 1);
}

fn an_object_that_cannot_be_read_is_told_and_its_secret_is_not_read_without_it(stage: &Stage) {
    let mut module = stage.shimmed();
    let info = stage.provision(&mut module, "sealed");
    let mut token = log_in(&module, "sealed");
    let raw = Raw::new(&info);
    for label in ["a/one", "a/two", "ab/one"] {
        raw.create(&Object::new(label, "x"));
    }
    let seal = Control {
        unreadable: Some("a/two".to_owned()),
        ..Control::default()
    };
    stage.set(seal.clone());
    let objects = token.objects().unwrap();
    assert_eq!(labels(&objects), ["a/one", "a/two", "ab/one"]);
    let [unreadable] = &objects.unreadable[..] else {
        panic!("{:?}", objects.unreadable);
    };
    assert_eq!(unreadable.label, Some(Label::new("a/two")));
    assert_eq!(
        unreadable.reason,
        "C_GetAttributeValue answered CKR_FUNCTION_FAILED"
    );

    let mut store = Store::open(token, Limits::default()).unwrap();
    let error = store.read(&path("a")).unwrap_err();
    assert_eq!(error.code(), Some(Code::DataLoss), "{error}");
    assert!(store.list().unwrap()[&path("a")].is_err());
    assert_eq!(store.read(&path("ab")).unwrap().data, data(&[("one", b"x")]));
    // It is tried again, and nothing was kept of the failure.
    stage.heal();
    assert_eq!(store.read(&path("a")).unwrap().data.len(), 2);
    // Nor is what was read before the failure given instead, or counted on from.
    stage.set(seal);
    let error = store.read(&path("a")).unwrap_err();
    assert_eq!(error.code(), Some(Code::DataLoss), "{error}");
    let counted = store.write(
        &path("a"),
        &secret(0, &[("one", b"y")]),
        Terms::next(Expected::Any),
    );
    assert_eq!(counted.unwrap_err().code(), Some(Code::DataLoss));
    // What can be read again can be counted on from.
    stage.heal();
    let counted = store.write(
        &path("a"),
        &secret(0, &[("one", b"y")]),
        Terms::next(Expected::Any),
    );
    assert_eq!(counted.unwrap().metadata.stamp.version, 1);
}

fn an_object_without_a_readable_label_could_be_anybodys_so_nothing_is_served(stage: &Stage) {
    let mut module = stage.shimmed();
    let info = stage.provision(&mut module, "nameless");
    let mut token = log_in(&module, "nameless");
    let raw = Raw::new(&info);
    for label in ["a/one", "b/one"] {
        raw.create(&Object::new(label, "x"));
    }
    let fault = Fault::before(1, Action::Answer(CKR_FUNCTION_FAILED)).of("C_GetAttributeValue");
    let control = Control::fault(fault.lasting(Duration::Always));
    stage.set(control.clone());
    let objects = token.objects().unwrap();
    assert_eq!((objects.found.len(), objects.unreadable.len()), (0, 2));

    let error = Store::open(token, Limits::default()).err().unwrap();
    assert_eq!(error.code(), Some(Code::DataLoss), "{error}");
    stage.heal();
    // The login belongs to all sessions of the process.
    drop(raw);
    let mut store = store(&module, "nameless");
    store.read(&path("a")).unwrap();
    Raw::new(&info).create(&Object::new("c/one", "x"));
    stage.set(control);
    for error in [
        store.read(&path("a")).err().unwrap(),
        store.list().err().unwrap(),
        store
            .write(&path("d"), &secret(1, &[("k", b"v")]), Expected::Any)
            .err()
            .unwrap(),
    ] {
        assert_eq!(error.code(), Some(Code::DataLoss), "{error}");
    }
    stage.heal();
    assert_eq!(store.list().unwrap().len(), 3);
}

fn objects_that_change_while_they_are_read_are_read_again_but_not_for_ever(stage: &Stage) {
    let mut module = stage.shimmed();
    let info = stage.provision(&mut module, "moving");
    let mut token = log_in(&module, "moving");
    let raw = Raw::new(&info);
    let expected = ["a/one", "a/two", "b/one"];
    for label in expected {
        raw.create(&Object::new(label, "x"));
    }
    for code in [CKR_OBJECT_HANDLE_INVALID, CKR_BUFFER_TOO_SMALL] {
        let changed = Fault::before(4, Action::Answer(code)).of("C_GetAttributeValue");
        stage.set(Control::fault(changed.clone()));
        let objects = token.objects().unwrap();
        assert_eq!(labels(&objects), expected);
        assert!(objects.unreadable.is_empty() && stage.shim.has_failed().unwrap());
        stage.set(Control::fault(changed.lasting(Duration::Always)));
        assert_eq!(token.objects().unwrap_err(), TokenError::Unsteady);
    }
}

fn a_lost_login_is_an_error_and_not_an_empty_token(stage: &Stage) {
    let mut module = stage.module();
    let info = stage.provision(&mut module, "logout");
    let mut store = store(&module, "logout");
    store
        .write(&path("a"), &secret(1, &[("k", b"v")]), Expected::Absent)
        .unwrap();
    // The login belongs to all sessions of the process.
    module.open(&info).unwrap().log_out().unwrap();
    for error in [
        store.read(&path("a")).err().unwrap(),
        store.list().err().unwrap(),
        store
            .write(&path("a"), &secret(2, &[("k", b"w")]), Expected::Any)
            .err()
            .unwrap(),
    ] {
        assert!(error.needs_initialisation(), "{error}");
        assert!(matches!(error, StoreError::Token(TokenError::LoggedOut)));
    }
    drop(store);
    module.initialise_again().unwrap();
    let mut store = secrets::store(&module, "logout");
    assert_eq!(store.read(&path("a")).unwrap(), secret(1, &[("k", b"v")]));
}

fn what_other_tools_do_is_seen(stage: &Stage) {
    let mut module = stage.module();
    let info = stage.provision(&mut module, "shared");
    let mut store = store(&module, "shared");
    let raw = Raw::new(&info);
    let made = |store: &mut Store<'_>, text: &str| -> Option<Secret> { store.read(&path(text)).ok() };
    raw.create(&Object::new("a/k", "one"));
    assert_eq!(made(&mut store, "a").unwrap().data, data(&[("k", b"one")]));
    raw.destroy("a/k");
    assert!(matches!(
        store.read(&path("a")),
        Err(StoreError::Read(ReadError::NotFound { .. }))
    ));
    raw.create(&Object::new("b/k", "one"));
    assert_eq!(made(&mut store, "b").unwrap().data, data(&[("k", b"one")]));
    // An object that was changed where it is, under the handle that is known.
    raw.rename("b/k", "b/l");
    assert_eq!(made(&mut store, "b").unwrap().data, data(&[("l", b"one")]));
    // And so does another process.
    let mut other = stage.start("reading::writer_as_a_process", "writer");
    assert!(other.wait().success());
    assert_eq!(made(&mut store, "c").unwrap(), secret(1, &[("k", b"three")]));
    // What the other one counted goes on here.
    let before = store.generation().unwrap();
    store
        .write(&path("c"), &secret(2, &[("k", b"four")]), Expected::Version(1))
        .unwrap();
    assert_eq!(store.generation().unwrap().counter, before.counter + 1);
}

fn what_another_has_counted_is_counted_on_from(stage: &Stage) {
    let mut module = stage.module();
    let info = stage.provision(&mut module, "counted");
    let mut store = store(&module, "counted");
    let raw = Raw::new(&info);
    let next = |store: &mut Store<'_>, value: &[u8], expected: Expected| {
        let written = store.write(&path("a"), &secret(0, &[("k", value)]), Terms::next(expected));
        written.map(|written| written.metadata.stamp.version)
    };
    assert_eq!(next(&mut store, b"1", Expected::Absent), Ok(1));
    let metadata = |version: u64| format!(r#"{{"labels":{{"sync.version":"{version}"}}}}"#);
    // As the original does: it destroys and makes anew.
    raw.destroy("a/_metadata");
    raw.create(&Object::new("a/_metadata", metadata(6)));
    assert_eq!(next(&mut store, b"2", Expected::Any), Ok(7));
    if stage.bench.changes_values() {
        // And under the handle that is known.
        raw.set_value("a/_metadata", metadata(11).as_bytes());
        let error = next(&mut store, b"3", Expected::Version(7)).unwrap_err();
        assert_eq!(error.to_string(), "a: expected version 7, found version 11");
        assert_eq!(next(&mut store, b"3", Expected::Version(11)), Ok(12));
    }
    raw.destroy("a/_metadata");
    raw.create(&Object::new("a/_metadata", "no JSON"));
    let error = next(&mut store, b"4", Expected::Any).unwrap_err();
    assert_eq!(error.code(), Some(Code::DataLoss), "{error}");
    let given = secret(20, &[("k", b"4")]);
    store.write(&path("a"), &given, Expected::Any).unwrap();
    assert_eq!(next(&mut store, b"5", Expected::Any), Ok(21));
}

fn a_survey_is_one_look_and_the_generation_one_object(stage: &Stage) {
    let mut module = stage.shimmed();
    let info = stage.provision(&mut module, "looks");
    let mut store = store(&module, "looks");
    let count = |function: &str| {
        let calls = stage.shim.calls().unwrap();
        calls.iter().filter(|call| call.function == function).count()
    };
    for number in 0..12 {
        let new = secret(1, &[("k", b"v")]);
        store
            .write(&path(&format!("s{number}")), &new, Expected::Absent)
            .unwrap();
        // Two objects each, and the generation. Nobody asks the token for it.
        stage.heal();
        assert_eq!(store.known_capacity().usage.objects, 2 * number + 3);
        assert!(stage.shim.calls().unwrap().is_empty());
        assert_eq!(store.known_capacity(), store.capacity().unwrap());
        // As many calls for many objects as for few: one search, with an answer and an empty one, and one object.
        stage.heal();
        assert_eq!(store.generation().unwrap().counter, number as u64 + 1);
        let calls = stage.shim.calls().unwrap().len();
        assert_eq!((count("C_FindObjects"), count("C_GetAttributeValue")), (2, 2));
        assert!(calls < 12, "{calls}");
    }
    for (anew, reads) in [(true, 2 * 25), (false, 0)] {
        stage.heal();
        let survey = store.survey(anew).unwrap();
        assert_eq!((count("C_FindObjectsInit"), count("C_FindObjects")), (1, 2));
        assert_eq!(count("C_GetAttributeValue"), reads);
        assert_eq!((survey.listing.len(), survey.capacity.usage.objects), (12, 25));
        assert_eq!(survey.generation.counter, 12);
    }
    // It is read from the token, so what another agent has written shows.
    let raw = Raw::new(&info);
    let object = Generation {
        counter: 77,
        epoch: 0,
    }
    .object();
    raw.create(&Object::new(object.label.as_bytes(), object.value.expose()));
    assert_eq!(store.generation().unwrap().counter, 77);
}

/// Not a test by itself: what one of them starts as a process of its own.
#[test]
fn writer_as_a_process() {
    if role().as_deref() == Some("writer") {
        let stage = Stage::inherited().unwrap();
        let module = stage.module();
        let mut store = store(&module, "shared");
        store
            .write(&path("c"), &secret(1, &[("k", b"three")]), Expected::Absent)
            .unwrap();
    }
}

fn a_token_that_may_hide_objects_is_neither_read_nor_changed(stage: &Stage) {
    let mut module = stage.shimmed();
    let info = stage.provision(&mut module, "hiding");
    let token = log_in(&module, "hiding");
    let raw = Raw::new(&info);
    for number in 0..60 {
        raw.create(&Object::new(format!("s{number}/k"), "x"));
    }
    // A module that shows 64 objects of all classes.
    let limits = Limits {
        objects: Some(63),
        ..Limits::default()
    };
    let view = Control {
        view: Some(64),
        ..Control::default()
    };
    stage.set(view.clone());
    let mut store = Store::open(token, limits).unwrap();
    assert_eq!(store.list().unwrap().len(), 60);
    for _ in 0..3 {
        raw.create_key();
    }
    assert_eq!(store.survey(true).unwrap().capacity.usage.objects, 63);
    raw.create_key();
    for more in [0, 20] {
        for number in 0..more {
            raw.create(&Object::new(format!("s1/more{number}"), "x"));
        }
        stage.set(view.clone());
        let new = secret(1, &[("k", b"v")]);
        for error in [
            store.list().err().unwrap(),
            store.survey(true).err().unwrap(),
            store.read(&path("s1")).err().unwrap(),
            store.write(&path("s1"), &new, Expected::Any).err().unwrap(),
            store.purge(&path("s1"), 1, None).err().unwrap(),
        ] {
            assert!(
                matches!(error, StoreError::Token(TokenError::Hidden { shown: 64.. })),
                "{error}"
            );
            assert_eq!(error.code(), Some(Code::DataLoss));
        }
    }
    // From whichever call on it hides something, nothing less than all is given.
    let shown = (1..20).map(|since| {
        stage.set(Control {
            since,
            ..view.clone()
        });
        match store.survey(true).unwrap_err() {
            StoreError::Token(TokenError::Hidden { shown }) => shown,
            error => panic!("{error}"),
        }
    });
    let shown: BTreeSet<usize> = shown.collect();
    // 64 of the 80 data objects and the four keys, as soon as it hides some in time.
    assert_eq!(shown, BTreeSet::from([68, 84]));
    stage.heal();
    for number in 0..20 {
        raw.destroy(&format!("s1/more{number}"));
    }
    raw.destroy("s59/k");
    assert_eq!(store.survey(true).unwrap().listing.len(), 59);
    assert_eq!(store.read(&path("s1")).unwrap().data.len(), 1);
}

fn a_read_that_fails_at_any_call_fails_and_is_never_less(stage: &Stage) {
    let mut module = stage.shimmed();
    stage.provision(&mut module, "reads");
    let kept = secret(1, &[("k", b"v"), ("l", b"w")]);
    let mut made = store(&module, "reads");
    for name in ["a", "b"] {
        made.write(&path(name), &kept, Expected::Absent).unwrap();
    }
    drop(made);
    let codes = [
        CKR_DEVICE_REMOVED,
        CKR_TOKEN_NOT_PRESENT,
        CKR_SESSION_HANDLE_INVALID,
        CKR_DEVICE_MEMORY,
        CKR_FUNCTION_FAILED,
        CKR_GENERAL_ERROR,
    ];
    for code in codes {
        let mut failed = 0;
        for at in 1.. {
            stage.heal();
            module.initialise_again().unwrap();
            stage.set(Control::fault(Fault::before(at, Action::Answer(code))));
            let all = read_all(&module, &kept);
            if !stage.shim.has_failed().unwrap() {
                all.unwrap();
                break;
            }
            let logins = stage.shim.calls().unwrap();
            let logins = logins.iter().filter(|call| call.function == "C_Login");
            assert!(logins.count() <= 1, "{at}");
            failed += 1;
        }
        assert!(failed > 40, "{failed}");
    }
}

/// Opens, logs in and reads all there is. What is not an error is whole.
fn read_all(module: &Module, kept: &Secret) -> Result<(), StoreError> {
    let inventory = module.inventory()?;
    // A slot that cannot be asked keeps nobody from the others, but then it is not among them.
    let Ok(info) = inventory.choose(&Selector::label("reads").unwrap()) else {
        assert!(!inventory.bad.is_empty());
        return Err(TokenError::LoggedOut.into());
    };
    let token = module.open(info)?;
    token.log_in(&pin(), Attempt::Automatic)?;
    let mut store = Store::open(token, Limits::default())?;
    let mut result = Ok(());
    let mut note = |error: StoreError| result = Err(error);
    match store.read(&path("a")) {
        Ok(read) => assert_eq!(read, *kept),
        Err(error) => note(error),
    }
    match store.survey(true) {
        Ok(survey) => {
            assert_eq!((survey.listing.len(), survey.capacity.usage.objects), (2, 7));
            let whole = |described: &Result<Description, ReadError>| {
                described
                    .as_ref()
                    .map_or(true, |described| *described == Description::of(kept))
            };
            assert!(survey.listing.values().all(whole), "{:?}", survey.listing);
        }
        Err(error) => note(error),
    }
    match store.generation() {
        Ok(generation) => assert_eq!(generation.counter, 2),
        Err(error) => note(error),
    }
    result
}

fn an_interrupted_change_is_not_judged_by_half_of_what_is_there(stage: &Stage) {
    let mut module = stage.shimmed();
    let info = stage.provision(&mut module, "doubt");
    let old = secret(1, &[("one", b"1"), ("two", b"2")]);
    let new = secret(2, &[("one", b"11"), ("two", b"22")]);
    let mut made = store(&module, "doubt");
    made.write(&path("a"), &old, Expected::Absent).unwrap();
    made.write(&path("b"), &old, Expected::Absent).unwrap();
    drop(made);
    stage.keep();
    // Once on the way to the new secret, and once when it is there and the old one has begun to go.
    for (function, at, end) in [("C_CreateObject", 4, &old), ("C_DestroyObject", 2, &new)] {
        stage.restore();
        module.initialise_again().unwrap();
        let mut changed = store(&module, "doubt");
        let removed = Fault::after(at, Action::Answer(CKR_DEVICE_REMOVED)).of(function);
        stage.set(Control::fault(removed.lasting(Duration::UntilInitialised)));
        changed.write(&path("a"), &new, Expected::Version(1)).unwrap_err();
        drop(changed);
        module.initialise_again().unwrap();
        let token = log_in(&module, "doubt");
        let raw = Raw::new(&info);
        let left = raw.all();
        let unreadable = |label: &str| Control {
            unreadable: Some(label.to_owned()),
            ..Control::default()
        };
        stage.set(unreadable("a/_metadata"));
        let mut store = Store::open(token, Limits::default()).unwrap();
        for label in ["a/_metadata", "a/one", "a/two"] {
            stage.set(unreadable(label));
            store.refresh().unwrap();
            let error = store.read(&path("a")).unwrap_err();
            assert_eq!(error.code(), Some(Code::DataLoss), "{label}: {error}");
            store.write(&path("a"), &new, Expected::Version(1)).unwrap_err();
            assert_eq!(store.read(&path("b")).unwrap(), old);
            assert_eq!(raw.all(), left, "{label}");
        }
        stage.heal();
        assert_eq!(store.read(&path("a")).unwrap(), *end);
        assert!(raw.all().iter().all(|(label, _)| !label.contains("journal")));
    }
}
