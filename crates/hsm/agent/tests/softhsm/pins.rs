//! No loop costs a token its PIN.

use std::time::Duration;

use trustplane_hsm_agent::{AgentError, Effect, Phase, PinProblem};
use trustplane_hsm_token::Attempt;
use trustplane_pkcs11_shim::pkcs11::{CKR_DEVICE_REMOVED, CKR_PIN_INCORRECT};
use trustplane_pkcs11_shim::{Action, Control, Duration as Lasting, Fault};

use crate::stage::{PIN, Stage, eventually, give_pin, list, open, secret, serving, start, until};
use trustplane_hsm_core::examples::path;

#[tokio::test]
async fn a_wrong_pin_is_tried_once_however_often_one_asks() {
    let stage = Stage::new();
    let mut settings = stage.settings();
    settings.retry = Duration::from_millis(1);
    let host = start(settings, "111111");
    let refused = Phase::PinRefused(PinProblem::Rejected);
    until(&host, |health| health.phase == refused).await;
    for _ in 0..20 {
        let error = host.read(&path("a")).await.unwrap_err();
        assert_eq!(error, AgentError::Pin(PinProblem::Rejected));
        assert_eq!(error.status(), "FAILED_PRECONDITION");
        give_pin(&host, "111111", Attempt::Automatic).await;
    }
    // A child that is replaced does not try it either.
    let child = host.health().borrow().process.unwrap();
    crate::process::kill(child);
    until(&host, |health| health.process.is_none()).await;
    give_pin(&host, "111111", Attempt::Automatic).await;
    list(&host).await.unwrap_err();
    assert_eq!(stage.answers("C_Login"), [Some(CKR_PIN_INCORRECT)]);

    // The token says that a wrong one was tried: the next one is an order.
    give_pin(&host, PIN, Attempt::Automatic).await;
    until(&host, |health| {
        health.phase == Phase::PinRefused(PinProblem::TriesLow)
    })
    .await;
    assert_eq!(stage.answers("C_Login").len(), 1);
    give_pin(&host, PIN, Attempt::Ordered).await;
    serving(&host).await;
    assert_eq!(stage.answers("C_Login"), [Some(CKR_PIN_INCORRECT), Some(0)]);
}

#[tokio::test]
async fn a_wrong_pin_is_tried_once_also_if_the_token_does_not_tell_of_it() {
    let stage = Stage::new();
    let wrong = Fault::before(1, Action::Answer(CKR_PIN_INCORRECT)).lasting(Lasting::Always);
    stage.set(Control::fault(wrong.of("C_Login")));
    let mut settings = stage.settings();
    settings.retry = Duration::from_millis(1);
    let host = start(settings, PIN);
    let refused = Phase::PinRefused(PinProblem::Rejected);
    for _ in 0..20 {
        until(&host, |health| health.phase == refused).await;
        give_pin(&host, PIN, Attempt::Automatic).await;
        let error = list(&host).await.unwrap_err();
        assert_eq!(error, AgentError::Pin(PinProblem::Rejected));
    }
    // An empty PIN is not tried, and what is said of it comes after all that was ordered before.
    give_pin(&host, "", Attempt::Automatic).await;
    until(&host, |health| health.phase == Phase::Unavailable).await;
    assert_eq!(stage.answers("C_Login"), [Some(CKR_PIN_INCORRECT)]);
    // One that was rejected is known when it comes back.
    give_pin(&host, PIN, Attempt::Automatic).await;
    until(&host, |health| health.phase == refused).await;
    assert_eq!(stage.answers("C_Login"), [Some(CKR_PIN_INCORRECT)]);
}

#[tokio::test]
async fn a_pin_whose_tries_are_not_answered_is_tried_twice_at_most() {
    let stage = Stage::new();
    stage.set(Control::fault(Fault::before(1, Action::Abort).of("C_Login")));
    let host = start(stage.settings(), PIN);
    until(&host, |health| {
        health.phase == Phase::PinRefused(PinProblem::Unanswered)
    })
    .await;
    assert_eq!(stage.answers("C_Login"), [None, None]);
    let error = list(&host).await.unwrap_err();
    assert_eq!(error, AgentError::Pin(PinProblem::Unanswered));
    stage.heal();
    give_pin(&host, PIN, Attempt::Ordered).await;
    serving(&host).await;
}

#[tokio::test]
async fn a_pin_that_another_has_changed_is_tried_once_after_it_was_accepted() {
    let stage = Stage::new();
    let host = open(stage.settings()).await;
    // It does not see our lock: it is in another pod, say.
    let mut elsewhere = stage.settings();
    elsewhere.runtime = stage.folder().join("elsewhere");
    let other = open(elsewhere).await;
    other
        .change_pin(&secret(PIN), &secret("975310"), Attempt::Automatic)
        .await
        .unwrap();
    stage.heal();
    crate::process::kill(host.health().borrow().process.unwrap());
    until(&host, |health| {
        health.phase == Phase::PinRefused(PinProblem::Rejected)
    })
    .await;
    list(&host).await.unwrap_err();
    eventually("one try is recorded", || {
        stage.answers("C_Login") == [Some(CKR_PIN_INCORRECT)]
    })
    .await;
}

#[tokio::test]
async fn a_change_of_the_pin_that_was_not_begun_leaves_the_old_one_in_use() {
    let stage = Stage::new();
    let host = open(stage.settings()).await;
    let gone = Fault::before(1, Action::Answer(CKR_DEVICE_REMOVED)).lasting(Lasting::Always);
    stage.set(Control::fault(gone));
    let changed = host
        .change_pin(&secret(PIN), &secret("975310"), Attempt::Automatic)
        .await;
    assert!(
        matches!(
            changed,
            Err(AgentError::Unavailable {
                effect: Effect::None,
                ..
            })
        ),
        "{changed:?}"
    );
    stage.heal();
    serving(&host).await;
}

#[tokio::test]
async fn a_change_of_the_pin_that_crashed_leaves_nobody_guessing_by_tries() {
    let stage = Stage::new();
    let host = open(stage.settings()).await;
    stage.set(Control::fault(Fault::after(1, Action::Abort).of("C_SetPIN")));
    let changed = host
        .change_pin(&secret(PIN), &secret("975310"), Attempt::Automatic)
        .await;
    assert!(
        matches!(
            changed,
            Err(AgentError::Unavailable {
                effect: Effect::Unknown,
                ..
            })
        ),
        "{changed:?}"
    );
    let undecided = Phase::PinRefused(PinProblem::Undecided);
    until(&host, |health| health.phase == undecided).await;
    assert!(stage.answers("C_Login").is_empty());
    give_pin(&host, "975310", Attempt::Ordered).await;
    serving(&host).await;
}

#[tokio::test]
async fn an_empty_pin_is_not_tried() {
    let stage = Stage::new();
    let host = start(stage.settings(), "");
    until(&host, |health| health.phase == Phase::Unavailable).await;
    let error = list(&host).await.unwrap_err();
    assert_eq!(error.status(), "INVALID_ARGUMENT", "{error:?}");
    assert!(stage.answers("C_Login").is_empty());
}

#[tokio::test]
async fn a_module_that_crashes_after_the_login_does_not_make_the_pin_doubtful() {
    let stage = Stage::new();
    stage.set(Control::fault(
        Fault::before(1, Action::Abort).of("C_FindObjectsInit"),
    ));
    let host = start(stage.settings(), PIN);
    until(&host, |health| health.crashes >= 4).await;
    stage.heal();
    serving(&host).await;
}
