//! From the annotation to the Secret.

use std::collections::BTreeSet;

use anyhow::Result;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;
use trustplane_sync_core::fetch::FetchError;
use trustplane_sync_providers::{Identity, Principal};
use trustplane_testkit::{DEADLINE, until};

use crate::stage::{Stage, VALUE, asking};

#[tokio::test]
async fn a_pod_finds_its_secret_and_hears_of_it() -> Result<()> {
    let (stage, _instance, _running) = Stage::synced("finds").await?;
    let secret = stage.secrets().get("db").await?;
    let labels = secret.metadata.labels.unwrap_or_default();
    assert_eq!(labels["app.kubernetes.io/managed-by"], "jasm");
    assert_eq!(labels["jasm.codnod.io/provider"], "mock");
    let annotations = secret.metadata.annotations.unwrap_or_default();
    assert_eq!(annotations["jasm.codnod.io/source-path"], "a");
    assert_eq!(annotations["jasm.codnod.io/version"], "1");
    assert!(annotations.contains_key("jasm.codnod.io/synced-at"));
    assert_eq!(secret.type_.as_deref(), Some("Opaque"));
    assert!(secret.metadata.owner_references.is_none());
    let event = stage.told("web", "SecretSyncSuccess").await?;
    assert_eq!(event.note.as_deref(), Some("Secret db synced from mock path a"));
    assert_eq!(event.reporting_controller.as_deref(), Some("jasm"));
    assert_eq!(stage.mock.asked_for("a"), 1);
    Ok(())
}

#[tokio::test]
async fn a_forced_sync_brings_the_new_value_and_removed_keys_go() -> Result<()> {
    let (stage, _instance, _running) = Stage::synced("forced").await?;
    stage
        .mock
        .set("a", r#"{"password":"new","number":12345678901234567890}"#);
    stage
        .patch("web", json!({"annotations": {"jasm.codnod.io/force-sync": "1"}}))
        .await?;
    stage
        .holds("db", &[("number", "12345678901234567890"), ("password", "new")])
        .await?;
    Ok(())
}

#[tokio::test]
async fn a_key_of_another_manager_stays() -> Result<()> {
    let (stage, _instance, _running) = Stage::synced("neighbour").await?;
    let hand = kube::api::PatchParams::apply("somebody");
    let own =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "db"}, "data": {"own": "b3du"}});
    stage
        .secrets()
        .patch("db", &hand, &kube::api::Patch::Apply(own))
        .await?;
    stage.mock.set("a", r#"{"user":"v"}"#);
    stage
        .patch("web", json!({"annotations": {"jasm.codnod.io/force-sync": "1"}}))
        .await?;
    stage.holds("db", &[("own", "own"), ("user", "v")]).await?;
    Ok(())
}

#[tokio::test]
async fn a_bad_annotation_is_told_and_costs_no_call() -> Result<()> {
    let stage = Stage::new("bad").await?;
    stage.mock.set("a", VALUE);
    let (_instance, _running) = stage.start("one").await?;
    stage.pod("web", "a", "Not_A_Name", "").await?;
    let event = stage.told("web", "AnnotationInvalid").await?;
    assert!(
        event
            .note
            .unwrap_or_default()
            .starts_with("secretName: must be a DNS-1123 subdomain")
    );
    assert!(stage.mock.calls().is_empty());
    // Mended, it works.
    let text = "provider: mock\npath: a\nsecretName: db";
    stage
        .patch(
            "web",
            json!({"annotations": {"jasm.codnod.io/secret-sync": text}}),
        )
        .await?;
    stage.holds("db", &[("password", "p"), ("user", "u")]).await?;
    Ok(())
}

#[tokio::test]
async fn a_pod_with_a_bomb_of_aliases_is_told_and_others_are_served() -> Result<()> {
    let stage = Stage::new("bomb").await?;
    stage.mock.set("a", VALUE);
    let bomb = format!("x: [&a \"{}\"{}]", "CANARY".repeat(8900), ",*a".repeat(4000));
    asking(&stage.sandbox, "bomb", &bomb).await?;
    let (_instance, _running) = stage.start("one").await?;
    let event = stage.told("bomb", "AnnotationInvalid").await?;
    assert_eq!(
        event.note.as_deref(),
        Some("the annotation must not have YAML anchors or aliases (line 1, column 8)")
    );
    stage.pod("web", "a", "db", "").await?;
    stage.holds("db", &[("password", "p"), ("user", "u")]).await?;
    Ok(())
}

#[tokio::test]
async fn a_secret_that_comes_later_is_fetched_later() -> Result<()> {
    let stage = Stage::new("later").await?;
    let (_instance, _running) = stage.start("one").await?;
    stage.pod("web", "a", "db", "").await?;
    let event = stage.told("web", "SecretFetchFailed").await?;
    assert_eq!(
        event.note.as_deref(),
        Some("failed to fetch a from mock: it does not exist")
    );
    stage.mock.set("a", VALUE);
    stage.holds("db", &[("password", "p"), ("user", "u")]).await?;
    Ok(())
}

#[tokio::test]
async fn an_outage_leaves_the_last_good_content() -> Result<()> {
    let (stage, _instance, _running) = Stage::synced("outage").await?;
    let before = stage.secrets().get("db").await?;
    stage.mock.fail_with(Some(FetchError::Unavailable {
        what: "no answer".to_owned(),
    }));
    stage
        .patch("web", json!({"annotations": {"jasm.codnod.io/force-sync": "1"}}))
        .await?;
    stage.told("web", "SecretFetchFailed").await?;
    assert_eq!(stage.secrets().get("db").await?, before);
    stage.mock.fail_with(None);
    stage.mock.set("a", r#"{"user":"v"}"#);
    stage.holds("db", &[("user", "v")]).await?;
    Ok(())
}

#[tokio::test]
async fn only_on_missing_delete_deletes() -> Result<()> {
    let stage = Stage::new("missing").await?;
    stage.mock.set("a", VALUE);
    let (_instance, _running) = stage.start("one").await?;
    stage.pod("web", "a", "db", "onMissing: delete").await?;
    stage.holds("db", &[("password", "p"), ("user", "u")]).await?;
    stage.mock.remove("a");
    stage
        .patch("web", json!({"annotations": {"jasm.codnod.io/force-sync": "1"}}))
        .await?;
    trustplane_testkit::wait_for(&stage.secrets(), "db", DEADLINE, |live| live.is_none()).await?;
    stage.mock.set("a", VALUE);
    stage.holds("db", &[("password", "p"), ("user", "u")]).await?;
    Ok(())
}

#[tokio::test]
async fn replicas_share_one_call() -> Result<()> {
    let stage = Stage::new("replicas").await?;
    stage.mock.set("a", VALUE);
    for n in 0..10 {
        stage.pod(&format!("web-{n}"), "a", "db", "").await?;
    }
    let (_instance, _running) = stage.start("one").await?;
    stage.holds("db", &[("password", "p"), ("user", "u")]).await?;
    for n in 0..10 {
        stage.told(&format!("web-{n}"), "SecretSyncSuccess").await?;
    }
    let asked = || async { Ok((stage.mock.asked_for("a") == 1).then_some(())) };
    until("one call for all", DEADLINE, asked).await
}

#[tokio::test]
async fn every_pod_is_told_that_its_secret_is_there() -> Result<()> {
    let (stage, _instance, _running) = Stage::synced("greeted").await?;
    for n in 0..10 {
        stage.pod(&format!("web-{n}"), "a", "db", "").await?;
    }
    for n in 0..10 {
        stage.told(&format!("web-{n}"), "SecretSyncSuccess").await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_provider_that_goes_by_accounts_is_asked_on_behalf_of_the_pods_own() -> Result<()> {
    let stage = Stage::new("accounts").await?;
    stage.mock.set("a", VALUE);
    stage.mock.decide_by(Identity::ServiceAccount);
    let (_instance, _running) = stage.start("first").await?;
    stage.pod("web", "a", "db", "").await?;
    stage.holds("db", &[("password", "p"), ("user", "u")]).await?;
    let account = Principal::ServiceAccount {
        namespace: stage.sandbox.namespace().to_owned(),
        name: "default".into(),
    };
    let asked: Vec<_> = stage.mock.calls().concat();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].on_behalf_of, account);
    Ok(())
}

#[tokio::test]
async fn pods_of_two_accounts_that_share_a_secret_do_not_share_an_answer() -> Result<()> {
    let stage = Stage::new("two-accounts").await?;
    stage.mock.set("a", VALUE);
    stage.mock.decide_by(Identity::ServiceAccount);
    let accounts: Api<ServiceAccount> = stage.sandbox.api();
    let other = serde_json::from_value(json!({"metadata": {"name": "other"}}))?;
    accounts.create(&PostParams::default(), &other).await?;
    stage.pod("web", "a", "db", "merge: true\nkeys: [user]\n").await?;
    let asks = "provider: mock\npath: a\nsecretName: db\nmerge: true\nkeys: [password]\n";
    let job = json!({
        "metadata": {"name": "job", "annotations": {"jasm.codnod.io/secret-sync": asks}},
        "spec": {"serviceAccountName": "other", "containers": [{"name": "main", "image": "none"}]},
    });
    stage
        .pods()
        .create(&PostParams::default(), &serde_json::from_value(job)?)
        .await?;
    let (_instance, _running) = stage.start("first").await?;
    stage.holds("db", &[("password", "p"), ("user", "u")]).await?;
    let asked: BTreeSet<_> = stage.mock.calls().concat().into_iter().collect();
    let accounts: Vec<_> = asked.iter().map(|locator| &locator.on_behalf_of).collect();
    let account = |name: &str| Principal::ServiceAccount {
        namespace: stage.sandbox.namespace().to_owned(),
        name: name.into(),
    };
    assert_eq!(accounts, [&account("default"), &account("other")]);
    Ok(())
}
