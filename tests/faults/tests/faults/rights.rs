//! Least power: a process uses exactly the rights that it declares.

use anyhow::Result;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use trustplane_sample::api::{ADOPT, SOURCE};
use trustplane_testkit::audit::Mark;
use trustplane_testkit::proxy::{Answer, Fault, Match, Rule, Verb};
use trustplane_testkit::{DEADLINE, wait_for};

use crate::admission::{address, all_at, configure, in_force};
use crate::stage::{SOURCE_NAME, Stage, aim, remove, replica, secret};

#[tokio::test]
async fn rights_used_are_rights_granted() -> Result<()> {
    let stage = Stage::serving("least", "sample").await?;
    let mark = Mark::now(stage.sandbox.plane()).await?;
    // A server that does not stream lists is listed by pages: the right to list is for that.
    for resource in [
        "secrets",
        "mirrors",
        "validatingwebhookconfigurations",
        "mutatingwebhookconfigurations",
    ] {
        let streams = Match::streamed_lists().resource(resource);
        stage
            .proxy
            .add(Rule::new(streams, Fault::Answer(Answer::invalid())));
    }
    let (_, running) = stage.start(&stage.server("sample"), "all").await?;
    configure(&stage, &all_at(address(&running).await?)).await?;
    in_force(&stage).await?;
    let sandbox = &stage.sandbox;
    stage.set_source("one").await?;
    stage
        .secrets()
        .create(&PostParams::default(), &secret("foreign", "theirs"))
        .await?;
    let mirror = stage.mirror("m", &["a", "b", "foreign"]).await?;
    stage.says("m", "TargetForeign").await?;
    let adopt = Patch::Merge(json!({ "metadata": { "annotations": { ADOPT: "true" } } }));
    stage
        .mirrors()
        .patch("m", &PatchParams::default(), &adopt)
        .await?;
    stage.in_step("foreign", "one").await?;
    aim(sandbox, "m", &["a"]).await?;
    wait_for(&stage.secrets(), "b", DEADLINE, |live| live.is_none()).await?;

    // The same news a second time goes on with the series of the first; it is read only if another has written to it.
    let events = Match::verb(Verb::Patch).resource("events");
    stage
        .proxy
        .add(Rule::new(events.clone(), Fault::Answer(Answer::conflict())).once());
    for offered in [json!(null), json!(""), json!(null), json!("")] {
        let reason = if offered.is_null() {
            "SourceMissing"
        } else {
            "InStep"
        };
        let patch = Patch::Merge(json!({ "metadata": { "labels": { SOURCE: offered } } }));
        stage
            .secrets()
            .patch(SOURCE_NAME, &PatchParams::default(), &patch)
            .await?;
        stage.says("m", reason).await?;
    }
    stage.proxy.answered(&events, 1, DEADLINE).await?;
    drop(mirror);
    remove(sandbox, "m").await?;
    running.kill().await?;

    let audit = mark.since().await?;
    audit.assert_rights_used_are_rights_granted(&stage.account);
    Ok(())
}

/// The proof that the comparison can fail: a controller that cannot reach the API server uses nothing.
#[tokio::test]
async fn a_right_that_is_not_used_is_told() -> Result<()> {
    let stage = Stage::new("idle").await?;
    stage.proxy.add(Rule::new(Match::any(), Fault::Cut));
    let mark = Mark::now(stage.sandbox.plane()).await?;
    let (instance, running) = stage.start(&replica(), "idle").await?;
    stage
        .proxy
        .wait_for(&Match::any().by(&instance), 1, DEADLINE)
        .await?;
    drop(running);
    let report = mark.since().await?.rights(&stage.account);
    assert!(
        !report.is_exact() && report.used.is_empty() && !report.unused.is_empty(),
        "{report}"
    );
    Ok(())
}
