//! Secrets that are somebody else's, and requests that are in each other's way.

use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::stage::{Stage, VALUE};

/// The end of a conflict is noticed in this time.
const NOTICED: Duration = Duration::from_secs(10);

async fn foreign(stage: &Stage, metadata: Value) -> Result<Secret> {
    let mut secret = json!({"metadata": {"name": "db"}, "stringData": {"theirs": "x"}});
    for (key, value) in metadata.as_object().into_iter().flatten() {
        secret["metadata"][key] = value.clone();
    }
    let secret: Secret = serde_json::from_value(secret)?;
    Ok(stage.secrets().create(&PostParams::default(), &secret).await?)
}

#[tokio::test]
async fn a_foreign_secret_is_never_touched() -> Result<()> {
    let stage = Stage::new("foreign").await?;
    stage.mock.set("a", VALUE);
    let before = foreign(&stage, json!({})).await?;
    let (_instance, _running) = stage.start("one").await?;
    stage.pod("web", "a", "db", "").await?;
    let event = stage.told("web", "SecretConflict").await?;
    let told = "Secret db exists and is not ours: use another secretName, or say adopt: true in the request and put the \
                annotation trustplane.io/adopt-by: sync on Secret db";
    assert_eq!(event.note.as_deref(), Some(told));
    assert_eq!(stage.secrets().get("db").await?, before);
    assert_eq!(
        stage.mock.asked_for("a"),
        1,
        "asked once, before the Secret was met"
    );
    Ok(())
}

#[tokio::test]
async fn a_conflict_ends_within_ten_seconds_of_the_owners_consent() -> Result<()> {
    let stage = Stage::new("adopt").await?;
    stage.mock.set("a", VALUE);
    let before = foreign(&stage, json!({})).await?;
    let (_instance, _running) = stage.start("one").await?;
    stage.pod("web", "a", "db", "adopt: true").await?;
    stage
        .told_with(
            "web",
            "SecretConflict",
            "trustplane.io/adopt-by: sync on Secret db",
        )
        .await?;
    assert_eq!(stage.secrets().get("db").await?, before, "no consent, no write");
    let consent = Patch::Merge(json!({"metadata": {"annotations": {"trustplane.io/adopt-by": "sync"}}}));
    stage
        .secrets()
        .patch("db", &PatchParams::default(), &consent)
        .await?;
    let taken = stage.holds("db", &[("password", "p"), ("theirs", "x"), ("user", "u")]);
    timeout(NOTICED, taken).await??;
    Ok(())
}

#[tokio::test]
async fn a_conflict_ends_within_ten_seconds_of_the_deletion() -> Result<()> {
    let stage = Stage::new("freed").await?;
    stage.mock.set("a", VALUE);
    foreign(&stage, json!({})).await?;
    let (_instance, _running) = stage.start("one").await?;
    stage.pod("web", "a", "db", "").await?;
    stage.told("web", "SecretConflict").await?;
    stage.secrets().delete("db", &DeleteParams::default()).await?;
    timeout(NOTICED, stage.holds("db", &[("password", "p"), ("user", "u")])).await??;
    Ok(())
}

#[tokio::test]
async fn what_is_never_taken_over_stays_as_it_is() -> Result<()> {
    let stage = Stage::new("adopt-not").await?;
    stage.mock.set("a", VALUE);
    let consent = json!({"trustplane.io/adopt-by": "sync"});
    let managed = json!({"labels": {"app.kubernetes.io/managed-by": "Helm"}, "annotations": consent});
    let before = foreign(&stage, managed).await?;
    let history: Secret = serde_json::from_value(json!({
        "metadata": {"name": "history", "annotations": consent}, "type": "helm.sh/release.v1",
        "stringData": {"release": "x"},
    }))?;
    let history = stage.secrets().create(&PostParams::default(), &history).await?;
    let (_instance, _running) = stage.start("one").await?;
    stage.pod("web", "a", "db", "adopt: true").await?;
    stage
        .pod("helm", "a", "history", "adopt: true\nonMissing: delete")
        .await?;
    stage.told("web", "SecretConflict").await?;
    stage
        .told_with(
            "helm",
            "SecretConflict",
            "type helm.sh/release.v1 is never taken over",
        )
        .await?;
    assert_eq!(stage.secrets().get("db").await?, before);
    assert_eq!(stage.secrets().get("history").await?, history);
    Ok(())
}

#[tokio::test]
async fn of_two_requests_the_first_wins_until_it_is_gone() -> Result<()> {
    let (stage, _instance, _running) = Stage::synced("rivals").await?;
    stage.mock.set("b", r#"{"other":"o"}"#);
    stage.pod("late", "b", "db", "").await?;
    let event = stage.told("late", "SecretConflict").await?;
    assert_eq!(
        event.note.as_deref(),
        Some("Secret db is made for Pod/web, which asked first")
    );
    stage.holds("db", &[("password", "p"), ("user", "u")]).await?;
    stage.remove("web").await?;
    stage.holds("db", &[("other", "o")]).await?;
    Ok(())
}

#[tokio::test]
async fn a_secret_of_jasm_is_carried_on() -> Result<()> {
    let stage = Stage::new("jasm").await?;
    stage.mock.set("a", VALUE);
    let made: Secret = serde_json::from_value(json!({
        "metadata": {
            "name": "db", "labels": {"app.kubernetes.io/managed-by": "jasm"},
            "annotations": {"jasm.codnod.io/source-path": "a", "jasm.codnod.io/synced-at": "2026-01-01T00:00:00Z"},
        },
        "stringData": {"user": "u", "password": "p"},
    }))?;
    let made = stage.secrets().create(&PostParams::default(), &made).await?;
    stage.pod("web", "a", "db", "").await?;
    let (_instance, _running) = stage.start("one").await?;
    stage.mock.set("b", VALUE);
    stage.pod("other", "b", "other", "").await?;
    stage.holds("other", &[("password", "p"), ("user", "u")]).await?;
    // The new pod was a cause to ask, and the answer is what the Secret holds already.
    assert_eq!(stage.secrets().get("db").await?, made);
    // Another content takes the keys along that are gone, although JASM wrote them.
    stage.mock.set("a", r#"{"user":"v"}"#);
    stage
        .patch("web", json!({"annotations": {"jasm.codnod.io/force-sync": "1"}}))
        .await?;
    stage.holds("db", &[("user", "v")]).await?;
    Ok(())
}
