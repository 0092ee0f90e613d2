//! Silence at rest.

use std::future::ready;
use std::time::Duration;

use anyhow::Result;
use futures::{StreamExt, TryStreamExt};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use serde_json::json;
use trustplane_testkit::audit::Mark;
use trustplane_testkit::crash::Subject;
use trustplane_testkit::{DEADLINE, Select, eventually, until, wait_for_some};

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
async fn what_is_leased_is_replaced_before_it_ends_and_not_by_a_restart() -> Result<()> {
    let stage = Stage::new("leased").await?;
    stage.mock.lease("long", Duration::from_secs(3600));
    stage.mock.lease("short", Duration::from_secs(4));
    let (_instance, running) = stage.start("first").await?;
    for name in ["long", "short"] {
        stage.pod(name, name, name, "").await?;
    }
    let user = |secret: &Secret| secret.data.as_ref()?.get("user").cloned();
    let held = wait_for_some(&stage.secrets(), "long", DEADLINE, |_| true).await?;
    let first = wait_for_some(&stage.secrets(), "short", DEADLINE, |_| true).await?;
    wait_for_some(&stage.secrets(), "short", DEADLINE, |live| {
        user(live) != user(&first)
    })
    .await?;
    alone(&stage.mock).kill(running).await?;
    let (_instance, running) = stage.start("second").await?;
    // A pod more is no cause either.
    stage.pod("long-2", "long", "long", "").await?;
    after_all(&stage, "last").await?;
    alone(&stage.mock).kill(running).await?;
    assert_eq!(stage.mock.asked_for("long"), 1);
    assert_eq!(user(&stage.secrets().get("long").await?), user(&held));
    Ok(())
}

/// The API server tells the second of a pod's creation: a process that starts within it cannot know who was first.
async fn next_second() -> Result<()> {
    let now = Timestamp::now().as_second();
    until("the next second", DEADLINE, || {
        ready(Ok((Timestamp::now().as_second() > now).then_some(())))
    })
    .await
}

#[tokio::test]
async fn a_restart_asks_nobody_and_writes_nothing() -> Result<()> {
    let (stage, _first, running) = Stage::synced("restart").await?;
    stage.told("web", "SecretSyncSuccess").await?;
    alone(&stage.mock).kill(running).await?;
    next_second().await?;
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

const PODS: usize = 1000;
const SECRETS: usize = 100;

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_pods_at_rest_cost_nothing() -> Result<()> {
    let stage = Stage::new("thousand").await?;
    (0..SECRETS).for_each(|n| stage.mock.set(&format!("p{n}"), VALUE));
    let (_first, running) = stage.start("first").await?;
    let pods = (0..PODS).map(|n| {
        let stage = &stage;
        async move {
            // The replicas of one Secret come one after the other.
            let which = n / (PODS / SECRETS);
            stage
                .pod(&format!("w{n}"), &format!("p{which}"), &format!("s{which}"), "")
                .await
                .map(drop)
        }
    });
    futures::stream::iter(pods)
        .buffer_unordered(32)
        .try_collect::<Vec<_>>()
        .await?;
    let secrets: Api<Secret> = stage.secrets();
    let ours = Select::default().labels("app.kubernetes.io/managed-by=jasm");
    eventually(&secrets, &ours, DEADLINE, |found| {
        (found.len() == SECRETS).then_some(())
    })
    .await?;
    let calls = stage.mock.calls().iter().map(Vec::len).sum::<usize>();

    // A restart, and then every Secret is looked at again and again.
    alone(&stage.mock).kill(running).await?;
    next_second().await?;
    let mark = Mark::now(stage.sandbox.plane()).await?;
    let (second, running) = stage.start("second").await?;
    let before = stage.looks.count();
    until("every Secret to be looked at many times", DEADLINE, || async {
        Ok((stage.looks.count() > before + 20 * SECRETS).then_some(()))
    })
    .await?;
    alone(&stage.mock).kill(running).await?;
    let writes = mark.since().await?.by(&second);
    assert_eq!(writes.writes().len(), 0, "{}", writes.story());
    let later = stage.mock.calls().iter().map(Vec::len).sum::<usize>();
    assert_eq!(later, calls, "nobody had a cause to ask");
    Ok(())
}
