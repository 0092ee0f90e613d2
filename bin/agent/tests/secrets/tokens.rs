//! Several tokens: what is delivered does not depend on which of them are plugged in.

use anyhow::{Context, Result};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use trustplane_api::hsm::{DeviceSyncStatus, HsmSecretStatus};
use trustplane_testkit::crash::Thread;

use crate::delivery::seed;
use crate::stage::{DEVICE, PAIRS, Stage, checksum, content, owned};
use crate::token::Token;

const EDITED: [(&str, &str); 1] = [("password", "edited")];
const OTHER: [(&str, &str); 1] = [("password", "other")];

/// A stage with the tokens `soft/a` and `soft/b`. The capability does not run.
async fn two(name: &str) -> Result<Stage> {
    Stage::new(name, vec![Token::new("a").await?, Token::new("b").await?]).await
}

/// Starts the agent of a token again. Its pod becomes ready, as it does with a kubelet, and the manager asks it at once.
async fn plug_in(stage: &mut Stage, token: usize) -> Result<()> {
    let token = &mut stage.tokens[token];
    token.restart()?;
    let pods: Api<Pod> = stage.sandbox.api();
    let own = ListParams::default().labels(&format!("app={}", token.agent_name(DEVICE)));
    let pod = pods
        .list(&own)
        .await?
        .items
        .pop()
        .context("the pod of the agent")?;
    let ready =
        json!({ "type": "Ready", "status": "True", "lastTransitionTime": Timestamp::now().to_string() });
    let status = Patch::Merge(json!({ "status": { "conditions": [ready] } }));
    pods.patch_status(&pod.name_any(), &PatchParams::default(), &status)
        .await?;
    Ok(())
}

/// The row of a token in a status.
fn row<'a>(status: &'a HsmSecretStatus, token: &str) -> Option<&'a DeviceSyncStatus> {
    let mut rows = status.device_sync_status.iter();
    rows.find(|row| row.device_name == token)
}

fn is_online(status: &HsmSecretStatus, token: &str, online: bool) -> bool {
    row(status, token).is_some_and(|row| row.online == online)
}

/// What the condition `Degraded` says, if it holds.
fn degraded(status: &HsmSecretStatus) -> Option<&str> {
    let degraded = status.conditions.get("Degraded")?;
    (degraded.status == "True").then_some(degraded.message.as_str())
}

/// Fails unless the Secret still is this version of itself.
async fn assert_untouched(stage: &Stage, version: &Option<String>) -> Result<()> {
    let secret = stage.secrets().get("db-credentials").await?;
    assert_eq!(secret.resource_version(), *version, "the Secret was written");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn f17_equal_copies_have_one_primary_also_after_a_restart() -> Result<()> {
    let mut stage = two("equal").await?;
    stage.tokens[0].write("shop/db", &PAIRS)?;
    stage.tokens[1].write("shop/db", &OTHER)?;
    stage.tokens[1].write("shop/db", &PAIRS)?;
    let (_, running) = stage.start("first").await?;
    stage.apply("db", seed()).await?;
    let status = stage.in_sync("db", &PAIRS).await?;
    assert_eq!(
        status.primary_device.as_deref(),
        Some("soft/b"),
        "it has version 2"
    );
    assert_eq!(status.sync_conflict, None);
    let told: Vec<_> = status.device_sync_status.iter().collect();
    let wanted = |name: &str, version| DeviceSyncStatus {
        device_name: name.to_owned(),
        checksum: Some(checksum(&PAIRS)),
        status: Some("InSync".to_owned()),
        online: true,
        version,
        ..DeviceSyncStatus::default()
    };
    assert_eq!(told, [&wanted("soft/a", 1), &wanted("soft/b", 2)]);

    // The other copy gets a higher version while no capability runs: the next one knows the primary by the status.
    stage.kill(running).await?;
    stage.tokens[0].write("shop/db", &OTHER)?;
    stage.tokens[0].write("shop/db", &PAIRS)?;
    let (_, running) = stage.start("second").await?;
    let status = stage.status("db", |status| {
        row(status, "soft/a").is_some_and(|row| row.version == 3)
    });
    let status = status.await?;
    assert_eq!(status.primary_device.as_deref(), Some("soft/b"));
    assert_eq!(status.sync_status.as_deref(), Some("InSync"));

    // The primary goes away: the Secret is right, and the other copy is good enough to make it again.
    stage.tokens[1].kill()?;
    let status = stage.status("db", |status| degraded(status).is_some()).await?;
    assert!(degraded(&status).unwrap().contains("soft/b"), "{status:?}");
    assert_eq!(status.sync_status.as_deref(), Some("InSync"));
    stage
        .secrets()
        .delete("db-credentials", &Default::default())
        .await?;
    stage
        .secret("db-credentials", |live| content(live) == owned(&PAIRS))
        .await?;
    plug_in(&mut stage, 1).await?;
    let status = stage.status("db", |status| is_online(status, "soft/b", true));
    let status = status.await?;
    assert_eq!(status.primary_device.as_deref(), Some("soft/b"));
    stage.kill(running).await
}

/// Pulls out one token and then the other, with a restart in between, while their copies differ: neither decides anything.
async fn pull_out_each(stage: &mut Stage, running: Thread) -> Result<Thread> {
    stage.tokens[0].kill()?;
    let status = stage.status("db", |status| is_online(status, "soft/a", false));
    assert_eq!(status.await?.sync_conflict, Some(true));
    stage.kill(running).await?;
    let (_, running) = stage.start("second").await?;
    plug_in(stage, 0).await?;
    let status = stage.status("db", |status| is_online(status, "soft/a", true));
    assert_eq!(status.await?.sync_conflict, Some(true));
    stage.tokens[1].kill()?;
    let status = stage.status("db", |status| is_online(status, "soft/b", false));
    assert_eq!(status.await?.sync_conflict, Some(true));
    Ok(running)
}

#[tokio::test(flavor = "multi_thread")]
async fn f16_copies_that_differ_touch_nothing_until_they_are_equal() -> Result<()> {
    let mut stage = two("differ").await?;
    stage.tokens[0].write("shop/db", &PAIRS)?;
    stage.tokens[1].write("shop/db", &OTHER)?;
    let (_, running) = stage.start("first").await?;
    stage.apply("db", seed()).await?;
    let status = stage.problem("db", "CopiesDiffer").await?;
    assert_eq!(status.sync_conflict, Some(true));
    let told = status.last_error.as_deref().unwrap();
    assert!(
        told.contains("soft/a has version 1") && told.contains("soft/b has version 1"),
        "{told}"
    );
    let conflict = status.conditions.get("Conflict").unwrap();
    assert!(conflict.status == "True" && conflict.reason == "CopiesDiffer");
    assert!(stage.secrets().get_opt("db-credentials").await?.is_none());
    stage.told("db", "CopiesDiffer", "soft/b has version 1").await?;

    // A person makes them equal. Then one is edited while its agent is away, and comes back.
    stage.tokens[1].write("shop/db", &PAIRS)?;
    let status = stage.in_sync("db", &PAIRS).await?;
    assert_eq!(status.sync_conflict, None);
    let version = stage.secrets().get("db-credentials").await?.resource_version();
    stage.tokens[1].kill()?;
    stage.status("db", |status| degraded(status).is_some()).await?;
    stage.tokens[1].write("shop/db", &OTHER)?;
    plug_in(&mut stage, 1).await?;
    let status = stage.problem("db", "CopiesDiffer").await?;
    let rows = [row(&status, "soft/a").unwrap(), row(&status, "soft/b").unwrap()];
    assert_eq!(
        rows.map(|row| row.status.as_deref()),
        [Some("InSync"), Some("OutOfSync")]
    );
    assert_eq!(status.secret_checksum, Some(checksum(&PAIRS)));
    let running = pull_out_each(&mut stage, running).await?;
    assert_untouched(&stage, &version).await?;

    // The wrong copy is deleted on its own token.
    stage.tokens[1].delete("shop/db")?;
    plug_in(&mut stage, 1).await?;
    let status = stage.in_sync("db", &PAIRS).await?;
    assert_eq!(status.sync_conflict, None);
    assert_eq!(row(&status, "soft/b"), None, "it has no copy");
    assert_untouched(&stage, &version).await?;
    stage.kill(running).await
}

#[tokio::test(flavor = "multi_thread")]
async fn edit_is_delivered_while_another_token_is_away() -> Result<()> {
    let mut stage = two("away").await?;
    for token in &stage.tokens {
        token.write("shop/db", &PAIRS)?;
    }
    let (_, running) = stage.start("first").await?;
    stage.apply("db", seed()).await?;
    stage.in_sync("db", &PAIRS).await?;
    stage.tokens[1].kill()?;
    stage.status("db", |status| degraded(status).is_some()).await?;
    stage.tokens[0].write("shop/db", &EDITED)?;
    let status = stage.in_sync("db", &EDITED).await?;
    assert!(
        degraded(&status).is_some_and(|told| told.contains("soft/b")),
        "{status:?}"
    );
    let version = stage.secrets().get("db-credentials").await?.resource_version();

    // The edited token goes, and the other comes back with what was there before: it is not delivered, also by a capability
    // that knows the tokens by the status alone.
    stage.tokens[0].kill()?;
    stage.problem("db", "TokenUnreachable").await?;
    stage.kill(running).await?;
    let (_, running) = stage.start("second").await?;
    plug_in(&mut stage, 1).await?;
    let status = stage.problem("db", "CopiesDiffer").await?;
    let told = status.last_error.as_deref().unwrap();
    assert!(told.contains("soft/a cannot be asked"), "{told}");
    assert_eq!(status.secret_checksum, Some(checksum(&EDITED)));
    assert_untouched(&stage, &version).await?;
    // An edit on that token is not delivered either: the token never had the delivered content.
    stage.tokens[1].write("shop/db", &OTHER)?;
    stage
        .status("db", |status| {
            row(status, "soft/b").is_some_and(|row| row.checksum == Some(checksum(&OTHER)))
        })
        .await?;
    plug_in(&mut stage, 0).await?;
    let status = stage.status("db", |status| is_online(status, "soft/a", true));
    assert_eq!(status.await?.sync_conflict, Some(true));
    assert_untouched(&stage, &version).await?;
    stage.tokens[1].write("shop/db", &EDITED)?;
    stage.in_sync("db", &EDITED).await?;
    assert_untouched(&stage, &version).await?;
    stage.kill(running).await
}

#[tokio::test(flavor = "multi_thread")]
async fn secret_stays_when_the_only_copy_goes_away() -> Result<()> {
    let tokens = vec![Token::new("a").await?, Token::kryoptic("b").await?];
    let mut stage = Stage::new("only", tokens).await?;
    stage.tokens[1].write("shop/db", &PAIRS)?;
    let (_, running) = stage.start("first").await?;
    stage.apply("db", seed()).await?;
    let status = stage.in_sync("db", &PAIRS).await?;
    assert_eq!(status.primary_device.as_deref(), Some("soft/b"));
    let version = stage.secrets().get("db-credentials").await?.resource_version();
    stage.tokens[1].kill()?;
    let status = stage.problem("db", "TokenUnreachable").await?;
    assert_eq!(status.sync_status.as_deref(), Some("Error"));
    let told = status.last_error.as_deref().unwrap();
    assert!(told.contains("soft/b") && !told.contains("soft/a"), "{told}");
    assert_untouched(&stage, &version).await?;
    plug_in(&mut stage, 1).await?;
    stage.in_sync("db", &PAIRS).await?;
    // Both modules keep the same secret alike.
    stage.tokens[0].write("shop/db", &PAIRS)?;
    let status = stage.status("db", |status| row(status, "soft/a").is_some());
    let status = status.await?;
    assert_eq!(status.sync_status.as_deref(), Some("InSync"));
    let sums = status.device_sync_status.iter().map(|row| row.checksum.clone());
    assert_eq!(sums.collect::<Vec<_>>(), vec![Some(checksum(&PAIRS)); 2]);
    assert_untouched(&stage, &version).await?;
    stage.kill(running).await
}
