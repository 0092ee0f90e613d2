//! Silence at rest: a look that finds nothing to do writes nothing.

use anyhow::Result;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::PostParams;
use trustplane_testkit::audit::Mark;
use trustplane_testkit::crash::Subject;
use trustplane_testkit::{DEADLINE, Select, eventually};

use crate::stage::{Stage, alone, secret, single};

/// Three mirrors in three states, all told.
async fn settle(stage: &Stage) -> Result<()> {
    stage.set_source("one").await?;
    stage
        .secrets()
        .create(&PostParams::default(), &secret("foreign", "theirs"))
        .await?;
    stage.mirror("fine", &["a", "b"]).await?;
    stage.mirror("blocked", &["c", "foreign"]).await?;
    stage.mirror("nonsense", &["a/b"]).await?;
    stage.says("fine", "InStep").await?;
    stage.says("blocked", "TargetForeign").await?;
    stage.says("nonsense", "TargetInvalid").await?;
    let events: Api<Event> = stage.sandbox.api();
    eventually(&events, &Select::default(), DEADLINE, |found| {
        let told = |reason: &str| {
            found
                .values()
                .any(|event| event.reason.as_deref() == Some(reason))
        };
        ["InStep", "TargetForeign", "TargetInvalid"]
            .iter()
            .all(|reason| told(reason))
            .then_some(())
    })
    .await
}

#[tokio::test]
async fn a_full_resync_writes_nothing() -> Result<()> {
    let stage = Stage::new("resync").await?;
    let (instance, running) = stage.start_alone().await?;
    settle(&stage).await?;
    // What the last status wakes is looked at before silence is asked for.
    stage.looks(&instance, stage.proxy.mark(), 4).await?;
    let (mark, journal) = (Mark::now(stage.sandbox.plane()).await?, stage.proxy.mark());
    // Two mirrors read the source, so six looks are three rounds.
    stage.looks(&instance, journal, 6).await?;
    mark.since().await?.by(&instance).assert_silent();
    alone().kill(running).await
}

#[tokio::test]
async fn a_restart_writes_only_what_has_changed_meanwhile() -> Result<()> {
    let stage = Stage::new("restart").await?;
    let (_, first) = stage.start(&single(), "first").await?;
    settle(&stage).await?;
    first.kill().await?;
    stage.set_source("two").await?;
    let mark = Mark::now(stage.sandbox.plane()).await?;
    let (second, running) = stage.start(&single(), "second").await?;
    stage.in_step("a", "two").await?;
    stage.in_step("b", "two").await?;
    stage.in_step("c", "two").await?;
    // Once more round, so that whatever those writes woke has been looked at.
    stage.set_source("three").await?;
    for copy in ["a", "b", "c"] {
        stage.in_step(copy, "three").await?;
    }
    let audit = mark.since().await?.by(&second);
    let writes: Vec<_> = audit
        .writes()
        .iter()
        .map(|write| format!("{} {}", write.verb, write.name()))
        .collect();
    assert_eq!(writes.len(), 6, "{}", audit.story());
    for copy in ["patch a", "patch b", "patch c"] {
        assert_eq!(
            writes.iter().filter(|write| *write == copy).count(),
            2,
            "{}",
            audit.story()
        );
    }
    running.kill().await
}
