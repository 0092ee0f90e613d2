//! Silence at rest, also with two writers.

use anyhow::Result;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::json;
use trustplane_testkit::audit::Mark;
use trustplane_testkit::{DEADLINE, until};

use crate::stage::{AGENT, Looks, SERIAL, Stage, blank, device, fixed, node, pico, report, says, token};

/// Waits until everything was looked at many times: each look reads the clock, and all is looked at every second.
pub async fn looked_at(looks: &Looks, times: usize) -> Result<()> {
    let before = looks.count();
    until("everything to be looked at", DEADLINE, || async {
        Ok((looks.count() > before + times).then_some(()))
    })
    .await
}

#[tokio::test]
async fn at_rest_and_after_a_restart_nothing_is_written() -> Result<()> {
    let mut stage = Stage::new("rest").await?;
    let looks = stage.count_looks();
    let (_, running) = stage.start("first").await?;
    device(&stage.sandbox, "pico", pico()).await?;
    let mut soft = fixed(json!([{ "name": "one", "tokenLabel": "one" }]));
    soft["pkcs11"]["autoProvision"] = true.into();
    device(&stage.sandbox, "soft", soft).await?;
    let pod = node(
        &stage.sandbox,
        "pico",
        "node-1",
        &report("pico", &[token(SERIAL)]),
    )
    .await?;
    for agent in [AGENT, "hsm-agent-soft-one"] {
        stage.there::<Deployment>(agent).await?;
        stage.there::<ConfigMap>(agent).await?;
        stage.there::<Secret>(&format!("{agent}-tls")).await?;
    }
    looked_at(&looks, 30).await?;
    stage.kill(running).await?;

    let mark = Mark::now(stage.sandbox.plane()).await?;
    let (second, running) = stage.start("second").await?;
    looked_at(&looks, 30).await?;
    // A heart-beat says nothing new.
    says(&stage.sandbox, &pod, &report("pico", &[token(SERIAL)])).await?;
    looked_at(&looks, 30).await?;
    stage.kill(running).await?;
    mark.since().await?.by(&second).assert_silent();
    Ok(())
}

#[tokio::test]
async fn two_that_write_at_once_do_no_harm_and_come_to_rest() -> Result<()> {
    let mut stage = Stage::new("two").await?;
    let looks = stage.count_looks();
    let (_, one) = stage.start("one").await?;
    let (_, other) = stage.start("other").await?;
    let mut soft =
        fixed(json!([{ "name": "one", "tokenLabel": "one" }, { "name": "two", "tokenLabel": "two" }]));
    soft["pkcs11"]["autoProvision"] = true.into();
    device(&stage.sandbox, "soft", soft).await?;
    for agent in ["hsm-agent-soft-one", "hsm-agent-soft-two"] {
        stage.there::<Deployment>(agent).await?;
        stage.there::<Secret>(&format!("{agent}-tls")).await?;
        blank(&stage.sandbox, agent).await?;
    }
    looked_at(&looks, 60).await?;
    let mark = Mark::now(stage.sandbox.plane()).await?;
    looked_at(&looks, 60).await?;
    mark.since().await?.by_account(&stage.account).assert_silent();
    stage.kill(one).await?;
    stage.kill(other).await
}
