//! Secrets of somebody else that have the name: who has to consent before one is taken over.

use serde_json::json;

use super::tests::SYNCED;
use super::world::*;
use super::*;
use crate::adopt::CONSENT;
use crate::policy::{Policy, Rules};

const USE_ANOTHER: &str = "; use another secretName";

fn conflict(why: &str) -> String {
    format!("tell Pod shop/a: SecretConflict Secret db exists and is not ours: {why}")
}

fn consenting() -> Json {
    json!({"annotations": {CONSENT: "sync"}})
}

#[test]
fn a_foreign_secret_is_left_alone_and_costs_no_call() {
    let owner = json!({"annotations": {CONSENT: "sync"}, "ownerReferences": [
        {"apiVersion": "v1", "kind": "Certificate", "name": "c", "uid": "x", "controller": true}]});
    let helm = json!({"annotations": {CONSENT: "sync", "meta.helm.sh/release-name": "r"}});
    let label = json!({"annotations": {CONSENT: "sync"}, "labels": {"app.kubernetes.io/managed-by": "Helm"}});
    let back =
        "its label app.kubernetes.io/managed-by was taken off; put the label back, or delete the Secret";
    let cases = [
        (owner, format!("Certificate c manages it{USE_ANOTHER}")),
        (helm, format!("it belongs to a Helm release{USE_ANOTHER}")),
        (
            label,
            format!("its label app.kubernetes.io/managed-by names another manager{USE_ANOTHER}"),
        ),
        (
            json!({"annotations": {CONSENT: "sync", STATE: "x"}}),
            back.to_owned(),
        ),
    ];
    for (metadata, why) in cases {
        stays_foreign("adopt: true", stranger(metadata, "Opaque", false), &why);
    }
}

fn stays_foreign(fields: &str, stranger: Stranger, why: &str) {
    let mut world = World::new(vec![pod("a", 0, fields)]);
    world.live = Live::Foreign(stranger);
    assert_eq!(world.look(1), [conflict(why)]);
    assert!(world.record.taken);
    assert_eq!(world.plan(2).look_again, Some(CONTESTED));
    assert_eq!(world.look(2), [""; 0], "then peace");
    assert_eq!(world.asked, 0);
}

#[test]
fn adoption_needs_the_consent_of_the_owner() {
    let free = |metadata| stranger(metadata, "Opaque", false);
    let needed = "to have it taken over, put the annotation trustplane.io/adopt-by: sync on Secret db, or have it named in \
                  adoptSecrets of a SecretSyncPolicy";
    stays_foreign("adopt: true", free(json!({})), needed);
    stays_foreign(
        "adopt: true",
        free(json!({"annotations": {CONSENT: "true"}})),
        needed,
    );
    let both = "use another secretName, or say adopt: true in the request and put the annotation trustplane.io/adopt-by: sync \
                on Secret db";
    stays_foreign("", free(json!({})), both);
    let wish = "say adopt: true in the request to have it taken over";
    stays_foreign("", free(consenting()), wish);
    let mut world = World::new(vec![pod("a", 0, "adopt: true")]);
    world.live = Live::Foreign(free(consenting()));
    assert_eq!(world.look(1), ["update Secret shop/db", SYNCED]);
}

#[test]
fn adoption_by_policy_needs_one_that_names_the_secret() {
    let rules = |spec: &str| {
        let policy = Policy::new(&serde_json::from_str(spec).unwrap());
        Rules::of(&[Arc::new(policy)], "shop", None)
    };
    let look = |spec: &str| {
        let mut world = World::new(vec![pod("a", 0, "adopt: true")]);
        world.rules = rules(spec);
        world.live = Live::Foreign(stranger(json!({}), "Opaque", false));
        world.look(1).remove(0)
    };
    let policy = |more: &str| format!(r#"{{"rules": [{{"paths": ["shop/*"]}}]{more}}}"#);
    assert_eq!(
        look(&policy(r#", "adoptSecrets": ["d*"]"#)),
        "update Secret shop/db"
    );
    for other in [
        "",
        r#", "adoptSecrets": ["tls"]"#,
        r#", "adoptSecrets": ["d*"], "mode": "Audit""#,
    ] {
        assert!(look(&policy(other)).contains("SecretConflict"), "{other}");
    }
}

#[test]
fn some_types_are_never_taken_over() {
    for kind in [
        "helm.sh/release.v1",
        "kubernetes.io/service-account-token",
        "bootstrap.kubernetes.io/token",
    ] {
        let why = format!("a Secret of type {kind} is never taken over{USE_ANOTHER}");
        stays_foreign("adopt: true", stranger(consenting(), kind, false), &why);
    }
    let other = "its type is kubernetes.io/tls; name that type in the request, or use another secretName";
    stays_foreign(
        "adopt: true",
        stranger(consenting(), "kubernetes.io/tls", false),
        other,
    );
    let immutable = "it is immutable; delete it, or use another secretName";
    stays_foreign("adopt: true", stranger(consenting(), "Opaque", true), immutable);
}

#[test]
fn an_adopted_secret_is_never_deleted() {
    let mut world = World::new(vec![pod(
        "a",
        0,
        "adopt: true, onMissing: delete, refreshInterval: 10s",
    )]);
    world.live = Live::Foreign(stranger(consenting(), "Opaque", false));
    world.look(1);
    // Neither at once, nor after it was written again.
    world.answer = Ok(r#"{"user":"v"}"#);
    assert_eq!(world.look(12)[0], "update Secret shop/db");
    world.answer = Err(FetchError::NotFound);
    let told = world.look(1000);
    assert!(
        told.len() == 1 && told[0].contains("SecretFetchFailed"),
        "{told:?}"
    );
    assert!(matches!(world.live, Live::Ours(_)));
    // Nor one of JASM, which may have taken it from anybody.
    let metadata = json!({"labels": {"app.kubernetes.io/managed-by": "jasm"},
        "annotations": {SOURCE_PATH: "shop/other", SYNCED_AT: "2023-11-14T22:13:20Z"}});
    world.live = Live::Ours(stranger(metadata, "Opaque", false).meta);
    world.answer = Ok(r#"{"user":"w"}"#);
    assert_eq!(world.look(2000)[0], "update Secret shop/db");
    world.answer = Err(FetchError::NotFound);
    assert!(!world.look(3000).iter().any(|step| step.starts_with("delete")));
}

#[test]
fn many_contested_secrets_are_read_less_often_each() {
    let mut world = World::new(vec![pod("a", 0, "")]);
    world.live = Live::Foreign(stranger(json!({}), "Opaque", false));
    let waits = [1, 80, 1000].map(|contested| {
        world.contested = contested;
        world.plan(1).look_again.unwrap().as_secs()
    });
    assert_eq!(waits, [8, 8, 100]);
}
