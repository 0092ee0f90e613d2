//! Certificates of agents: whatever becomes of them or of the CA, agents have good ones soon after.

use std::sync::Arc;

use anyhow::Result;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use trustplane_kit::controller::Options;
use trustplane_process::clock::ManualClock;
use trustplane_testkit::crash::Thread;
use trustplane_testkit::{DEADLINE, wait_for_some};

use crate::stage::{Stage, device, entry, fixed};

const TLS: &str = "hsm-agent-soft-one-tls";
const CA: &str = "hsm-mtls-ca";

/// A stage with one static token and its certificate.
async fn certified(name: &str, options: Options) -> Result<(Stage, Thread, Secret)> {
    let mut stage = Stage::new(name).await?;
    stage.options = options;
    let (_, running) = stage.start("first").await?;
    device(
        &stage.sandbox,
        "soft",
        fixed(json!([{ "name": "one", "tokenLabel": "one" }])),
    )
    .await?;
    let made = stage.there(TLS).await?;
    Ok((stage, running, made))
}

/// Waits for another certificate than this one.
async fn replaced(stage: &Stage, before: &Secret) -> Result<Secret> {
    let secrets = stage.api::<Secret>();
    let after = wait_for_some(&secrets, TLS, DEADLINE, |live| {
        let certificate = entry(live, "tls.crt");
        !certificate.is_empty() && certificate != entry(before, "tls.crt")
    })
    .await?;
    Ok(after)
}

#[tokio::test]
async fn a_certificate_that_is_lost_or_damaged_is_replaced() -> Result<()> {
    let (stage, running, first) = certified("damaged", Options::default()).await?;
    let secrets = stage.api::<Secret>();
    secrets.delete(TLS, &DeleteParams::default()).await?;
    let second = replaced(&stage, &first).await?;
    let cut = Patch::Merge(json!({ "data": { "tls.key": "" } }));
    secrets.patch(TLS, &PatchParams::default(), &cut).await?;
    let third = replaced(&stage, &second).await?;
    let less = Patch::Merge(json!({ "data": { "ca.crt": null } }));
    secrets.patch(TLS, &PatchParams::default(), &less).await?;
    let fourth = replaced(&stage, &third).await?;
    assert!(!entry(&fourth, "ca.crt").is_empty() && !entry(&fourth, "tls.key").is_empty());
    stage.kill(running).await
}

#[tokio::test]
async fn a_certificate_is_replaced_before_it_ends() -> Result<()> {
    let clock = Arc::new(ManualClock::new(Timestamp::now()));
    let options = Options {
        clock: clock.clone(),
        ..Options::default()
    };
    let (stage, running, first) = certified("renewed", options).await?;
    clock.advance(SignedDuration::from_hours(1440));
    replaced(&stage, &first).await?;
    stage.kill(running).await
}

#[tokio::test]
async fn with_another_authority_agents_get_other_certificates() -> Result<()> {
    let (stage, running, first) = certified("lost-ca", Options::default()).await?;
    stage.kill(running).await?;
    // The CA is lost while nobody runs: there is none that could put it back.
    let secrets = stage.api::<Secret>();
    let empty = Patch::Merge(json!({ "data": null }));
    secrets.patch(CA, &PatchParams::default(), &empty).await?;
    let (_, running) = stage.start("second").await?;
    let second = replaced(&stage, &first).await?;
    assert_ne!(entry(&first, "ca.crt"), entry(&second, "ca.crt"));
    let kept: Secret = secrets.get(CA).await?;
    assert_eq!(entry(&kept, "current.crt"), entry(&second, "ca.crt"));
    stage.kill(running).await
}

#[tokio::test]
async fn the_authority_of_the_original_is_left_in_place() -> Result<()> {
    let stage = Stage::new("migrated").await?;
    let secrets = stage.api::<Secret>();
    let theirs = Patch::Merge(json!({ "stringData": { "tls.crt": "theirs", "tls.key": "theirs" } }));
    secrets.patch(CA, &PatchParams::default(), &theirs).await?;
    let (_, running) = stage.start("first").await?;
    device(
        &stage.sandbox,
        "soft",
        fixed(json!([{ "name": "one", "tokenLabel": "one" }])),
    )
    .await?;
    stage.there::<Secret>(TLS).await?;
    let kept = secrets.get(CA).await?;
    assert_eq!(entry(&kept, "tls.crt"), b"theirs");
    stage.kill(running).await
}
