//! A secret becomes a Secret, and the Secret stays in line.

use super::*;

#[test]
fn secret_is_written_and_told_by_the_look_that_sees_it() {
    let mut stage = Stage::new();
    assert_eq!(
        stage.look(),
        [
            "add the finalizer hsmsecret.hsm.j5t.io/finalizer of HSMSecret shop/db",
            r#"call Claim { path: SecretPath("shop/db"), namespace: "shop" }"#,
            "create Secret shop/db-credentials",
        ]
    );
    assert_eq!(stage.sync_status(), "", "nothing was seen yet");
    assert_eq!(
        stage.look(),
        [
            "tell HSMSecret shop/db: SecretDelivered Secret db-credentials holds 1 key of shop/db on token pico/a",
            "set the status of HSMSecret shop/db",
        ]
    );
    assert_eq!(stage.look(), [""; 0]);
    let status = &stage.situation.status;
    assert_eq!(stage.sync_status(), "InSync");
    assert_eq!(status.hsm_checksum, Some(checksum(&stage.data)));
    assert_eq!(status.hsm_checksum, status.secret_checksum);
    assert_eq!(status.primary_device.as_deref(), Some("pico/a"));
    assert_eq!(status.last_sync_time, Some(at(0)));
    let reference = status.secret_ref.as_ref().unwrap();
    assert_eq!(reference.uid.as_deref(), Some("uid-Secret shop/db-credentials"));
    for (type_, expected) in [
        ("Ready", ("True", "InSync")),
        ("Synced", ("True", "InSync")),
        ("Degraded", ("False", "AllAsked")),
        ("Conflict", ("False", "NoConflict")),
    ] {
        let (status, reason) = stage.condition(type_);
        assert_eq!((status.as_str(), reason.as_str()), expected, "{type_}");
    }
}

#[test]
fn secret_has_the_labels_and_annotations_of_the_original() {
    let mut stage = Stage::new();
    let mut copy = copy_of(&stage.data, 1);
    copy.metadata.description = "the database".to_owned();
    copy.metadata.labels = [
        ("team", "shop"),
        ("managed-by", "somebody"),
        ("example.com/prefix", "x"),
        ("empty", ""),
        ("bad value", "x"),
        ("bad", "a b"),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into();
    stage.situation.tokens = vec![token("pico/a", CopyState::Held(Box::new(copy)))];
    let plan = stage.decide();
    let write = plan.steps.iter().find_map(|step| match step {
        Step::Apply(apply) => Some(apply.manifest.body()),
        _ => None,
    });
    let body = write.unwrap();
    let labels = &body["metadata"]["labels"];
    let expected = json!({
        "app.kubernetes.io/managed-by": "hsm-secrets-operator", "managed-by": "hsm-secrets-operator",
        "hsm-path": "shop_db", "team": "shop", "empty": "",
    });
    assert_eq!(*labels, expected);
    assert_eq!(
        body["metadata"]["annotations"]["hsm.j5t.io/description"],
        "the database"
    );
    assert_eq!(body["metadata"]["ownerReferences"][0]["kind"], "HSMSecret");
    assert_eq!(body["metadata"]["ownerReferences"][0]["controller"], true);
    assert_eq!(body["data"], json!({ "password": "czNjcjN0" }));
}

#[test]
fn name_stands_in_for_path_and_secret() {
    let object = ObjectRef::new(Some("shop"), "api.key");
    let spec = HsmSecretSpec::default();
    let flat = Placement::of(&object, &spec, Tenancy::Flat).unwrap();
    assert_eq!((flat.path.as_str(), flat.secret.name()), ("api.key", "api.key"));
    let own = Placement::of(&object, &spec, Tenancy::Namespaced).unwrap();
    assert_eq!(own.path.as_str(), "shop/api.key");
    let bad = HsmSecretSpec {
        hsm_path: Some("a//b".to_owned()),
        ..spec
    };
    let told = Placement::of(&object, &bad, Tenancy::Flat).unwrap_err();
    assert_eq!(
        told,
        "spec.hsmPath as a path: must not begin or end with '/' or hold '//'"
    );
}

#[test]
fn change_on_the_token_is_written_once() {
    let mut stage = Stage::new();
    stage.settle();
    stage.hold(&[("password", "changed"), ("user", "admin")], 2);
    assert_eq!(
        stage.settle(),
        [
            "update Secret shop/db-credentials",
            "tell HSMSecret shop/db: SecretDelivered Secret db-credentials holds 2 keys of shop/db on token pico/a",
            "set the status of HSMSecret shop/db",
        ]
    );
}

#[test]
fn hand_edit_is_put_back_and_moves_the_time_alone() {
    let mut stage = Stage::new();
    stage.settle();
    let before = stage.situation.status.clone();
    stage.edit(|_, content| *content = content_of("Opaque", &data(&[("password", "edited")])));
    let steps = stage.settle();
    assert_eq!(steps[0], "update Secret shop/db-credentials");
    let status = &stage.situation.status;
    assert!(status.last_sync_time > before.last_sync_time);
    let same = HsmSecretStatus {
        last_sync_time: before.last_sync_time,
        ..status.clone()
    };
    assert_eq!(same, before);
}

#[test]
fn key_that_a_person_added_becomes_ours_before_it_goes() {
    let mut stage = Stage::new();
    stage.settle();
    stage.edit(|_, content| {
        *content = content_of("Opaque", &data(&[("password", "s3cr3t"), ("extra", "x")]));
    });
    let steps = stage.look();
    assert!(steps[0].starts_with("call Inherit"), "{steps:?}");
    assert_eq!(steps.len(), 1, "the next look writes: {steps:?}");
}

#[test]
fn edited_label_is_put_back_without_other_data() {
    let mut stage = Stage::new();
    stage.settle();
    stage.edit(|meta, _| {
        meta.fields = Default::default();
        meta.labels.remove("managed-by");
    });
    let steps = stage.look();
    // We own no field, so the data too belongs to other field managers.
    assert!(steps[0].starts_with("call Inherit"), "{steps:?}");
}

#[test]
fn without_auto_sync_only_edits_and_new_specs_are_looked_after() {
    let mut stage = Stage::new();
    stage.spec().auto_sync = false;
    stage.settle();
    stage.hold(&[("password", "changed")], 2);
    assert_eq!(stage.look(), [""; 0], "the token has changed, and nobody looks");
    stage.situation.tokens = vec![away("pico/a")];
    assert_eq!(stage.look(), [""; 0], "the token is away, and nobody looks");
    stage.hold(&[("password", "changed")], 2);
    stage.edit(|_, content| *content = content_of("Opaque", &data(&[("password", "edited")])));
    assert_eq!(stage.settle()[0], "update Secret shop/db-credentials");
    stage.hold(&[("password", "again")], 3);
    assert_eq!(stage.look(), [""; 0]);
    stage.situation.object.generation = 2;
    assert_eq!(stage.settle()[0], "update Secret shop/db-credentials");
}

#[test]
fn secret_of_the_original_is_taken_over() {
    let mut stage = Stage::new();
    let owner = json!([{
        "apiVersion": "hsm.j5t.io/v1alpha1", "kind": "HSMSecret", "name": "db", "uid": "uid-shop-db", "controller": true,
    }]);
    stage.situation.live = foreign(json!({ "managed-by": "hsm-secrets-operator" }), owner);
    if let LiveSecret::Found { content, .. } = &mut stage.situation.live {
        *content = Some(content_of("Opaque", &stage.data));
    }
    let assessment = assess(&stage.situation, &fingerprinter());
    assert_eq!(assessment.takes_over(), Some(TakeOver::Original));
    let steps = stage.look();
    assert!(steps[1].starts_with("call Inherit"), "{steps:?}");
}

#[test]
fn another_operators_object_is_not_touched() {
    let mut stage = Stage::new();
    stage.situation.served = false;
    assert_eq!(stage.look(), [""; 0]);
}
