//! Deletion of an HSMSecret deletes the Secret, needs no token, and leaves the secret on the tokens.

use super::*;

#[test]
fn secret_goes_before_the_finalizer_without_any_token() {
    let mut stage = Stage::new();
    stage.settle();
    stage.situation.object.deleted = Some(at(50));
    stage.situation.tokens = vec![away("pico/a")];
    let steps = stage.look();
    assert_eq!(
        steps,
        [
            "delete Secret shop/db-credentials (uid uid-Secret shop/db-credentials)",
            "remove the finalizer hsmsecret.hsm.j5t.io/finalizer of HSMSecret shop/db",
        ]
    );
    assert_eq!(stage.look(), [""; 0]);
    assert!(stage.situation.tenant.is_some(), "the claim outlives it");
}

#[test]
fn secret_of_somebody_else_survives_the_deletion() {
    let mut stage = Stage::new();
    stage.situation.live = foreign(json!({}), json!([]));
    stage.settle();
    stage.situation.object.deleted = Some(at(50));
    assert_eq!(
        stage.look(),
        ["remove the finalizer hsmsecret.hsm.j5t.io/finalizer of HSMSecret shop/db"]
    );
}

#[test]
fn object_that_is_about_to_go_gets_no_secret_and_no_finalizer() {
    let mut stage = Stage::new();
    stage.situation.object.deleted = Some(at(50));
    assert_eq!(stage.look(), [""; 0]);
}
