//! A module that hangs costs its deadline, and nothing else.

use std::time::Duration;

use trustplane_hsm_agent::{AgentError, Effect};
use trustplane_hsm_core::version::Expected;
use trustplane_pkcs11_shim::{Action, Control, Duration as Lasting, Fault};

use crate::process::kill;
use crate::stage::{Stage, open, serving, until};
use trustplane_hsm_core::examples::{path, secret};

/// What the frozen request costs. No other one of a test is bound by it.
const DEADLINE: Duration = Duration::from_secs(2);
/// What nobody waits for.
const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn a_module_that_hangs_is_replaced_and_others_are_told_at_once() {
    let stage = Stage::new();
    let kept = secret(1, &[("k", b"v")]);
    let writer = open(stage.settings()).await;
    writer
        .write(&path("a"), kept.clone(), Expected::Absent)
        .await
        .unwrap();
    writer.stop().await;

    let mut settings = stage.settings();
    (settings.deadline, settings.opening) = (DEADLINE, HOUR);
    let host = open(settings).await;
    let first = host.health().borrow().process;
    let frozen = Fault::before(2, Action::Freeze).lasting(Lasting::Always);
    stage.set(Control::fault(frozen));
    let a = path("a");
    let (frozen, waiting) = tokio::join!(host.read(&a), async {
        stage.failed().await;
        host.info().await
    });
    let (within, effect) = (DEADLINE, Effect::None);
    assert_eq!(frozen.unwrap_err(), AgentError::Deadline { within, effect });
    // The next child hangs as well, for an hour: whoever asks is told meanwhile.
    for told in [waiting, host.info().await] {
        assert!(
            matches!(
                told,
                Err(AgentError::Unavailable { .. } | AgentError::Deadline { .. })
            ),
            "{told:?}"
        );
    }
    let second = until(&host, |health| health.starts == 2).await;
    assert_ne!(second.process, first);
    assert_eq!((second.hangs, second.crashes), (1, 0));
    assert!(second.fault.unwrap().contains("did not answer"));
    stage.heal();
    kill(second.process.unwrap());
    serving(&host).await;
    host.stop().await;
    let reader = open(stage.settings()).await;
    assert_eq!(reader.read(&path("a")).await.unwrap(), kept);
}

#[tokio::test]
async fn a_write_that_hangs_is_the_old_secret_or_the_new_one() {
    let stage = Stage::new();
    let mut settings = stage.settings();
    settings.deadline = DEADLINE;
    let mut now = secret(1, &[("k", b"1"), ("l", b"1")]);
    let writer = open(stage.settings()).await;
    writer
        .write(&path("a"), now.clone(), Expected::Absent)
        .await
        .unwrap();
    writer.stop().await;
    for (version, fault, takes_effect) in [
        // The journal and the generation are there, and of what is new one object.
        (2, Fault::after(3, Action::Freeze).of("C_CreateObject"), false),
        // All that is new is there, and something that is old.
        (3, Fault::after(2, Action::Freeze).of("C_DestroyObject"), true),
    ] {
        let host = open(settings.clone()).await;
        let new = secret(version, &[("k", &version.to_be_bytes()), ("l", b"new")]);
        stage.set(Control::fault(fault));
        let a = path("a");
        let (written, ()) = tokio::join!(host.write(&a, new.clone(), Expected::Any), async {
            stage.failed().await;
            stage.heal();
        });
        let (within, effect) = (DEADLINE, Effect::Unknown);
        assert_eq!(written, Err(AgentError::Deadline { within, effect }));
        let health = serving(&host).await;
        assert_eq!(
            (health.interrupted.len(), health.recoveries),
            (1, 1),
            "{health:?}"
        );
        host.stop().await;
        if takes_effect {
            now = new;
        }
        let reader = open(stage.settings()).await;
        assert_eq!(reader.read(&path("a")).await.unwrap(), now);
        reader.stop().await;
    }
}

#[tokio::test]
async fn no_more_requests_wait_than_the_queue_holds() {
    let stage = Stage::new();
    let mut settings = stage.settings();
    settings.queue = 2;
    settings.deadline = DEADLINE;
    let host = open(settings).await;
    stage.set(Control::fault(Fault::before(1, Action::Freeze)));
    let a = path("a");
    let (served, others) = tokio::join!(host.read(&a), async {
        stage.failed().await;
        stage.heal();
        tokio::join!(host.read(&a), host.read(&a), host.read(&a))
    });
    assert!(matches!(served, Err(AgentError::Deadline { .. })), "{served:?}");
    let others = [others.0, others.1, others.2].map(Result::unwrap_err);
    let busy = others.iter().filter(|error| **error == AgentError::Busy).count();
    assert_eq!(busy, 1, "{others:?}");
    serving(&host).await;
}
