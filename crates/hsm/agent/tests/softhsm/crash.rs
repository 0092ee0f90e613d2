//! A module that crashes takes its process with it, and no secret.

use trustplane_hsm_agent::{AgentError, Effect};
use trustplane_hsm_core::change::Terms;
use trustplane_hsm_core::version::Expected;
use trustplane_pkcs11_shim::{Action, Control, Fault};

use crate::stage::{Stage, list, open, serving, until};
use trustplane_hsm_core::examples::{path, secret};

#[tokio::test]
async fn a_write_that_crashes_is_the_old_secret_or_the_new_one() {
    let stage = Stage::new();
    let host = open(stage.settings()).await;
    let mut now = secret(1, &[("k", b"1"), ("l", b"1")]);
    host.write(&path("a"), now.clone(), Expected::Absent)
        .await
        .unwrap();
    let created = (1..=5).map(|at| (Fault::before(at, Action::Abort).of("C_CreateObject"), false));
    let destroyed = (1..=3).map(|at| (Fault::after(at + 1, Action::Abort).of("C_DestroyObject"), true));
    let given = Terms::from(Expected::Any);
    let counted = Terms::next(Expected::Any);
    for (fault, takes_effect) in created.chain(destroyed) {
        for terms in [given, counted] {
            let version = now.metadata.stamp.version + 1;
            let new = secret(
                version,
                &[("k", &version.to_be_bytes()), ("l", &version.to_le_bytes())],
            );
            let crashes = host.health().borrow().crashes;
            stage.set(Control::fault(fault.clone()));
            let written = host.write(&path("a"), new.clone(), terms).await;
            stage.heal();
            let error = written.unwrap_err();
            assert!(
                matches!(&error, AgentError::Unavailable { what, effect: Effect::Unknown } if what.contains("SIGABRT")),
                "{fault:?}: {error:?}"
            );
            until(&host, |health| health.is_serving() && health.crashes > crashes).await;
            if takes_effect {
                now = new;
            }
            assert_eq!(host.read(&path("a")).await.unwrap(), now, "{fault:?}");
        }
    }
}

#[tokio::test]
async fn a_child_that_dies_while_nobody_asks_is_replaced() {
    let stage = Stage::new();
    let host = open(stage.settings()).await;
    for deaths in 1..=3 {
        crate::process::kill(host.health().borrow().process.unwrap());
        let health = until(&host, |health| health.is_serving() && health.crashes == deaths).await;
        assert_eq!(health.starts, deaths + 1);
        list(&host).await.unwrap();
    }
}

#[tokio::test]
async fn a_module_that_crashes_as_soon_as_it_is_loaded_is_tried_again_and_again() {
    let stage = Stage::new();
    stage.set(Control::fault(Fault::before(1, Action::Abort)));
    let host = crate::stage::start(stage.settings(), crate::stage::PIN);
    let health = until(&host, |health| health.crashes >= 3).await;
    assert!(!health.is_serving());
    assert!(matches!(list(&host).await, Err(AgentError::Unavailable { .. })));
    stage.heal();
    serving(&host).await;
    list(&host).await.unwrap();
}
