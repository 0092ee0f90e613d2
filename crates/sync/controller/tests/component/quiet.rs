//! Silence at rest.

use anyhow::Result;
use serde_json::json;
use trustplane_testkit::audit::Mark;
use trustplane_testkit::crash::Subject;

use crate::stage::{Stage, VALUE, alone};

/// A pod that has its Secret after everything that was queued before it.
async fn after_all(stage: &Stage, name: &str) -> Result<()> {
    stage.mock.set(name, VALUE);
    stage.pod(name, name, name, "").await?;
    stage.holds(name, &[("password", "p"), ("user", "u")]).await?;
    Ok(())
}

#[tokio::test]
async fn changes_of_a_pod_that_mean_nothing_cause_nothing() -> Result<()> {
    let (stage, instance, running) = Stage::synced("status").await?;
    stage.told("web", "SecretSyncSuccess").await?;
    let mark = Mark::now(stage.sandbox.plane()).await?;
    for n in 0..5 {
        stage
            .patch("web", json!({"labels": {"x": n.to_string()}}))
            .await?;
    }
    let status = kube::api::Patch::Merge(json!({"status": {"phase": "Running"}}));
    stage
        .pods()
        .patch_status("web", &kube::api::PatchParams::default(), &status)
        .await?;
    after_all(&stage, "last").await?;
    alone(&stage.mock).kill(running).await?;
    assert_eq!(stage.mock.asked_for("a"), 1);
    let writes = mark.since().await?.by(&instance);
    let about_web = writes
        .writes()
        .iter()
        .filter(|write| write.name() != "last" && !write.name().starts_with("last."))
        .count();
    assert_eq!(about_web, 0, "{}", writes.story());
    Ok(())
}

#[tokio::test]
async fn a_restart_asks_nobody_and_writes_nothing() -> Result<()> {
    let (stage, _first, running) = Stage::synced("restart").await?;
    stage.told("web", "SecretSyncSuccess").await?;
    alone(&stage.mock).kill(running).await?;
    let mark = Mark::now(stage.sandbox.plane()).await?;
    let (second, running) = stage.start("second").await?;
    after_all(&stage, "last").await?;
    stage.told("last", "SecretSyncSuccess").await?;
    alone(&stage.mock).kill(running).await?;
    assert_eq!(stage.mock.asked_for("a"), 1);
    let writes = mark.since().await?.by(&second);
    let others = writes
        .writes()
        .iter()
        .filter(|write| !write.name().starts_with("last"))
        .count();
    assert_eq!(others, 0, "{}", writes.story());
    Ok(())
}
