//! A token that goes is missed at once, and served again when it is back.

use std::time::Duration as Time;

use trustplane_hsm_agent::{AgentError, Host, Phase, PinProblem, Settings};
use trustplane_hsm_core::version::Expected;
use trustplane_hsm_token::PinTries;
use trustplane_pkcs11_shim::pkcs11::{
    CKR_DEVICE_MEMORY, CKR_DEVICE_REMOVED, CKR_FUNCTION_FAILED, CKR_SESSION_HANDLE_INVALID,
    CKR_TOKEN_NOT_PRESENT,
};
use trustplane_pkcs11_shim::{Action, Control, Duration, Fault, PinTries as Tries};
use trustplane_process::backoff::Backoff;

use crate::stage::{PATIENCE, Stage, list, open, serving, until};
use trustplane_hsm_core::examples::{path, secret};

const HOUR: Time = Time::from_secs(3600);

fn gone(code: u64) -> Control {
    Control::fault(Fault::before(1, Action::Answer(code)).lasting(Duration::Always))
}

/// As an agent has it, but nobody lives to see what waits otherwise than for the next look at a token that is gone.
fn settings(stage: &Stage) -> Settings {
    let settings = stage.settings();
    let usual = Settings::new(
        settings.program.clone(),
        settings.module.clone(),
        settings.wanted.clone(),
    );
    assert_eq!([usual.retry, usual.probe], [Time::from_secs(1); 2]);
    Settings {
        retry: usual.retry,
        backoff: Backoff {
            first: HOUR,
            max: HOUR,
        },
        ..settings
    }
}

/// An agent's token that was lost.
async fn lost(stage: &Stage) -> Host {
    let host = open(settings(stage)).await;
    stage.set(gone(CKR_DEVICE_REMOVED));
    host.read(&path("a")).await.unwrap_err();
    until(&host, |health| health.phase == Phase::Unavailable).await;
    host
}

/// How often it was looked for the token since the control was set, each time in a module that was initialised for it.
fn looks(stage: &Stage) -> usize {
    stage.answers("C_Initialize").len()
}

#[tokio::test]
async fn an_unplugged_token_is_unavailable_at_once_and_serves_again_when_it_is_back() {
    let stage = Stage::new();
    let host = open(settings(&stage)).await;
    let kept = secret(1, &[("k", b"v")]);
    host.write(&path("a"), kept.clone(), Expected::Absent)
        .await
        .unwrap();
    let child = host.health().borrow().process;
    for (count, code) in [CKR_DEVICE_REMOVED, CKR_TOKEN_NOT_PRESENT]
        .into_iter()
        .enumerate()
    {
        stage.set(gone(code));
        for _ in 0..5 {
            let error = host.read(&path("a")).await.unwrap_err();
            assert!(matches!(error, AgentError::Unavailable { .. }), "{error:?}");
        }
        until(&host, |health| health.phase == Phase::Unavailable).await;
        assert!(stage.answers("C_Login").is_empty());

        stage.heal();
        let health = serving(&host).await;
        // The one that was under way when it came back may have missed it; the next one has not.
        assert!(looks(&stage) <= 2, "{}", looks(&stage));
        assert_eq!(host.read(&path("a")).await.unwrap(), kept);
        // In place, and by the PIN that is known to be right: no try was lost.
        assert_eq!(
            (health.process, health.starts, health.losses),
            (child, 1, count as u64 + 1)
        );
        assert_eq!(stage.answers("C_Login"), [Some(0)]);
        assert_eq!(host.info().await.unwrap().pin_tries, PinTries::Unknown);
    }
}

#[tokio::test]
async fn a_token_that_is_back_and_cannot_be_opened_yet_is_looked_at_again_soon() {
    // When it is looked for, and when it is read: then it was opened before, by a PIN that is right.
    for (function, logins) in [("C_GetSlotList", 1), ("C_FindObjectsInit", 2)] {
        let stage = Stage::new();
        let host = lost(&stage).await;
        let full = Fault::before(1, Action::Answer(CKR_DEVICE_MEMORY)).of(function);
        stage.set(Control::fault(full));
        serving(&host).await;
        assert!(stage.shim.has_failed().unwrap(), "{function}");
        assert!(looks(&stage) <= 3, "{function} {}", looks(&stage));
        assert_eq!(stage.answers("C_Login"), vec![Some(0); logins], "{function}");
    }
}

#[tokio::test]
async fn a_token_that_is_back_with_a_low_count_is_looked_at_again_soon_and_not_tried() {
    let stage = Stage::new();
    let host = lost(&stage).await;
    stage.set(Control {
        pin_tries: Some(Tries::Low),
        ..Control::default()
    });
    let low = Phase::PinRefused(PinProblem::TriesLow);
    until(&host, |health| health.phase == low).await;
    assert!(stage.answers("C_Login").is_empty());
    stage.heal();
    serving(&host).await;
    assert!(looks(&stage) <= 2, "{}", looks(&stage));
    assert_eq!(stage.answers("C_Login"), [Some(0)]);
}

#[tokio::test]
async fn a_module_that_crashes_while_the_token_is_out_is_started_as_often_as_it_is_looked_for() {
    let stage = Stage::new();
    let host = open(settings(&stage)).await;
    stage.set(Control::fault(
        Fault::before(1, Action::Abort).lasting(Duration::Always),
    ));
    host.read(&path("a")).await.unwrap_err();
    until(&host, |health| health.crashes >= 4).await;
    stage.heal();
    serving(&host).await;
    assert!(looks(&stage) <= 2, "{}", looks(&stage));
    assert_eq!(stage.answers("C_Login"), [Some(0)]);
}

#[tokio::test]
async fn a_token_that_went_and_came_back_while_nobody_asked_is_opened_again() {
    let stage = Stage::new();
    let mut settings = settings(&stage);
    settings.probe = Time::from_millis(20);
    let host = open(settings).await;
    // It is there, as before; the session that we had with it is not.
    let closed = Fault::before(1, Action::Answer(CKR_SESSION_HANDLE_INVALID)).of("C_GetSessionInfo");
    stage.set(Control::fault(closed));
    until(&host, |health| health.losses == 1 && health.is_serving()).await;
    assert_eq!(looks(&stage), 1);
    assert_eq!(stage.answers("C_Login"), [Some(0)]);
    host.info().await.unwrap();
}

#[tokio::test]
async fn a_token_is_missed_also_if_its_module_has_no_word_for_that() {
    let stage = Stage::new();
    let host = open(settings(&stage)).await;
    stage.set(gone(CKR_FUNCTION_FAILED));
    let error = host.read(&path("a")).await.unwrap_err();
    assert!(matches!(error, AgentError::Unavailable { .. }), "{error:?}");
    until(&host, |health| {
        health.phase == Phase::Unavailable && health.losses == 1
    })
    .await;
    assert!(stage.answers("C_Login").is_empty());
    stage.heal();
    serving(&host).await;
    assert_eq!(stage.answers("C_Login"), [Some(0)]);
}

#[tokio::test]
async fn a_token_that_says_that_it_is_there_is_not_missed_for_a_request_that_failed() {
    let stage = Stage::new();
    let host = open(settings(&stage)).await;
    let failing = Fault::before(1, Action::Answer(CKR_FUNCTION_FAILED)).of("C_FindObjectsInit");
    stage.set(Control::fault(failing));
    let error = host.read(&path("a")).await.unwrap_err();
    assert!(matches!(error, AgentError::Unavailable { .. }), "{error:?}");
    host.info().await.unwrap();
    let health = host.health().borrow().clone();
    assert!(health.is_serving() && health.losses == 0, "{health:?}");
    assert_eq!(looks(&stage), 0);
}

#[tokio::test]
async fn those_who_keep_asking_do_not_keep_a_token_from_being_missed() {
    let stage = Stage::new();
    let mut settings = settings(&stage);
    // Longer than anybody here waits between two requests.
    settings.probe = Time::from_secs(1);
    let host = open(settings).await;
    // What is asked for is not there, as ever; only who looks at the slots sees that the token is gone.
    let removed = Fault::before(1, Action::Answer(CKR_DEVICE_REMOVED)).of("C_GetSlotList");
    stage.set(Control::fault(removed.lasting(Duration::Always)));
    let ask = async {
        loop {
            match host.read(&path("none")).await {
                Err(AgentError::NotFound(_)) => {}
                other => return other,
            }
        }
    };
    let told = tokio::time::timeout(PATIENCE, ask).await.unwrap();
    assert!(matches!(told, Err(AgentError::Unavailable { .. })), "{told:?}");
}

#[tokio::test]
async fn nobody_waits_for_a_token_that_is_gone() {
    let stage = Stage::new();
    let mut settings = stage.settings();
    // Whoever waited for the next look would wait for longer than any test.
    settings.retry = HOUR;
    let host = open(settings).await;
    stage.set(gone(CKR_DEVICE_REMOVED));
    for _ in 0..5 {
        let error = host.read(&path("a")).await.unwrap_err();
        assert!(matches!(error, AgentError::Unavailable { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn a_token_that_goes_while_nobody_asks_is_missed() {
    let stage = Stage::new();
    let mut settings = stage.settings();
    settings.probe = Time::from_millis(20);
    let host = open(settings).await;
    stage.set(gone(CKR_TOKEN_NOT_PRESENT));
    until(&host, |health| health.phase == Phase::Unavailable).await;
    stage.heal();
    serving(&host).await;
}

#[tokio::test]
async fn another_token_in_its_place_is_refused_without_a_try_of_the_pin() {
    let stage = Stage::new();
    stage.swap();
    stage.provision();
    let host = open(stage.settings()).await;
    let serial = host.info().await.unwrap().serial;
    stage.set(gone(CKR_DEVICE_REMOVED));
    list(&host).await.unwrap_err();
    until(&host, |health| health.phase == Phase::Unavailable).await;
    stage.swap();
    stage.heal();
    let no_such = format!("no token with serial {serial:?}");
    let seen = |fault: &Option<String>| fault.as_ref().is_some_and(|fault| fault.starts_with(&no_such));
    until(&host, |health| seen(&health.fault)).await;
    let error = list(&host).await.unwrap_err();
    assert!(
        matches!(&error, AgentError::Unavailable { what, .. } if what.contains("stick")),
        "{error:?}"
    );
    assert!(stage.answers("C_Login").is_empty());
    stage.swap();
    serving(&host).await;
    assert_eq!(host.info().await.unwrap().serial, serial);
}
