//! A fault leaves the Secret as it was, is reported once, and heals.

use super::*;

/// Replaces the tokens of a stage at rest, and puts them back. Answers the steps and the status during the fault.
fn trouble(stage: &mut Stage, tokens: Vec<TokenView>) -> (Vec<String>, HsmSecretStatus) {
    let before = std::mem::replace(&mut stage.situation.tokens, tokens);
    let steps = stage.settle();
    let during = stage.situation.status.clone();
    assert!(
        !steps
            .iter()
            .any(|step| step.contains(" Secret shop/db-credentials")),
        "{steps:?}"
    );
    assert_eq!(
        steps.iter().filter(|step| step.starts_with("tell")).count(),
        1,
        "{steps:?}"
    );
    stage.situation.tokens = before;
    stage.settle();
    assert_eq!(stage.sync_status(), "InSync");
    assert_eq!(stage.error(), "");
    (steps, during)
}

#[test]
fn absence_of_a_delivered_secret_is_an_error_and_keeps_it() {
    let mut stage = Stage::new();
    stage.settle();
    let absent = vec![token("pico/a", CopyState::Absent { deleted: false })];
    let (steps, status) = trouble(&mut stage, absent);
    assert!(steps[0].contains("NotOnToken"), "{steps:?}");
    assert_eq!(status.sync_status.as_deref(), Some("Error"));
    assert!(status.last_error.unwrap().contains("the Secret stays as it was"));
}

#[test]
fn absence_before_the_first_delivery_is_pending() {
    let mut stage = Stage::new();
    stage.situation.tokens = vec![token("pico/a", CopyState::Absent { deleted: false })];
    stage.settle();
    assert_eq!(stage.sync_status(), "Pending");
    assert!(
        stage.error().ends_with("kubectl trustplane hsm create shop/db"),
        "{}",
        stage.error()
    );
    assert_eq!(stage.condition("Ready"), ("False".into(), "Pending".into()));
    stage.hold(&[("password", "s3cr3t")], 1);
    stage.settle();
    assert_eq!(stage.sync_status(), "InSync");
}

#[test]
fn token_that_is_away_or_damaged_costs_no_secret() {
    let mut stage = Stage::new();
    stage.settle();
    let (steps, status) = trouble(&mut stage, vec![away("pico/a")]);
    assert!(
        steps[0].contains("TokenUnreachable") && steps[0].contains("no running pod"),
        "{steps:?}"
    );
    assert!(!status.device_sync_status[0].online);
    assert_eq!(status.conditions.get("Degraded").unwrap().status, "True");
    let damaged = vec![token(
        "pico/a",
        CopyState::Damaged("two objects have one label".to_owned()),
    )];
    let (steps, _) = trouble(&mut stage, damaged);
    assert!(steps[0].contains("SecretUnreadable"), "{steps:?}");
    let (steps, _) = trouble(&mut stage, Vec::new());
    assert!(steps[0].contains("NoToken"), "{steps:?}");
}

#[test]
fn token_that_was_not_asked_yet_changes_nothing() {
    let mut stage = Stage::new();
    stage.settle();
    stage.situation.tokens = vec![token("pico/a", CopyState::Unasked)];
    assert_eq!(stage.look(), [""; 0]);
}

#[test]
fn data_that_does_not_suit_the_type_is_not_written() {
    let mut stage = Stage::new();
    stage.spec().secret_type = "kubernetes.io/tls".to_owned();
    let steps = stage.settle();
    assert!(
        !steps.iter().any(|step| step.contains("create Secret")),
        "{steps:?}"
    );
    assert!(
        stage.error().contains("needs the key tls.crt"),
        "{}",
        stage.error()
    );
    assert_eq!(
        stage.condition("Synced"),
        ("False".into(), "SecretUnsuitable".into())
    );
}

#[test]
fn secret_that_is_too_large_is_not_written() {
    let mut stage = Stage::new();
    stage.hold(&[("password", &"x".repeat((1 << 20) + 1))], 1);
    stage.settle();
    assert_eq!(
        stage.error(),
        "the values have 1048577 bytes together; a Secret takes at most 1048576"
    );
    assert!(matches!(stage.situation.live, LiveSecret::Absent));
}

#[test]
fn immutable_secret_stays_in_sync_until_its_content_changes() {
    let mut stage = Stage::new();
    stage.settle();
    stage.edit(|_, content| content.immutable = true);
    assert_eq!(stage.settle(), [""; 0]);
    stage.hold(&[("password", "second")], 2);
    stage.settle();
    assert_eq!(stage.condition("Synced"), ("False".into(), "SecretFixed".into()));
}

#[test]
fn type_that_kubernetes_cannot_change_is_told() {
    let mut stage = Stage::new();
    stage.settle();
    stage.spec().secret_type = "example.com/other".to_owned();
    let steps = stage.settle();
    assert!(steps[0].contains("SecretFixed"), "{steps:?}");
    assert!(
        stage.error().contains("kubectl delete secret db-credentials"),
        "{}",
        stage.error()
    );
    stage.situation.live = LiveSecret::Absent;
    stage.settle();
    assert_eq!(stage.sync_status(), "InSync");
    stage.edit(|_, content| {
        *content = content_of("example.com/other", &data(&[("password", "edited")]));
        content.immutable = true;
    });
    assert!(stage.settle()[0].contains("is immutable"));
}

#[test]
fn reserved_type_is_refused_by_field_and_rule() {
    let mut stage = Stage::new();
    stage.spec().secret_type = "kubernetes.io/service-account-token".to_owned();
    stage.settle();
    assert!(
        stage.error().starts_with("spec.secretType: "),
        "{}",
        stage.error()
    );
    assert!(matches!(stage.situation.live, LiveSecret::Absent));
}

#[test]
fn failed_write_is_in_the_status_while_it_is_tried_again() {
    let mut stage = Stage::new();
    stage.situation.trouble = Some("failed to create Secret shop/db-credentials: quota".to_owned());
    let steps = stage.look();
    assert!(
        steps
            .iter()
            .any(|step| step == "create Secret shop/db-credentials"),
        "{steps:?}"
    );
    assert_eq!(stage.sync_status(), "OutOfSync");
    assert!(stage.error().ends_with("quota"));
    stage.situation.trouble = None;
    stage.settle();
    assert_eq!(stage.sync_status(), "InSync");
}

#[test]
fn failed_read_is_tried_before_it_is_told() {
    let mut stage = Stage::new();
    stage.settle();
    stage.hold(&[("password", "changed")], 2);
    let read = |stage: &Stage| {
        let assessment = assess(&stage.situation, &fingerprinter());
        let input = DeliveryInput {
            situation: stage.situation.clone(),
            assessment,
            reading: Some(Err("the connection to its agent broke".to_owned())),
            managed_fields: None,
        };
        decide_delivery(&input, at(9))
    };
    let plan = read(&stage);
    assert!(plan.is_empty() && plan.ending != trustplane_plan::Ending::Done);
    stage.situation.failures = 3;
    let steps = read(&stage).steps;
    assert!(steps[0].to_string().contains("ReadFailed"), "{steps:?}");
    assert!(!steps.iter().any(|step| matches!(step, Step::Apply(_))));
}
