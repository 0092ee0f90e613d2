//! A token that goes is missed at once, and served again when it is back.

use std::time::Duration as Time;

use trustplane_hsm_agent::{AgentError, Phase, Settings};
use trustplane_hsm_core::version::Expected;
use trustplane_hsm_token::PinTries;
use trustplane_pkcs11_shim::pkcs11::{CKR_DEVICE_REMOVED, CKR_TOKEN_NOT_PRESENT};
use trustplane_pkcs11_shim::{Action, Control, Duration, Fault};

use crate::stage::{Stage, list, open, serving, until};
use trustplane_hsm_core::examples::{path, secret};

fn gone(code: u64) -> Control {
    Control::fault(Fault::before(1, Action::Answer(code)).lasting(Duration::Always))
}

#[tokio::test]
async fn an_unplugged_token_is_unavailable_at_once_and_serves_again_when_it_is_back() {
    let stage = Stage::new();
    let mut settings = stage.settings();
    // As the agent has it: it looks every second, and the first look that finds the token opens it.
    let usual = Settings::new(
        settings.program.clone(),
        settings.module.clone(),
        settings.wanted.clone(),
    );
    settings.retry = usual.retry;
    assert_eq!(usual.retry, Time::from_secs(1));
    let host = open(settings).await;
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
async fn nobody_waits_for_a_token_that_is_gone() {
    let stage = Stage::new();
    let mut settings = stage.settings();
    // Whoever waited for the next look would wait for longer than any test.
    settings.retry = Time::from_secs(3600);
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
