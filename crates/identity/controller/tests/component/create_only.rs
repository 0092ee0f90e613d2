//! Create-only mode: what exists is left as it is, what is missing is made.

use anyhow::Result;
use kube::api::DeleteParams;
use serde_json::json;
use trustplane_api::identity::{SPIRE_AGENT, SPIRE_SERVER, ZTWIM, names};
use trustplane_plan::kinds::SERVICE;

use crate::stage::{OPERANDS, Stage};
use crate::workloads::AllPodsRun;

const MODE: &str = "CreateOnlyMode";
const ON: &str = "CreateOnlyModeEnabled";
const OFF: &str = "CreateOnlyModeDisabled";

#[tokio::test]
async fn process_in_create_only_mode_changes_no_child() -> Result<()> {
    let mut stage = Stage::new("create-only").await?;
    stage.settings.create_only = true;
    let running = stage.start("first").await?;
    stage.quickstart().await?;
    stage.all_there().await?;
    let _pods = AllPodsRun::new(&stage);
    stage.is_ready().await?;
    stage.says(&ZTWIM, MODE, "True", ON).await?;
    let before = stage.versions(Some(&SPIRE_AGENT)).await?;
    stage
        .edit(
            &ZTWIM,
            json!({ "clusterName": "second", "labels": { "team": "x" } }),
        )
        .await?;
    stage
        .until(&SPIRE_AGENT, "cluster", |live| {
            live["spec"]["clusterName"] == "second"
        })
        .await?;
    stage
        .delete(&SERVICE, names::SERVER, &DeleteParams::default())
        .await?;
    stage.there(&SERVICE, names::SERVER).await?;
    for operand in OPERANDS {
        stage.says(&operand, MODE, "True", ON).await?;
    }
    let after = stage.versions(Some(&SPIRE_AGENT)).await?;
    assert_eq!(without_workload(after), without_workload(before));
    assert!(
        !stage
            .file(names::SERVER, names::SERVER_CONF)
            .await?
            .contains("\"second\"")
    );

    running.kill().await?;
    stage.settings.create_only = false;
    let _running = stage.start("second").await?;
    stage
        .file_has(names::SERVER, names::SERVER_CONF, "\"second\"")
        .await?;
    stage.is_ready().await?;
    for kind in OPERANDS.iter().chain([&ZTWIM]) {
        stage.says(kind, MODE, "False", OFF).await?;
    }
    Ok(())
}

/// Without the workload, whose status the test writes.
fn without_workload(mut versions: std::collections::BTreeMap<String, String>) -> Vec<(String, String)> {
    versions.retain(|child, _| !child.starts_with("DaemonSet"));
    versions.into_iter().collect()
}

#[tokio::test]
async fn annotation_keeps_the_children_of_one_operand() -> Result<()> {
    let (stage, _running) = Stage::with_quickstart("annotation").await?;
    let annotate = |value| json!({ "metadata": { "annotations": { names::CREATE_ONLY: value } } });
    stage
        .patch(&SPIRE_AGENT, "cluster", annotate(json!("true")))
        .await?;
    stage.says(&SPIRE_AGENT, MODE, "True", ON).await?;
    let before = stage.versions(Some(&SPIRE_AGENT)).await?;
    stage.edit(&ZTWIM, json!({ "clusterName": "second" })).await?;
    stage.edit(&SPIRE_AGENT, json!({ "logLevel": "debug" })).await?;
    // The server has no annotation.
    stage
        .file_has(names::SERVER, names::SERVER_CONF, "\"second\"")
        .await?;
    stage.says(&SPIRE_AGENT, MODE, "True", ON).await?;
    assert_eq!(stage.versions(Some(&SPIRE_AGENT)).await?, before);
    let server = stage.read(&SPIRE_SERVER, "cluster").await?;
    assert!(crate::stage::condition(&server, MODE).is_none(), "{server:#}");

    stage
        .patch(&SPIRE_AGENT, "cluster", annotate(json!(null)))
        .await?;
    stage
        .file_has(names::AGENT, names::AGENT_CONF, "\"second\"")
        .await?;
    stage
        .file_has(names::AGENT, names::AGENT_CONF, "\"debug\"")
        .await?;
    stage.says(&SPIRE_AGENT, MODE, "False", OFF).await?;
    Ok(())
}
