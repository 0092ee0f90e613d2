//! Whose a Secret is: what deletion takes along, what is left alone, and what is taken over from the original.

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use trustplane_api::hsm::HsmSecret;
use trustplane_api::hsm::names::{OPERATOR as ORIGINAL, SECRET_FINALIZER};
use trustplane_testkit::{DEADLINE, wait_for};

use crate::delivery::seed;
use crate::stage::{PAIRS, Stage, content, owned};
use crate::token::Token;

/// Makes a Secret as another program does, by a plain create.
async fn make(stage: &Stage, manager: &str, metadata: Value, data: Value) -> Result<Secret> {
    let mut wish = json!({ "metadata": metadata, "type": "Opaque", "stringData": data });
    wish["metadata"]["name"] = "db-credentials".into();
    let by = PostParams {
        field_manager: Some(manager.to_owned()),
        ..PostParams::default()
    };
    let made = stage.secrets().create(&by, &serde_json::from_value(wish)?).await;
    made.context("make a Secret by hand")
}

#[tokio::test(flavor = "multi_thread")]
async fn f11_deletion_needs_no_token_and_keeps_its_data() -> Result<()> {
    let (mut stage, _, running) = Stage::with_token("deletion").await?;
    stage.apply("db", seed()).await?;
    stage.in_sync("db", &PAIRS).await?;
    let first = stage.secrets().get("db-credentials").await?;
    stage.token_mut().kill()?;
    stage.kill(running).await?;
    // Without a manager the finalizer keeps it.
    let all: Api<HsmSecret> = stage.sandbox.api();
    all.delete("db", &DeleteParams::default()).await?;
    let going = all.get("db").await?;
    assert!(going.metadata.deletion_timestamp.is_some());
    assert_eq!(going.finalizers(), [SECRET_FINALIZER]);
    // A manager that has never reached the token lets it go.
    let (_, running) = stage.start("second").await?;
    wait_for(&all, "db", DEADLINE, |live| live.is_none()).await?;
    let left = stage.secrets().get_opt("db-credentials").await?;
    assert!(left.is_none(), "the Secret goes before the HSMSecret");

    let listed = stage.token().list()?;
    assert!(listed.contains("shop/db"), "{listed}");
    stage.token_mut().restart()?;
    stage.apply("db", seed()).await?;
    stage.in_sync("db", &PAIRS).await?;
    let again = stage.secrets().get("db-credentials").await?;
    assert_ne!(again.uid(), first.uid());
    stage.kill(running).await
}

#[tokio::test(flavor = "multi_thread")]
async fn w29_secret_of_somebody_else_is_neither_written_nor_deleted() -> Result<()> {
    let (stage, _, running) = Stage::with_token("foreign").await?;
    let helm = json!({ "labels": { "app.kubernetes.io/managed-by": "Helm" } });
    let theirs = make(&stage, "helm", helm, json!({ "password": "theirs" })).await?;
    stage.apply("db", seed()).await?;
    let status = stage.problem("db", "SecretTaken").await?;
    let told = status.last_error.as_deref().unwrap();
    assert!(told.contains("belongs to \"Helm\""), "{told}");
    let conflict = status.conditions.get("Conflict").unwrap();
    assert!(conflict.status == "True" && conflict.reason == "SecretTaken");
    assert!(
        status.device_sync_status.is_empty(),
        "the location is not claimed yet"
    );
    stage.told("db", "SecretTaken", "belongs to \"Helm\"").await?;
    stage.delete("db").await?;
    let left = stage.secrets().get("db-credentials").await?;
    assert_eq!(
        (left.uid(), left.resource_version()),
        (theirs.uid(), theirs.resource_version())
    );
    // It heals when that Secret goes.
    stage.apply("db", seed()).await?;
    stage.problem("db", "SecretTaken").await?;
    let gone = DeleteParams::default();
    stage.secrets().delete("db-credentials", &gone).await?;
    stage.in_sync("db", &PAIRS).await?;
    stage.kill(running).await
}

#[tokio::test(flavor = "multi_thread")]
async fn w29_label_of_the_original_makes_no_secret_ours() -> Result<()> {
    let (stage, _, running) = Stage::with_token("labelled").await?;
    let maps: Api<ConfigMap> = stage.sandbox.api();
    let holder = serde_json::from_value(json!({ "metadata": { "name": "chart" } }))?;
    let holder = maps.create(&PostParams::default(), &holder).await?;
    let marked = json!({
        "labels": { "managed-by": ORIGINAL, "app.kubernetes.io/managed-by": ORIGINAL },
        "ownerReferences": [{
            "apiVersion": "v1", "kind": "ConfigMap", "name": "chart", "uid": holder.uid(), "controller": true,
        }],
    });
    let theirs = make(&stage, "manager", marked, json!({ "password": "theirs" })).await?;
    stage.apply("db", seed()).await?;
    let status = stage.problem("db", "SecretTaken").await?;
    let told = status.last_error.as_deref().unwrap();
    assert!(told.contains("belongs to ConfigMap chart"), "{told}");
    let left = stage.secrets().get("db-credentials").await?;
    assert_eq!(left.resource_version(), theirs.resource_version());
    let gone = DeleteParams::default();
    stage.secrets().delete("db-credentials", &gone).await?;
    stage.in_sync("db", &PAIRS).await?;
    // A person takes the Secret away from its HSMSecret: from then on it is theirs.
    let freed = json!({ "metadata": { "ownerReferences": null }, "stringData": { "password": "mine" } });
    let (secrets, hand) = (stage.secrets(), PatchParams::default());
    let freed = secrets
        .patch("db-credentials", &hand, &Patch::Merge(&freed))
        .await?;
    stage.problem("db", "SecretTaken").await?;
    stage.delete("db").await?;
    let left = secrets.get("db-credentials").await?;
    assert_eq!(
        (left.uid(), left.resource_version()),
        (freed.uid(), freed.resource_version())
    );
    stage.kill(running).await
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_two_hsm_secrets_has_the_secret_they_both_name() -> Result<()> {
    let (stage, _, running) = Stage::with_token("rivals").await?;
    stage.token().write("shop/other", &[("password", "other")])?;
    stage.apply("db", seed()).await?;
    stage.in_sync("db", &PAIRS).await?;
    let version = stage.secrets().get("db-credentials").await?.resource_version();
    let mut rival = seed();
    rival["hsmPath"] = "shop/other".into();
    stage.apply("rival", rival).await?;
    let status = stage.problem("rival", "SecretTaken").await?;
    let told = status.last_error.as_deref().unwrap();
    assert!(told.contains("HSMSecret db"), "{told}");
    let kept = stage.secrets().get("db-credentials").await?;
    assert_eq!(kept.resource_version(), version, "nobody has written it");
    stage.delete("db").await?;
    stage.in_sync("rival", &[("password", "other")]).await?;
    // The one that came back is the younger now.
    stage.apply("db", seed()).await?;
    stage.problem("db", "SecretTaken").await?;
    stage.delete("db").await?;
    let kept = stage.secrets().get("db-credentials").await?;
    assert_eq!(content(&kept), owned(&[("password", "other")]));
    stage.kill(running).await
}

/// An HSMSecret as the original has left it, with its finalizer and its status.
async fn left_by_the_original(stage: &Stage) -> Result<HsmSecret> {
    let all: Api<HsmSecret> = stage.sandbox.api();
    stage.apply("db", seed()).await?;
    let finalizer = json!({ "metadata": { "finalizers": [SECRET_FINALIZER] } });
    let status = json!({ "status": {
        "syncStatus": "InSync", "lastSyncTime": "2026-01-15T10:30:00Z", "hsmChecksum": "sha256:00", "secretChecksum": "sha256:00",
        "secretRef": { "apiVersion": "v1", "kind": "Secret", "name": "db-credentials", "namespace": stage.sandbox.namespace() },
        "conditions": [{
            "type": "Ready", "status": "True", "reason": "InSync", "message": "", "lastTransitionTime": "2026-01-15T10:30:00Z",
        }],
    } });
    let manager = PatchParams {
        field_manager: Some("manager".to_owned()),
        ..PatchParams::default()
    };
    all.patch("db", &manager, &Patch::Merge(&finalizer)).await?;
    Ok(all.patch_status("db", &manager, &Patch::Merge(&status)).await?)
}

#[tokio::test(flavor = "multi_thread")]
async fn secret_of_the_original_is_taken_over() -> Result<()> {
    let stage = Stage::new("takeover", vec![Token::new("a").await?]).await?;
    stage.token().write("shop/db", &PAIRS)?;
    let object = left_by_the_original(&stage).await?;
    let metadata = json!({
        "labels": { "managed-by": ORIGINAL, "hsm-path": "db", "stale": "label" },
        "annotations": { "hsm.j5t.io/description": "stale" },
        "ownerReferences": [{
            "apiVersion": "hsm.j5t.io/v1alpha1", "kind": "HSMSecret", "name": "db", "uid": object.uid(), "controller": true,
            "blockOwnerDeletion": true,
        }],
    });
    let data = json!({ "password": "old", "stale": "key" });
    let original = make(&stage, "manager", metadata, data).await?;
    let hand = PatchParams {
        field_manager: Some("kubectl-label".to_owned()),
        ..PatchParams::default()
    };
    let team = json!({ "metadata": { "labels": { "team": "kept" } } });
    stage
        .secrets()
        .patch("db-credentials", &hand, &Patch::Merge(&team))
        .await?;

    let (_, running) = stage.start("first").await?;
    stage.in_sync("db", &PAIRS).await?;
    let ours = stage.secrets().get("db-credentials").await?;
    assert_eq!(ours.uid(), original.uid(), "pods that mount it notice nothing");
    assert_eq!(ours.owner_references().len(), 1);
    let labels = ours.labels();
    assert_eq!(labels["app.kubernetes.io/managed-by"], ORIGINAL);
    assert_eq!(labels["hsm-path"], "shop_db");
    assert_eq!((labels.get("stale"), &*labels["team"]), (None, "kept"));
    assert!(!ours.annotations().contains_key("hsm.j5t.io/description"));
    let managers = ours.managed_fields().iter().filter_map(|of| of.manager.clone());
    assert_eq!(managers.filter(|name| name == "manager").count(), 0);
    stage.told("db", "SecretDelivered", "holds 2 keys").await?;
    stage.delete("db").await?;
    assert!(stage.secrets().get_opt("db-credentials").await?.is_none());
    stage.kill(running).await
}
