//! One Secret has one HSMSecret, and one location has one namespace.

use super::*;
use crate::delivery::locations::{Locations, listed};
use crate::path::SecretPath;
use trustplane_api::hsm::TokenPlace;

#[test]
fn secret_of_somebody_else_is_left_alone_and_its_holder_named() {
    let mut stage = Stage::new();
    stage.situation.live = foreign(json!({ "app.kubernetes.io/managed-by": "Helm" }), json!([]));
    let steps = stage.settle();
    assert!(
        !steps.iter().any(|step| step.contains(" Secret shop/")),
        "{steps:?}"
    );
    assert!(stage.error().contains("belongs to \"Helm\""), "{}", stage.error());
    assert_eq!(stage.condition("Conflict"), ("True".into(), "SecretTaken".into()));
    let other = json!([{
        "apiVersion": "hsm.j5t.io/v1alpha1", "kind": "HSMSecret", "name": "db", "uid": "another", "controller": true,
    }]);
    stage.situation.live = foreign(json!({ "managed-by": "hsm-secrets-operator" }), other);
    stage.settle();
    assert!(
        stage.error().contains("belongs to HSMSecret db"),
        "{}",
        stage.error()
    );
    stage.situation.live = LiveSecret::Absent;
    stage.settle();
    assert_eq!(stage.sync_status(), "InSync");
}

#[test]
fn older_of_two_has_the_secret() {
    let mut stage = Stage::new();
    stage.situation.rivals = vec![object(NAMESPACE, "older", "2026-06-01T00:00:00Z")];
    stage.settle();
    assert!(stage.error().contains("HSMSecret older"), "{}", stage.error());
    stage.situation.rivals = vec![object(NAMESPACE, "younger", "2026-07-02T00:00:00Z")];
    stage.settle();
    assert_eq!(stage.sync_status(), "InSync");
    // The HSMSecret that has the Secret keeps it.
    stage.situation.rivals = vec![object(NAMESPACE, "older", "2026-06-01T00:00:00Z")];
    assert_eq!(stage.look(), [""; 0]);
}

#[test]
fn location_of_another_namespace_is_told_without_any_checksum() {
    let mut stage = Stage::new();
    stage.situation.tenant = Some("bank".to_owned());
    let steps = stage.settle();
    assert!(
        !steps.iter().any(|step| step.contains(" Secret shop/")),
        "{steps:?}"
    );
    assert!(
        stage.error().contains("namespace bank has claimed it"),
        "{}",
        stage.error()
    );
    assert_eq!(
        stage.condition("Conflict"),
        ("True".into(), "LocationTaken".into())
    );
    let told = serde_json::to_string(&stage.situation.status).unwrap();
    assert!(!told.contains("sha256") && !told.contains("pico/a"), "{told}");
    // A location that holds nothing gets the same status as a location that holds a secret.
    stage.situation.tokens = vec![token("pico/a", CopyState::Absent { deleted: false })];
    assert_eq!(stage.look(), [""; 0]);
}

#[test]
fn claim_that_is_withdrawn_takes_checksums_back_and_leaves_the_secret() {
    let mut stage = Stage::new();
    stage.settle();
    stage.situation.listed = Some(["bank".to_owned()].into());
    stage.hold(&[("password", "of the bank")], 2);
    stage.settle();
    assert_eq!(stage.condition("Conflict").1, "LocationTaken");
    assert_eq!(stage.situation.status.hsm_checksum, None);
    assert!(stage.situation.status.device_sync_status.is_empty());
    stage.situation.listed = Some(["bank".to_owned(), NAMESPACE.to_owned()].into());
    stage.settle();
    assert_eq!(stage.sync_status(), "InSync");
}

#[test]
fn older_of_two_namespaces_claims_a_location() {
    let mut stage = Stage::new();
    stage.situation.sharers = vec![object("bank", "db", "2026-06-01T00:00:00Z")];
    stage.settle();
    assert!(
        stage.error().contains("HSMSecret bank/db asked for it first"),
        "{}",
        stage.error()
    );
    assert!(stage.claimed.is_empty());
    stage.situation.sharers = vec![object("bank", "db", "2026-07-02T00:00:00Z")];
    stage.settle();
    assert_eq!(stage.claimed, ["shop/db"]);
}

#[test]
fn nothing_is_claimed_before_there_is_data() {
    let mut stage = Stage::new();
    stage.situation.tokens = vec![token("pico/a", CopyState::Absent { deleted: false })];
    stage.settle();
    assert!(stage.claimed.is_empty());
    stage.situation.tokens = vec![held("pico/a", "s3cr3t", 1)];
    stage.situation.tenancy = Tenancy::Namespaced;
    stage.settle();
    assert!(stage.claimed.is_empty(), "the path is that of the namespace");
}

#[test]
fn claim_ends_with_the_secret_on_the_tokens() {
    let mut stage = Stage::new();
    stage.settle();
    stage.situation.tokens = vec![token("pico/a", CopyState::Absent { deleted: false })];
    stage.settle();
    assert!(stage.situation.tenant.is_some(), "another tool may have moved it");
    stage.situation.tokens = vec![
        token("pico/a", CopyState::Absent { deleted: true }),
        away("pico/b"),
    ];
    stage.settle();
    assert!(
        stage.situation.tenant.is_some(),
        "a token that is away may have a copy"
    );
    stage.situation.tokens = vec![token("pico/a", CopyState::Absent { deleted: true })];
    stage.settle();
    assert_eq!(stage.situation.tenant, None);
}

#[test]
fn claims_are_read_and_written_line_by_line() {
    let path = |text: &str| SecretPath::parse(text).unwrap();
    let mut locations = Locations::default();
    assert_eq!(locations.claim(&path("a/b"), "shop"), Ok("shop"));
    assert_eq!(locations.claim(&path("a/b"), "bank"), Ok("shop"));
    assert_eq!(locations.claim(&path("c"), "bank"), Ok("bank"));
    let data = locations.data();
    assert_eq!(data["shop"], "a/b\n");
    assert_eq!(Locations::read(&data), locations);
    locations.release(&path("a/b"), "bank");
    assert_eq!(locations.tenant(&path("a/b")), Some("shop"));
    locations.release(&path("a/b"), "shop");
    assert_eq!(locations.tenant(&path("a/b")), None);
    let by_hand = [
        ("shop".to_owned(), " a/b \n\n//\nc".to_owned()),
        ("zoo".to_owned(), "c".to_owned()),
    ];
    let read = Locations::read(&by_hand.into());
    assert_eq!(read.tenant(&path("c")), Some("shop"));
    assert_eq!(read.tenant(&path("a/b")), Some("shop"));
}

#[test]
fn claims_have_a_limit_that_is_told() {
    let mut locations = Locations::default();
    let long = "x".repeat(250);
    let mut claimed = 0;
    let full = (0..10_000).find_map(|number| {
        let path = SecretPath::parse(&format!("{long}{number}")).unwrap();
        claimed += 1;
        locations.claim(&path, "shop").err()
    });
    assert!(full.unwrap().to_string().contains("--hsm-tenancy=namespaced"));
    assert!(claimed > 3_000);
    let known = SecretPath::parse(&format!("{long}0")).unwrap();
    assert_eq!(locations.claim(&known, "shop"), Ok("shop"), "what is there stays");
}

#[test]
fn places_cover_paths_by_their_parts() {
    let place = |path: &str, namespace: &str| TokenPlace {
        path: path.to_owned(),
        namespaces: vec![namespace.to_owned()],
    };
    let places = [place("team/**", "a"), place("team/db", "b"), place("one", "c")];
    let of = |path: &str| {
        let listed = listed(&places, &SecretPath::parse(path).unwrap());
        listed.map(|all| all.into_iter().collect::<Vec<_>>().join(","))
    };
    assert_eq!(of("team/db").as_deref(), Some("a,b"));
    assert_eq!(of("team/db/x").as_deref(), Some("a"));
    assert_eq!(of("one").as_deref(), Some("c"));
    for free in ["team", "teams/db", "one/two", "on"] {
        assert_eq!(of(free), None, "{free}");
    }
}
