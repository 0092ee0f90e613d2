//! A module that hangs costs its deadline, and nothing else.

use std::time::{Duration, Instant};

use trustplane_hsm_agent::{AgentError, Effect};
use trustplane_hsm_core::version::Expected;
use trustplane_pkcs11_shim::{Action, Control, Fault};

use crate::stage::{Stage, open, serving};
use trustplane_hsm_core::examples::{path, secret};

const DEADLINE: Duration = Duration::from_millis(500);

#[tokio::test]
async fn a_module_that_hangs_is_replaced_and_others_are_told_at_once() {
    let stage = Stage::new();
    let mut settings = stage.settings();
    settings.deadline = DEADLINE;
    let host = open(settings).await;
    let kept = secret(1, &[("k", b"v")]);
    host.write(&path("a"), kept.clone(), Expected::Absent)
        .await
        .unwrap();
    let first = host.health().borrow().process;

    stage.set(Control::fault(Fault::before(2, Action::Freeze)));
    let begun = Instant::now();
    let a = path("a");
    let (frozen, waiting) = tokio::join!(host.read(&a), async {
        stage.failed().await;
        // What is frozen stays so; the next child is not to freeze.
        stage.heal();
        host.list().await
    });
    let took = begun.elapsed();
    let effect = Effect::None;
    assert_eq!(
        frozen.unwrap_err(),
        AgentError::Deadline {
            within: DEADLINE,
            effect
        }
    );
    assert!(
        matches!(
            waiting,
            Err(AgentError::Unavailable { .. } | AgentError::Deadline { .. })
        ),
        "{waiting:?}"
    );
    assert!(took >= DEADLINE && took < 3 * DEADLINE, "{took:?}");

    let health = serving(&host).await;
    assert_eq!((health.hangs, health.starts, health.crashes), (1, 2, 0));
    assert_ne!(health.process, first);
    assert!(health.fault.unwrap().contains("did not answer"));
    assert_eq!(host.read(&path("a")).await.unwrap(), kept);
}

#[tokio::test]
async fn a_write_that_hangs_is_the_old_secret_or_the_new_one() {
    let stage = Stage::new();
    let mut settings = stage.settings();
    settings.deadline = DEADLINE;
    let host = open(settings).await;
    let mut now = secret(1, &[("k", b"1"), ("l", b"1")]);
    host.write(&path("a"), now.clone(), Expected::Absent)
        .await
        .unwrap();
    for (version, fault, takes_effect) in [
        // The journal and the generation are there, and of what is new one object.
        (2, Fault::after(3, Action::Freeze).of("C_CreateObject"), false),
        // All that is new is there, and something that is old.
        (3, Fault::after(2, Action::Freeze).of("C_DestroyObject"), true),
    ] {
        let new = secret(version, &[("k", &version.to_be_bytes()), ("l", b"new")]);
        stage.set(Control::fault(fault));
        let a = path("a");
        let (written, ()) = tokio::join!(host.write(&a, new.clone(), Expected::Any), async {
            stage.failed().await;
            stage.heal();
        });
        let effect = Effect::Unknown;
        assert_eq!(
            written,
            Err(AgentError::Deadline {
                within: DEADLINE,
                effect
            })
        );
        let health = serving(&host).await;
        assert_eq!(health.interrupted.len(), 1, "{health:?}");
        if takes_effect {
            now = new;
        }
        assert_eq!(host.read(&path("a")).await.unwrap(), now);
    }
}

#[tokio::test]
async fn no_more_requests_wait_than_the_queue_holds() {
    let stage = Stage::new();
    let mut settings = stage.settings();
    settings.queue = 2;
    settings.deadline = Duration::from_secs(1);
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
