//! Secrets that are somebody else's, and requests that are in each other's way.

use anyhow::Result;
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::stage::{Stage, VALUE};

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
    let told = "Secret db exists and is not ours: nobody manages it, so adopt: true would take it over";
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
async fn adoption_takes_what_nobody_manages() -> Result<()> {
    let stage = Stage::new("adopt").await?;
    stage.mock.set("a", VALUE);
    foreign(&stage, json!({})).await?;
    let (_instance, _running) = stage.start("one").await?;
    stage.pod("web", "a", "db", "adopt: true").await?;
    stage
        .holds("db", &[("password", "p"), ("theirs", "x"), ("user", "u")])
        .await?;
    Ok(())
}

#[tokio::test]
async fn adoption_leaves_what_somebody_manages() -> Result<()> {
    let stage = Stage::new("adopt-not").await?;
    stage.mock.set("a", VALUE);
    let before = foreign(
        &stage,
        json!({"labels": {"app.kubernetes.io/managed-by": "Helm"}}),
    )
    .await?;
    let (_instance, _running) = stage.start("one").await?;
    stage.pod("web", "a", "db", "adopt: true").await?;
    stage.told("web", "SecretConflict").await?;
    assert_eq!(stage.secrets().get("db").await?, before);
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
