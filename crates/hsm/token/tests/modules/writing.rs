//! What we write is what the original would have written, and what does not fit is not written at all.

use cryptoki::object::{Attribute, ObjectClass};
use trustplane_hsm_core::change::{Change, Terms};
use trustplane_hsm_core::code::Code;
use trustplane_hsm_core::label::Label;
use trustplane_hsm_core::layout::ReadError;
use trustplane_hsm_core::limits::{Limits, Profile};
use trustplane_hsm_core::object::NewObject;
use trustplane_hsm_core::path::KeyName;
use trustplane_hsm_core::replace::WriteError;
use trustplane_hsm_core::secret::{Secret, Value};
use trustplane_hsm_core::version::Expected;
use trustplane_hsm_token::{Memory, Store, StoreError, TokenError};
use trustplane_pkcs11_shim::pkcs11::{CKR_DEVICE_MEMORY, CKR_GENERAL_ERROR};
use trustplane_pkcs11_shim::{Action, Control, Duration, Fault};

use crate::raw::{Object, Raw};
use crate::secrets::{data, path, secret, stamp, store};
use crate::stage::{Stage, log_in};

suite! {
    on every module:
        objects_of_ours_are_those_of_the_original_bit_by_bit,
        labels_and_values_are_bytes_of_any_kind_and_length,
        a_secret_lives_from_its_first_version_to_its_tombstone_beside_its_neighbours,
        what_a_token_would_cut_or_hide_is_refused_before_anything_is_written,
        a_label_that_was_cut_without_a_word_is_noticed_and_taken_back,
        a_token_that_is_full_at_any_object_keeps_the_old_secret_and_nothing_else,
        a_vague_answer_means_a_full_token_only_where_that_is_known_and_the_token_is_there,
        a_full_token_can_be_changed_and_emptied,
        whether_a_change_was_made_is_told_as_it_is,
        what_stays_is_what_is_there_and_not_what_was_known;
}

/// What the original gives an object.
fn attributes(label: &[u8], value: &[u8], object_type: u8) -> Vec<Attribute> {
    let mut identifier = b"\x06\x0a\x2b\x06\x01\x04\x01\x86\x8d\x1f\x01".to_vec();
    identifier.push(object_type);
    vec![
        Attribute::Class(ObjectClass::DATA),
        Attribute::Token(true),
        Attribute::Private(true),
        Attribute::Modifiable(true),
        Attribute::Label(label.to_vec()),
        Attribute::Application(b"hsm-secrets-operator".to_vec()),
        Attribute::ObjectId(identifier),
        Attribute::Value(value.to_vec()),
    ]
}

fn objects_of_ours_are_those_of_the_original_bit_by_bit(stage: &Stage) {
    let mut module = stage.shimmed();
    let info = stage.provision(&mut module, "exact");
    for as_older_opensc_reads_it in [false, true] {
        stage.set(Control {
            application_as_c_string: as_older_opensc_reads_it,
            ..Control::default()
        });
        let mut store = store(&module, "exact");
        let raw = Raw::new(&info);
        let pairs: [(&str, &[u8]); 3] = [("data", b"password"), ("config", b"{}"), ("key", b"a\0b")];
        store
            .write(&path("shop/db"), &secret(3, &pairs), Expected::Any)
            .unwrap();
        let json = br#"{"labels":{"sync.timestamp":"2026-07-07T08:00:00Z","sync.version":"3"}}"#;
        for (label, value, object_type) in [
            ("shop/db", b"password".as_slice(), 5),
            ("shop/db/config", b"{}", 2),
            ("shop/db/key", b"a\0b", 4),
            ("shop/db/_metadata", json, 2),
        ] {
            let label = label.as_bytes();
            assert_eq!(raw.attributes(label), attributes(label, value, object_type));
        }
        let labels: Vec<String> = raw.all().into_iter().map(|(label, _)| label).collect();
        let expected = [
            ".trustplane/generation/_metadata",
            "shop/db",
            "shop/db/_metadata",
            "shop/db/config",
            "shop/db/key",
        ];
        assert_eq!(labels, expected);
        for label in expected {
            raw.destroy(label);
        }
    }
}

fn labels_and_values_are_bytes_of_any_kind_and_length(stage: &Stage) {
    let mut module = stage.module();
    stage.provision(&mut module, "bytes");
    let every_byte: Vec<u8> = (0..=255).collect();
    let long = vec![0xa5; 100_000];
    let objects: [(&[u8], &[u8]); 7] = [
        (b"empty", b""),
        (b"binary", &every_byte),
        (b"long", &long),
        ("Schlüssel/ключ/鍵".as_bytes(), "wörd".as_bytes()),
        (b"\xff\x00\xfe", b"x"),
        (&[b'l'; 700], b"long label"),
        (b"", b"no label"),
    ];
    let takes = |label: &[u8]| stage.bench.takes_labels_of_any_bytes() || str::from_utf8(label).is_ok();
    let objects: Vec<_> = objects.into_iter().filter(|(label, _)| takes(label)).collect();
    let mut token = log_in(&module, "bytes");
    for &(label, value) in &objects {
        let object = NewObject {
            label: Label::new(label),
            value: Value::new(value),
        };
        token.create(&object).unwrap();
    }
    let found = token.objects().unwrap();
    assert_eq!((found.found.len(), found.unreadable.len()), (objects.len(), 0));
    for (label, value) in objects {
        let mut same = found.found.iter().filter(|found| found.label.as_bytes() == label);
        let read = same.next().unwrap().value.as_ref().unwrap();
        assert!(
            read.expose() == value && same.next().is_none(),
            "{}",
            label.escape_ascii()
        );
    }
    for found in &found.found {
        token.destroy(found.handle).unwrap();
    }
    assert!(token.objects().unwrap().found.is_empty());
}

fn a_secret_lives_from_its_first_version_to_its_tombstone_beside_its_neighbours(stage: &Stage) {
    let mut module = stage.module();
    stage.provision(&mut module, "life");
    let mut store = store(&module, "life");
    let neighbours = ["ab", "a-b", "a.b", "a/b", "b"];
    for neighbour in neighbours {
        let theirs = secret(1, &[("data", neighbour.as_bytes()), ("k", b"")]);
        store.write(&path(neighbour), &theirs, Expected::Absent).unwrap();
    }
    let (first, second) = (secret(1, &[("k", b"1")]), secret(2, &[("k", b"2"), ("l", b"")]));
    let a = path("a");
    store.write(&a, &first, Expected::Absent).unwrap();
    assert_eq!(store.read(&a).unwrap(), first);
    let refused = store.write(&a, &second, Expected::Absent).unwrap_err();
    assert_eq!(refused.code(), Some(Code::FailedPrecondition), "{refused}");
    let counter = store.generation().unwrap().counter;
    store.write(&a, &second, Expected::Version(1)).unwrap();
    assert_eq!(store.read(&a).unwrap(), second);
    assert_eq!(store.generation().unwrap().counter, counter + 1);
    store.delete(&a, stamp(3), Expected::Version(2)).unwrap();
    assert_eq!(store.read(&a).unwrap(), Secret::tombstone(stamp(3)));
    let described = store.list().unwrap().remove(&a).unwrap().unwrap();
    assert!(described.metadata.stamp.deleted && described.metadata.stamp.version == 3 && described.keys == 0);
    let refused = store.purge(&a, 2, None).unwrap_err();
    assert!(matches!(
        refused,
        StoreError::Write(WriteError::NoTombstone { .. })
    ));
    store.purge(&a, 3, None).unwrap();
    let gone = store.read(&a).unwrap_err();
    assert!(
        matches!(&gone, StoreError::Read(ReadError::NotFound { .. })),
        "{gone}"
    );
    assert_eq!(gone.code(), Some(Code::NotFound));
    for neighbour in neighbours {
        let theirs = secret(1, &[("data", neighbour.as_bytes()), ("k", b"")]);
        assert_eq!(store.read(&path(neighbour)).unwrap(), theirs);
    }
    assert!(store.interrupted().is_empty());
    let capacity = store.capacity().unwrap();
    // Three objects for each neighbour, and the generation.
    assert_eq!((capacity.usage.objects, capacity.usage.foreign), (16, 0));
    assert_eq!(capacity.room.objects, None);
    // No module that we know of tells how much memory there is.
    assert_eq!(capacity.memory, Memory::default());
}

/// How often an object was read since the control was set.
fn reads(stage: &Stage) -> usize {
    let calls = stage.shim.calls().unwrap();
    let reading = |function: &str| function == "C_GetAttributeValue";
    calls.iter().filter(|call| reading(&call.function)).count()
}

/// How often an object was changed since the control was set.
fn changes(stage: &Stage) -> usize {
    let calls = stage.shim.calls().unwrap();
    let changing = [
        "C_CreateObject",
        "C_DestroyObject",
        "C_SetAttributeValue",
        "C_CopyObject",
    ];
    calls
        .iter()
        .filter(|call| changing.contains(&call.function.as_str()))
        .count()
}

fn what_a_token_would_cut_or_hide_is_refused_before_anything_is_written(stage: &Stage) {
    let mut module = stage.shimmed();
    stage.provision(&mut module, "small");
    let limits = Limits {
        objects: Some(64),
        value: Some(4096),
        ..Profile::Opensc.limits()
    };
    let mut store = Store::open(log_in(&module, "small"), limits).unwrap();
    stage.set(Control {
        view: Some(64),
        longest_label: Some(254),
        largest_value: Some(4096),
        ..Control::default()
    });
    let long_key = "k".repeat(253);
    for (pairs, code) in [
        ([(long_key.as_str(), b"v".as_slice())], Code::InvalidArgument),
        ([("k", &[0; 4097])], Code::InvalidArgument),
        ([("k", b"")], Code::InvalidArgument),
    ] {
        let refused = store
            .write(&path("a"), &secret(1, &pairs), Expected::Any)
            .unwrap_err();
        assert_eq!(refused.code(), Some(code), "{refused}");
    }
    assert_eq!(changes(stage), 0);

    let mut written = Vec::new();
    let refused = loop {
        let path = path(&format!("s{}", written.len()));
        let secret = secret(1, &[("k", path.as_str().as_bytes()), ("l", b"-")]);
        match store.write(&path, &secret, Expected::Absent) {
            Ok(_) => written.push((path, secret)),
            Err(error) => break error,
        }
    };
    assert_eq!(refused.code(), Some(Code::ResourceExhausted), "{refused}");
    // Three objects each, the generation, and room to replace one of them: a journal and three objects.
    assert_eq!(written.len(), 19);
    store.refresh().unwrap();
    for (path, secret) in written {
        assert_eq!(store.read(&path).unwrap(), secret);
    }
}

fn a_label_that_was_cut_without_a_word_is_noticed_and_taken_back(stage: &Stage) {
    let mut module = stage.shimmed();
    let info = stage.provision(&mut module, "cut");
    let mut store = store(&module, "cut");
    let old = secret(1, &[("k", b"v")]);
    store.write(&path("a"), &old, Expected::Absent).unwrap();
    let before = Raw::new(&info).all();
    stage.set(Control {
        longest_label: Some(254),
        ..Control::default()
    });
    let long_key = "k".repeat(253);
    let new = secret(2, &[("k", b"w"), (&long_key, b"v")]);
    let error = store.write(&path("a"), &new, Expected::Any).unwrap_err();
    assert!(
        matches!(error, StoreError::Token(TokenError::Cut { .. })),
        "{error}"
    );
    assert_eq!(store.read(&path("a")).unwrap(), old);
    assert_eq!(without_generation(&Raw::new(&info)), without(&before));
    // From whichever call on labels are cut, it is the old one or the new one, and no other label.
    let mut cut = 0;
    for since in 1.. {
        stage.set(Control {
            longest_label: Some(254),
            since,
            ..Control::default()
        });
        let made = store.write(&path("a"), &new, Expected::Any);
        stage.heal();
        match made {
            Ok(_) => break,
            Err(error) => assert!(
                matches!(error, StoreError::Token(TokenError::Cut { .. })),
                "{error}"
            ),
        }
        cut += 1;
        assert_eq!(without_generation(&Raw::new(&info)), without(&before));
    }
    assert!(cut > 10, "{cut}");
    assert_eq!(store.read(&path("a")).unwrap(), new);
    assert_eq!(without_generation(&Raw::new(&info)).len(), 3);
}

fn a_token_that_is_full_at_any_object_keeps_the_old_secret_and_nothing_else(stage: &Stage) {
    let mut module = stage.shimmed();
    let info = stage.provision(&mut module, "full");
    let mut store = store(&module, "full");
    let old = secret(1, &[("k", b"v"), ("l", b"v")]);
    let new = secret(2, &[("k", b"w"), ("l", b"w")]);
    store.write(&path("a"), &old, Expected::Absent).unwrap();
    let raw = Raw::new(&info);
    raw.create(&Object::new("a-b/k", "neighbour"));
    let before = without_generation(&raw);
    let mut refused = 0;
    loop {
        let full = Fault::before(refused + 1, Action::Answer(CKR_DEVICE_MEMORY)).of("C_CreateObject");
        stage.set(Control::fault(full.lasting(Duration::Always)));
        let Err(error) = store.write(&path("a"), &new, Expected::Version(1)) else {
            break;
        };
        refused += 1;
        assert_eq!(error.code(), Some(Code::ResourceExhausted), "{error}");
        // Nobody knows what is there after an error: everything is read again.
        assert!(reads(stage) >= before.len());
        // Taken back at once, while the token is still full.
        assert_eq!(without_generation(&raw), before);
        assert_eq!(store.read(&path("a")).unwrap(), old);
    }
    // Of the generation and of the metadata: the size of each, and it.
    assert_eq!(reads(stage), 4);
    // Journal, generation, metadata, two values.
    assert_eq!(refused, 5);
    assert_eq!(store.read(&path("a")).unwrap(), new);

    stage.set(Control {
        largest_value: Some(4096),
        ..Control::default()
    });
    let large = secret(3, &[("k", b"x"), ("l", &[7; 5000])]);
    let error = store.write(&path("a"), &large, Expected::Any).unwrap_err();
    assert_eq!(error.code(), Some(Code::ResourceExhausted), "{error}");
    assert_eq!(store.read(&path("a")).unwrap(), new);
    assert_eq!(
        store.read(&path("a-b")).unwrap().data,
        data(&[("k", b"neighbour")])
    );
}

fn a_vague_answer_means_a_full_token_only_where_that_is_known_and_the_token_is_there(stage: &Stage) {
    let mut module = stage.shimmed();
    stage.provision(&mut module, "vague");
    let (old, new) = (secret(1, &[("k", b"v")]), secret(2, &[("k", b"w")]));
    store(&module, "vague")
        .write(&path("a"), &old, Expected::Absent)
        .unwrap();
    let vague = Fault::before(3, Action::Answer(CKR_GENERAL_ERROR)).of("C_CreateObject");
    for (profile, lasts, code) in [
        (Profile::Opensc, Duration::Always, Some(Code::ResourceExhausted)),
        (Profile::Opensc, Duration::UntilInitialised, None),
        (Profile::Software, Duration::Always, None),
    ] {
        module.initialise_again().unwrap();
        let mut store = Store::open(log_in(&module, "vague"), profile.limits()).unwrap();
        stage.set(Control::fault(vague.clone().lasting(lasts)));
        let error = store.write(&path("a"), &new, Expected::Version(1)).unwrap_err();
        assert_eq!(error.code(), code, "{error}");
        assert_eq!(error.needs_initialisation(), code.is_none(), "{error}");
        if code.is_some() {
            assert_eq!(store.read(&path("a")).unwrap(), old);
        }
        drop(store);
        stage.heal();
        module.initialise_again().unwrap();
        assert_eq!(
            crate::secrets::store(&module, "vague").read(&path("a")).unwrap(),
            old
        );
    }
}

fn a_full_token_can_be_changed_and_emptied(stage: &Stage) {
    let mut module = stage.shimmed();
    stage.provision(&mut module, "brim");
    let limits = Limits {
        objects: Some(24),
        ..Limits::default()
    };
    let mut store = Store::open(log_in(&module, "brim"), limits).unwrap();
    let secret_of = |version| secret(version, &[("k", &[version as u8]), ("l", b"-")]);
    let names: Vec<_> = (0..).map(|number| path(&format!("s{number}"))).take(9).collect();
    let written = names
        .iter()
        .take_while(|name| store.write(name, &secret_of(1), Expected::Absent).is_ok());
    let written = written.count();
    assert!((3..9).contains(&written), "{written}");
    for name in &names[..written] {
        store.write(name, &secret_of(2), Expected::Version(1)).unwrap();
    }
    for name in &names[..written] {
        store.delete(name, stamp(3), Expected::Version(2)).unwrap();
    }
    // A token that has no room at all still lets go of what was deleted.
    let full = Fault::before(1, Action::Answer(CKR_DEVICE_MEMORY)).of("C_CreateObject");
    stage.set(Control::fault(full.lasting(Duration::Always)));
    store.purge(&names[0], 3, None).unwrap();
    stage.heal();
    for name in &names[1..written] {
        store.purge(name, 3, None).unwrap();
    }
    assert!(store.list().unwrap().is_empty());
    assert_eq!(store.capacity().unwrap().usage.objects, 1);
}

fn whether_a_change_was_made_is_told_as_it_is(stage: &Stage) {
    let mut module = stage.shimmed();
    stage.provision(&mut module, "told");
    let mut store = store(&module, "told");
    let a = path("a");
    store
        .write(&a, &secret(1, &[("k", b"1")]), Expected::Absent)
        .unwrap();
    // All that is new is there when it fails, and what was left to do is done at once.
    for (version, at) in [(2, 1), (3, 2), (4, 3), (5, 4)] {
        let fault = Fault::before(at, Action::Answer(CKR_DEVICE_MEMORY)).of("C_DestroyObject");
        stage.set(Control::fault(fault));
        let new = secret(version, &[("k", &[version as u8])]);
        let made = store.write(&a, &new, Expected::Version(version - 1));
        assert!(stage.shim.has_failed().unwrap(), "{at}");
        let kept = store.read(&a).unwrap();
        // The first is that of the old generation, before anything new is there.
        match at {
            1 => assert_eq!(made.unwrap_err().code(), Some(Code::ResourceExhausted)),
            _ => assert_eq!(
                (made.unwrap().metadata.stamp.version, kept),
                (version, new.clone())
            ),
        }
        stage.heal();
        store.write(&a, &new, Expected::Any).unwrap();
    }
    // What cannot be ended is not known.
    let fault = Fault::before(2, Action::Answer(CKR_DEVICE_MEMORY)).of("C_DestroyObject");
    stage.set(Control::fault(fault.lasting(Duration::Always)));
    let new = secret(6, &[("k", b"6")]);
    let error = store.write(&a, &new, Expected::Version(5)).unwrap_err();
    assert!(matches!(error, StoreError::Unknown(_)), "{error}");
    assert!(error.code().is_none() && !error.needs_initialisation());
    assert!(
        error
            .to_string()
            .ends_with("; whether the change was made is not known"),
        "{error}"
    );
    stage.heal();
    assert_eq!(store.read(&a).unwrap(), new);
}

fn what_stays_is_what_is_there_and_not_what_was_known(stage: &Stage) {
    let mut module = stage.module();
    let info = stage.provision(&mut module, "kept");
    let mut store = store(&module, "kept");
    let a = path("a");
    let first = secret(1, &[("k", b"1"), ("l", b"2")]);
    store.write(&a, &first, Expected::Absent).unwrap();
    let raw = Raw::new(&info);
    // Under the handle that is known, where a token allows that.
    let change_value = || match stage.bench.changes_values() {
        true => raw.set_value("a/k", b"foreign"),
        false => {
            raw.destroy("a/k");
            raw.create(&Object::new("a/k", "foreign"));
        }
    };
    change_value();
    let second = secret(2, &[("k", b"1"), ("l", b"3")]);
    store.write(&a, &second, Expected::Version(1)).unwrap();
    assert_eq!(store.read(&a).unwrap(), second);
    // What is left when a key goes is what the others hold now.
    change_value();
    let key = KeyName::parse("l").unwrap();
    let change = Change::DeleteKey(&key, stamp(0));
    store.change(&a, &change, Terms::next(Expected::Any)).unwrap();
    assert_eq!(store.read(&a).unwrap(), secret(3, &[("k", b"foreign")]));
}

fn without_generation(raw: &Raw) -> Vec<(String, Vec<u8>)> {
    without(&raw.all())
}

fn without(all: &[(String, Vec<u8>)]) -> Vec<(String, Vec<u8>)> {
    let others = all
        .iter()
        .filter(|(label, _)| label != ".trustplane/generation/_metadata");
    others.cloned().collect()
}
