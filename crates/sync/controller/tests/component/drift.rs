//! What others do to the Secret.

use std::future::ready;

use anyhow::Result;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use trustplane_testkit::audit::Mark;
use trustplane_testkit::crash::Subject;
use trustplane_testkit::{DEADLINE, until, wait_for_some};

use crate::stage::{Stage, VALUE, alone, asking};

#[tokio::test]
async fn a_hand_edit_is_put_back_with_one_write() -> Result<()> {
    let (stage, instance, running) = Stage::synced("edit").await?;
    let mark = Mark::now(stage.sandbox.plane()).await?;
    let edit = Patch::Merge(json!({"data": {"password": "aGFuZA=="}}));
    stage
        .secrets()
        .patch("db", &PatchParams::default(), &edit)
        .await?;
    stage.told("web", "SecretRestored").await?;
    stage.holds("db", &[("password", "p"), ("user", "u")]).await?;
    let relabel = Patch::Merge(json!({"metadata": {"labels": {"jasm.codnod.io/provider": "other"}}}));
    stage
        .secrets()
        .patch("db", &PatchParams::default(), &relabel)
        .await?;
    wait_for_some(&stage.secrets(), "db", DEADLINE, |live| {
        let labels = live.metadata.labels.clone().unwrap_or_default();
        labels["jasm.codnod.io/provider"] == "mock"
    })
    .await?;
    alone(&stage.mock).kill(running).await?;
    let audit = mark.since().await?.by(&instance).of("secrets");
    assert_eq!(audit.writes().len(), 2, "{}", audit.story());
    Ok(())
}

#[tokio::test]
async fn a_deleted_secret_comes_back_while_a_pod_needs_it() -> Result<()> {
    let (stage, _instance, _running) = Stage::synced("deleted").await?;
    stage.secrets().delete("db", &DeleteParams::default()).await?;
    stage.told("web", "SecretRestored").await?;
    stage.holds("db", &[("password", "p"), ("user", "u")]).await?;
    stage.remove("web").await?;
    stage.secrets().delete("db", &DeleteParams::default()).await?;
    // Another pod's Secret comes after it in the same queue, so the deletion has been looked at.
    stage.mock.set("b", VALUE);
    stage.pod("other", "b", "other", "").await?;
    stage.holds("other", &[("password", "p"), ("user", "u")]).await?;
    assert!(stage.secrets().get_opt("db").await?.is_none(), "nobody needs it");
    Ok(())
}

#[tokio::test]
async fn who_takes_our_label_off_takes_the_secret_back() -> Result<()> {
    let (stage, instance, running) = Stage::synced("label").await?;
    let theirs = Patch::Merge(json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": null}}}));
    stage
        .secrets()
        .patch("db", &PatchParams::default(), &theirs)
        .await?;
    stage.told("web", "SecretConflict").await?;
    let version = stage.secrets().get("db").await?.metadata.resource_version;
    // Then peace.
    let mark = Mark::now(stage.sandbox.plane()).await?;
    let calls = stage.mock.calls().len();
    stage.patch("web", json!({"labels": {"x": "y"}})).await?;
    stage.mock.set("b", VALUE);
    stage.pod("other", "b", "other", "").await?;
    stage.holds("other", &[("password", "p"), ("user", "u")]).await?;
    alone(&stage.mock).kill(running).await?;
    assert_eq!(
        stage.secrets().get("db").await?.metadata.resource_version,
        version
    );
    assert_eq!(stage.mock.calls().len(), calls + 1, "only the other pod's");
    let writes = mark.since().await?.by(&instance).of("secrets");
    assert_eq!(writes.writes().len(), 1, "{}", writes.story());
    Ok(())
}

#[tokio::test]
async fn a_pod_that_waits_comes_before_what_only_has_to_be_mended() -> Result<()> {
    let mut stage = Stage::new("lanes").await?;
    stage.workers = 1;
    let (_instance, running) = stage.start("first").await?;
    let old = ["old-1", "old-2", "old-3", "old-4"];
    for name in old {
        stage.mock.set(name, VALUE);
        stage.pod(name, name, name, "").await?;
        stage.holds(name, &[("password", "p"), ("user", "u")]).await?;
    }
    stage.mock.hold_still(true);
    let before = stage.mock.calls().len();
    let edit = Patch::Merge(json!({"data": {"password": "aGFuZA=="}}));
    for name in old {
        stage
            .secrets()
            .patch(name, &PatchParams::default(), &edit)
            .await?;
    }
    until("the only worker to be busy", DEADLINE, || {
        ready(Ok((stage.mock.calls().len() > before).then_some(())))
    })
    .await?;
    stage.mock.set("new", VALUE);
    stage.pod("new", "new", "new", "").await?;
    // What came after it has been heard of, so it has been too.
    asking(&stage.sandbox, "bad", "provider: [").await?;
    stage.told("bad", "AnnotationInvalid").await?;
    stage.mock.hold_still(false);
    for name in old.into_iter().chain(["new"]) {
        stage.holds(name, &[("password", "p"), ("user", "u")]).await?;
    }
    let calls = stage.mock.calls();
    let order: Vec<&str> = calls[before..]
        .iter()
        .flatten()
        .map(|locator| locator.path.as_str())
        .collect();
    assert_eq!(order.get(1), Some(&"new"), "{order:?}");
    alone(&stage.mock).kill(running).await
}
