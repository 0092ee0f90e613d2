//! The console in a real browser: every page of a real hub, and every state that a page can be in.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use trustplane_cluster::cache::Cache;
use trustplane_cluster::tools::Toolchain;
use trustplane_cluster::tools::console::{self, WorkingCopy};
use trustplane_testkit::platform::Settings;
use trustplane_testkit::{DEADLINE, Select, eventually, wait_for_some};

use crate::hub::Hub;
use crate::stage::{AGENT, Stage};

/// Runs the browser's script. It prints a line for each check; the error has the lines of those that failed.
async fn browse(arguments: Vec<String>) -> Result<()> {
    let walked = tokio::task::spawn_blocking(move || -> Result<std::process::Output> {
        let copy = WorkingCopy::new(&Toolchain::new(&Cache::locate()?))?;
        let mut browser = copy.node("tests/browser.mjs");
        browser.args(arguments).env("CHROMIUM", console::browser()?);
        browser.output().context("start the browser's script")
    })
    .await??;
    let told = String::from_utf8_lossy(&walked.stdout);
    let failed: Vec<_> = told.lines().filter(|line| !line.starts_with("ok ")).collect();
    ensure!(
        walked.status.success(),
        "{}\n{}",
        failed.join("\n"),
        String::from_utf8_lossy(&walked.stderr)
    );
    Ok(())
}

/// With made-up data: a real hub is not slow, broken or silent on demand.
#[tokio::test(flavor = "multi_thread")]
async fn every_state_of_a_page_of_the_console_is_shown() -> Result<()> {
    browse(vec!["--states".to_owned()]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_of_the_console_works_by_mouse_and_keyboard() -> Result<()> {
    let stage = Stage::new("console", Settings::default()).await?;
    for number in 0..30 {
        stage.pod(&format!("pod-{number}")).await?;
    }
    deploy(&stage).await?;
    let hub = Hub::start().await?;
    hub.enrol(&stage).await?;
    let (_instance, running) = stage.start("first").await?;
    stage.says(AGENT, "Available", "True", "AgentRunning").await?;
    browse(vec!["--link".to_owned(), hub.link().await?]).await?;
    stage.kill(running).await
}

/// A Deployment that works: no node runs its pod, so the test says that it is ready.
async fn deploy(stage: &Stage) -> Result<()> {
    let labels = json!({"app": "shop"});
    let deployment: Deployment = serde_json::from_value(json!({
        "metadata": {"name": "shop"},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "shop:1"}]},
            },
        },
    }))?;
    let deployments: Api<Deployment> = stage.sandbox.api();
    deployments.create(&PostParams::default(), &deployment).await?;
    let (pods, selected) = (stage.sandbox.api::<Pod>(), Select::default().labels("app=shop"));
    let name = eventually(&pods, &selected, DEADLINE, |found| found.keys().next().cloned()).await?;
    let ready = json!({"status": {
        "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [{
            "name": "main", "image": "shop:1", "imageID": "", "ready": true, "restartCount": 0, "started": true,
            "state": {"running": {}},
        }],
    }});
    pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(ready))
        .await?;
    let is_ready = |live: &Deployment| {
        let status = live.status.clone().unwrap_or_default();
        status.available_replicas == Some(1)
    };
    wait_for_some(&deployments, "shop", DEADLINE, is_ready)
        .await
        .map(drop)
}
