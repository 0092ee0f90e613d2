//! What lies on a token becomes a Secret, and stays in line with it.

use anyhow::Result;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use trustplane_api::hsm::HsmSecret;
use trustplane_api::hsm::names::SECRET_FINALIZER;

use crate::stage::{DEVICE, PAIRS, Stage, checksum, content, owned};

/// The manifest of the seed, with the shortest interval.
pub fn seed() -> serde_json::Value {
    json!({
        "hsmPath": "shop/db", "secretName": "db-credentials", "autoSync": true, "secretType": "Opaque",
        "syncInterval": 5,
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn secret_holds_exactly_what_the_token_has() -> Result<()> {
    let (stage, _, running) = Stage::with_token("delivery").await?;
    let made = stage.apply("db", seed()).await?;
    let status = stage.in_sync("db", &PAIRS).await?;
    let secret = stage.secrets().get("db-credentials").await?;
    assert_eq!(secret.type_.as_deref(), Some("Opaque"));
    let labels = secret.labels();
    assert_eq!(labels["managed-by"], "hsm-secrets-operator");
    assert_eq!(labels["hsm-path"], "shop_db");
    let owner = &secret.owner_references()[0];
    assert_eq!(
        (owner.kind.as_str(), &owner.uid),
        ("HSMSecret", &made.uid().unwrap())
    );
    assert_eq!(owner.controller, Some(true));

    assert_eq!(status.hsm_checksum, Some(checksum(&PAIRS)));
    assert_eq!(status.primary_device.as_deref(), Some(&*format!("{DEVICE}/a")));
    assert!(status.last_error.is_none() && status.sync_conflict.is_none());
    let times = (status.last_sync_time.is_some(), status.secret_ref.unwrap().uid);
    assert_eq!(times, (true, secret.uid()));
    let conditions: Vec<(&str, &str, &str)> = ["Ready", "Synced", "Degraded", "Conflict"]
        .iter()
        .filter_map(|name| status.conditions.get(name))
        .map(|told| (&*told.type_, told.status.into(), &*told.reason))
        .collect();
    let expected = [
        ("Ready", "True", "InSync"),
        ("Synced", "True", "InSync"),
        ("Degraded", "False", "AllAsked"),
        ("Conflict", "False", "NoConflict"),
    ];
    assert_eq!(conditions, expected);
    stage
        .told(
            "db",
            "SecretDelivered",
            "Secret db-credentials holds 2 keys of shop/db on token soft/a",
        )
        .await?;
    let made: HsmSecret = stage.sandbox.api().get("db").await?;
    assert_eq!(made.finalizers(), [SECRET_FINALIZER]);
    stage.kill(running).await
}

#[tokio::test(flavor = "multi_thread")]
async fn name_is_path_and_secret_when_the_spec_names_none() -> Result<()> {
    let (stage, _, running) = Stage::with_token("bare").await?;
    stage.token().write("a.b", &[("token", "x")])?;
    stage.apply("a.b", json!({})).await?;
    stage.in_sync("a.b", &[("token", "x")]).await?;
    stage.kill(running).await
}

#[tokio::test(flavor = "multi_thread")]
async fn change_by_any_tool_reaches_the_secret() -> Result<()> {
    let (stage, _, running) = Stage::with_token("tools").await?;
    let token = stage.token();
    stage.apply("db", seed()).await?;
    stage.in_sync("db", &PAIRS).await?;
    // Our tool replaces the secret.
    let lists = token.lists()?;
    token.write("shop/db", &[("password", "second")])?;
    stage.in_sync("db", &[("password", "second")]).await?;
    // One list may have been under way when it was written.
    assert!(token.lists()? <= lists + 2, "it shows with the next list");
    // pkcs11-tool knows neither metadata nor versions.
    token.write_object("shop/db/password", b"third")?;
    stage.in_sync("db", &[("password", "third")]).await?;
    token.write_object("shop/db/extra", b"more")?;
    stage
        .in_sync("db", &[("extra", "more"), ("password", "third")])
        .await?;
    // The original replaces all objects of a secret, and the key `data` has no name of its own in a label.
    for label in ["shop/db/password", "shop/db/extra", "shop/db/_metadata"] {
        token.delete_object(label)?;
    }
    token.write_object("shop/db", b"whole")?;
    let metadata = br#"{"description":"of the original","labels":{"sync.version":"9","team":"shop"}}"#;
    token.write_object("shop/db/_metadata", metadata)?;
    stage.in_sync("db", &[("data", "whole")]).await?;
    let described = stage.secret("db-credentials", |live| {
        live.annotations()
            .get("hsm.j5t.io/description")
            .is_some_and(|text| text == "of the original")
    });
    assert_eq!(described.await?.labels()["team"], "shop");
    stage.kill(running).await
}

#[tokio::test(flavor = "multi_thread")]
async fn hand_edit_is_put_back() -> Result<()> {
    let (stage, _, running) = Stage::with_token("edits").await?;
    stage.apply("db", seed()).await?;
    stage.in_sync("db", &PAIRS).await?;
    let edit = json!({
        "metadata": { "labels": { "managed-by": null, "team": "kept" } },
        "stringData": { "password": "edited", "added": "by hand" },
    });
    let hand = PatchParams {
        field_manager: Some("kubectl-edit".into()),
        ..PatchParams::default()
    };
    stage
        .secrets()
        .patch("db-credentials", &hand, &Patch::Merge(&edit))
        .await?;
    let mended = stage.secret("db-credentials", |live| {
        content(live) == owned(&PAIRS) && live.labels().contains_key("managed-by")
    });
    assert_eq!(
        mended.await?.labels()["team"],
        "kept",
        "a label of somebody else stays"
    );
    // One that is deleted is made again.
    stage
        .secrets()
        .delete("db-credentials", &Default::default())
        .await?;
    stage
        .secret("db-credentials", |live| content(live) == owned(&PAIRS))
        .await?;
    stage.kill(running).await
}

/// In the original the field is lost with the first update of the object.
#[tokio::test(flavor = "multi_thread")]
async fn w07_without_auto_sync_nobody_looks_at_the_token() -> Result<()> {
    let (mut stage, _, running) = Stage::with_token("manual").await?;
    stage.kill(running).await?;
    let looks = stage.count_looks();
    let (_, running) = stage.start("second").await?;
    let mut spec = seed();
    spec["autoSync"] = false.into();
    stage.apply("db", spec.clone()).await?;
    stage.in_sync("db", &PAIRS).await?;
    let all: Api<HsmSecret> = stage.sandbox.api();
    assert!(!all.get("db").await?.spec.auto_sync);
    // A list that was due before it was in sync comes within a second of the last one.
    looks.more(20).await?;
    let lists = stage.token().lists()?;
    stage.token().write("shop/db", &[("password", "second")])?;
    // Each look comes a second after the last one: this is longer than the interval.
    looks.more(60).await?;
    assert_eq!(stage.token().lists()?, lists, "nobody has asked");
    assert_eq!(
        content(&stage.secrets().get("db-credentials").await?),
        owned(&PAIRS)
    );
    assert!(!all.get("db").await?.spec.auto_sync);
    // A person deletes the Secret: the manager makes it again, with the content that the token has now.
    stage
        .secrets()
        .delete("db-credentials", &Default::default())
        .await?;
    stage.in_sync("db", &[("password", "second")]).await?;
    stage.kill(running).await
}

#[tokio::test(flavor = "multi_thread")]
async fn secret_has_the_type_that_is_wanted() -> Result<()> {
    let (stage, _, running) = Stage::with_token("types").await?;
    let certificate = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n";
    let key = "-----BEGIN PRIVATE KEY-----\nAA==\n-----END PRIVATE KEY-----\n";
    let pairs = [("tls.crt", certificate), ("tls.key", key)];
    stage.token().write("shop/tls", &pairs)?;
    let mut spec = seed();
    spec["secretType"] = "kubernetes.io/tls".into();
    spec["hsmPath"] = "shop/tls".into();
    stage.apply("db", spec).await?;
    stage.in_sync("db", &pairs).await?;
    let secret = stage.secrets().get("db-credentials").await?;
    assert_eq!(secret.type_.as_deref(), Some("kubernetes.io/tls"));
    stage.kill(running).await
}
