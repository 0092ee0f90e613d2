//! Operands go in the plain way: their children go with them, and nothing else does.

use anyhow::Result;
use kube::api::DeleteParams;
use serde_json::json;
use trustplane_api::identity::{
    CLUSTER_SPIFFE_ID, SPIFFE_CSI_DRIVER, SPIRE_OIDC, SPIRE_SERVER, ZTWIM, names,
};
use trustplane_plan::OWNER_UID;
use trustplane_plan::kinds::{CONFIG_MAP, STATEFUL_SET};
use trustplane_testkit::audit::Mark;

use crate::children::children_of;
use crate::stage::{KINDS, OPERANDS, Stage};
use crate::workloads::AllPodsRun;

#[tokio::test]
async fn children_go_with_their_operand_and_come_with_the_next() -> Result<()> {
    let (stage, _running) = Stage::with_quickstart("operand").await?;
    let pods = AllPodsRun::new(&stage);
    stage.is_ready().await?;
    drop(pods);
    let others = [SPIRE_SERVER, trustplane_api::identity::SPIRE_AGENT];
    let mut before = Vec::new();
    for operand in &others {
        before.push(stage.versions(Some(operand)).await?);
    }
    stage
        .delete(&SPIRE_OIDC, "cluster", &DeleteParams::default())
        .await?;
    stage
        .delete(&SPIFFE_CSI_DRIVER, "cluster", &DeleteParams::default())
        .await?;
    for operand in [SPIRE_OIDC, SPIFFE_CSI_DRIVER] {
        for (kind, name) in children_of(Some(&operand)) {
            stage.gone(&kind, name).await?;
        }
    }
    let told = stage.says(&ZTWIM, "Ready", "False", "Progressing").await?;
    assert!(
        told.contains("[SpiffeCSIDriver(not created) SpireOIDCDiscoveryProvider(not created)]"),
        "{told}"
    );
    for (operand, before) in others.iter().zip(before) {
        assert_eq!(stage.versions(Some(operand)).await?, before);
    }
    // Without the provider, pods keep their identity.
    stage.there(&CLUSTER_SPIFFE_ID, names::DEFAULT_IDENTITY).await?;

    stage.apply(&SPIRE_OIDC, json!({})).await?;
    stage.apply(&SPIFFE_CSI_DRIVER, json!({})).await?;
    stage.all_there().await?;
    let provider = stage.read(&SPIRE_OIDC, "cluster").await?;
    let child = stage.read(&CONFIG_MAP, names::OIDC).await?;
    assert_eq!(
        child["metadata"]["labels"][OWNER_UID],
        provider["metadata"]["uid"]
    );
    let _pods = AllPodsRun::new(&stage);
    stage.is_ready().await
}

#[tokio::test]
async fn children_of_an_operand_that_was_replaced_unseen_are_made_anew() -> Result<()> {
    let (stage, running) = Stage::with_quickstart("unseen").await?;
    running.kill().await?;
    let old = stage.read(&STATEFUL_SET, names::SERVER).await?["metadata"]["uid"].clone();
    stage
        .delete(&SPIRE_SERVER, "cluster", &DeleteParams::default())
        .await?;
    stage.gone(&SPIRE_SERVER, "cluster").await?;
    let new = stage
        .apply(
            &SPIRE_SERVER,
            json!({ "jwtIssuer": "https://oidc-discovery.example.org" }),
        )
        .await?;
    let _running = stage.start("second").await?;
    for (kind, name) in children_of(Some(&SPIRE_SERVER)) {
        let has_owner =
            |live: &serde_json::Value| live["metadata"]["labels"][OWNER_UID] == new["metadata"]["uid"];
        stage.until(&kind, name, has_owner).await?;
    }
    assert_ne!(
        stage.read(&STATEFUL_SET, names::SERVER).await?["metadata"]["uid"],
        old
    );
    let _pods = AllPodsRun::new(&stage);
    stage.is_ready().await
}

#[tokio::test]
async fn everything_goes_with_ztwim() -> Result<()> {
    let (stage, _running) = Stage::with_quickstart("all").await?;
    let pods = AllPodsRun::new(&stage);
    stage.is_ready().await?;
    drop(pods);
    let mark = Mark::now(stage.sandbox.plane()).await?;
    stage
        .delete(&ZTWIM, "cluster", &DeleteParams::foreground())
        .await?;
    for kind in KINDS {
        stage.gone(&kind, "cluster").await?;
    }
    for (kind, name) in children_of(None) {
        stage.gone(&kind, name).await?;
    }
    let audit = mark.since().await?.by_account(&stage.account).except("events");
    let made: Vec<_> = audit
        .writes()
        .into_iter()
        .filter(|write| write.code() == 201)
        .collect();
    assert!(made.is_empty(), "made anew on the way out: {made:#?}");

    stage.quickstart().await?;
    stage.all_there().await?;
    let _pods = AllPodsRun::new(&stage);
    stage.is_ready().await?;
    for operand in OPERANDS {
        let owner = &stage.read(&operand, "cluster").await?["metadata"]["ownerReferences"][0]["uid"];
        assert_eq!(*owner, stage.read(&ZTWIM, "cluster").await?["metadata"]["uid"]);
    }
    Ok(())
}
