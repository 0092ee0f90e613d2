//! Every request, there and back.

use trustplane_hsm_agent::{AgentError, PinProblem};
use trustplane_hsm_core::limits::Limits;
use trustplane_hsm_core::version::Expected;
use trustplane_hsm_token::{Attempt, PinTries};

use crate::stage::{self, LABEL, PIN, Stage, open, until};
use trustplane_hsm_core::examples::{path, secret, stamp};

#[tokio::test]
async fn every_request_is_carried_out_in_the_child() {
    let stage = Stage::new();
    let host = open(stage.settings()).await;
    let mut first = secret(
        1,
        &[("user", b"root"), ("password", b"hunter2\0\xff"), ("empty", b"")],
    );
    first.metadata.description = "the <database>".to_owned();
    first.metadata.labels.insert("team".to_owned(), "a".to_owned());
    host.write(&path("shop/db"), first.clone(), Expected::Absent)
        .await
        .unwrap();
    assert_eq!(host.read(&path("shop/db")).await.unwrap(), first);

    let before = host.generation().await.unwrap();
    let second = secret(2, &[("data", &[7; 4096])]);
    host.write(&path("other"), second, Expected::Any).await.unwrap();
    assert!(host.generation().await.unwrap().counter > before.counter);

    let survey = host.survey(true).await.unwrap();
    let listed: Vec<_> = survey
        .listing
        .iter()
        .map(|(path, entry)| (path.as_str(), entry.as_ref().unwrap()))
        .collect();
    assert_eq!(listed.len(), 2);
    assert_eq!(
        (listed[0].0, listed[0].1.metadata.stamp.version, listed[0].1.keys),
        ("other", 2, 1)
    );
    assert_eq!(
        (listed[1].0, listed[1].1.metadata.stamp.version, listed[1].1.keys),
        ("shop/db", 1, 3)
    );
    assert!(listed[1].1.checksum.starts_with("sha256:"));

    host.delete(&path("other"), None, stamp(3), Expected::Version(2))
        .await
        .unwrap();
    assert!(host.read(&path("other")).await.unwrap().is_deleted());
    host.purge(&path("other"), 3, None).await.unwrap();
    assert!(matches!(
        host.read(&path("other")).await,
        Err(AgentError::NotFound(_))
    ));

    let survey = host.survey(true).await.unwrap();
    assert_eq!(survey.capacity.usage.objects, 5);
    let info = host.info().await.unwrap();
    assert_eq!((info.label.as_str(), info.pin_tries), (LABEL, PinTries::Unknown));
    assert_eq!(host.health().borrow().token.as_ref().unwrap().serial, info.serial);
}

#[tokio::test]
async fn errors_keep_their_meaning_and_show_no_value() {
    let stage = Stage::new();
    let mut settings = stage.settings();
    settings.limits = Limits {
        value: Some(100),
        objects: Some(5),
        ..Limits::default()
    };
    let host = open(settings).await;
    let value = b"hunter2".as_slice();
    host.write(&path("a"), secret(1, &[("k", value)]), Expected::Absent)
        .await
        .unwrap();
    let errors = [
        host.read(&path("b")).await.unwrap_err(),
        host.write(&path("a"), secret(2, &[("k", value)]), Expected::Absent)
            .await
            .unwrap_err(),
        host.write(&path("a"), secret(2, &[("k", &value.repeat(20))]), Expected::Any)
            .await
            .unwrap_err(),
        host.write(
            &path("c"),
            secret(1, &[("k", value), ("l", value), ("m", value)]),
            Expected::Any,
        )
        .await
        .unwrap_err(),
        host.write(&path("a"), secret(2, &[]), Expected::Any)
            .await
            .unwrap_err(),
    ];
    let statuses = errors.each_ref().map(AgentError::status);
    assert_eq!(
        statuses,
        [
            "NOT_FOUND",
            "FAILED_PRECONDITION",
            "INVALID_ARGUMENT",
            "RESOURCE_EXHAUSTED",
            "INVALID_ARGUMENT"
        ],
        "{errors:?}"
    );
    assert!(!format!("{errors:?}").contains("hunter2"), "{errors:?}");
    let health = host.health().borrow().clone();
    assert_eq!((health.starts, health.losses, health.crashes), (1, 0, 0));
}

#[tokio::test]
async fn a_pin_that_was_changed_is_the_one_that_a_new_child_gets() {
    let stage = Stage::new();
    let host = open(stage.settings()).await;
    let wrong = host
        .change_pin(
            &stage::secret("111111"),
            &stage::secret("222222"),
            Attempt::Automatic,
        )
        .await;
    assert!(
        matches!(wrong, Err(AgentError::FailedPrecondition(_))),
        "{wrong:?}"
    );
    assert!(stage.answers("C_SetPIN").is_empty(), "it was not tried");
    let ordered = host
        .change_pin(
            &stage::secret("111111"),
            &stage::secret("222222"),
            Attempt::Ordered,
        )
        .await;
    assert_eq!(ordered, Err(AgentError::Pin(PinProblem::Rejected)));
    host.change_pin(&stage::secret(PIN), &stage::secret("975310"), Attempt::Ordered)
        .await
        .unwrap();
    let child = host.health().borrow().process.unwrap();
    crate::process::kill(child);
    until(&host, |health| health.is_serving() && health.crashes == 1).await;
    assert_eq!(host.health().borrow().starts, 2);
    stage::list(&host).await.unwrap();
}
