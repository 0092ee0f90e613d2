//! Tokens that move.

use anyhow::{Context, Result};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use k8s_openapi::api::events::v1::Event;
use kube::api::ListParams;
use serde_json::json;
use trustplane_api::hsm::conditions::event;
use trustplane_testkit::{DEADLINE, wait_for_some};

use crate::nodes::Silent;
use crate::quiet::looked_at;
use crate::stage::{AGENT, SERIAL, Stage, at, device, entry, fixed, node, report, says, token};

fn node_of(deployment: &Deployment) -> Option<String> {
    let annotations = deployment.metadata.annotations.as_ref()?;
    annotations.get("hsm.j5t.io/node").cloned()
}

#[tokio::test]
async fn an_agent_follows_its_token_to_another_node_and_keeps_its_record() -> Result<()> {
    let (stage, _, running) = Stage::serving("moves").await?;
    let [tls, key] = ["tls", "record-key"].map(|name| format!("{AGENT}-{name}"));
    let (before, key_before): (Secret, Secret) = (stage.there(&tls).await?, stage.there(&key).await?);
    stage.there::<ConfigMap>(AGENT).await?;
    stage.record(AGENT, json!({ "tries": "[]" })).await?;
    let deployments = stage.api::<Deployment>();
    let old = deployments.get(AGENT).await?;
    assert_eq!(
        node_of(&old).as_deref(),
        Some(at(&stage.sandbox, "node-1").as_str())
    );
    // It was pulled out here, and put in there.
    let mut lost = token(SERIAL);
    lost["available"] = false.into();
    says(&stage.sandbox, "pico-discovery-node-1", &report("pico", &[lost])).await?;
    node(
        &stage.sandbox,
        "pico",
        "node-2",
        &report("pico", &[token(SERIAL)]),
    )
    .await?;
    let there = at(&stage.sandbox, "node-2");
    wait_for_some(&deployments, AGENT, DEADLINE, |live| {
        node_of(live).as_deref() == Some(there.as_str()) && live.metadata.uid != old.metadata.uid
    })
    .await?;
    let record = stage.api::<ConfigMap>().get(AGENT).await?;
    assert_eq!(record.data.unwrap_or_default()["tries"], "[]");
    let (after, key_after): (Secret, Secret) = (stage.there(&tls).await?, stage.there(&key).await?);
    assert_eq!(entry(&key_before, "record.key"), entry(&key_after, "record.key"));
    assert_eq!(before.metadata.uid, after.metadata.uid);
    // It is told where it went, and once.
    let here = at(&stage.sandbox, "node-1");
    let words = format!("\"{SERIAL}\" follows it from node {here} to node {there}");
    let told = stage.told("pico", event::TOKEN_MOVED, &words).await?;
    assert_eq!((told.type_.as_deref(), told.series), (Some("Normal"), None));
    let all = stage.api::<Event>().list(&ListParams::default()).await?;
    let moves = all
        .items
        .iter()
        .filter(|event| event.reason.as_deref() == Some(event::TOKEN_MOVED));
    assert_eq!(moves.count(), 1);
    stage.kill(running).await
}

#[tokio::test]
async fn w35_a_static_token_has_one_agent_also_while_it_goes_to_another_node() -> Result<()> {
    let mut stage = Stage::new("static-moves").await?;
    let looks = stage.count_looks();
    let (_, running) = stage.start("first").await?;
    let on = |node: &str| fixed(json!([{ "name": "one", "tokenLabel": "one", "nodeName": node }]));
    let agent = "hsm-agent-soft-one";
    device(&stage.sandbox, "soft", on("node-1")).await?;
    let old: Deployment = stage.there(agent).await?;
    let (deployments, pods) = (stage.api::<Deployment>(), stage.api::<Pod>());
    // Its pod goes on for a while, as one whose node does not answer.
    let silent = Silent::runs(&stage, agent).await?;
    device(&stage.sandbox, "soft", on("node-2")).await?;
    stage.told("soft", event::AGENT_WAITS, &silent.pod).await?;
    looked_at(&looks, 30).await?;
    let between = deployments.get_opt(agent).await?;
    assert!(between.is_none_or(|live| live.metadata.uid == old.metadata.uid));
    assert_eq!(
        pods.list(&ListParams::default().labels(&format!("app={agent}")))
            .await?
            .items
            .len(),
        1
    );
    silent.ends().await?;
    wait_for_some(&deployments, agent, DEADLINE, |live| {
        node_of(live).as_deref() == Some("node-2") && live.metadata.uid != old.metadata.uid
    })
    .await?;
    stage.kill(running).await
}

/// As whom the pods of the agent run, and with which groups besides.
fn identity(deployment: &Deployment) -> Option<(i64, Vec<i64>)> {
    let pod = deployment.spec.as_ref()?.template.spec.as_ref()?;
    let security = pod.security_context.as_ref()?;
    let groups = security.supplemental_groups.clone().unwrap_or_default();
    assert_eq!(
        security.run_as_non_root,
        (security.run_as_user? != 0).then_some(true)
    );
    Some((security.run_as_user?, groups))
}

#[tokio::test]
async fn an_agent_is_root_only_where_nobody_else_may_open_its_device() -> Result<()> {
    let (stage, _, running) = Stage::serving("access").await?;
    let deployments = stage.api::<Deployment>();
    // Its node did not say who may.
    assert_eq!(identity(&deployments.get(AGENT).await?), Some((0, vec![])));
    for (mode, gid, wanted) in [
        ("0660", "46", (65532, vec![46])),
        ("0666", "0", (65532, vec![])),
        ("0600", "46", (0, vec![])),
        ("0660", "47", (65532, vec![47])),
        ("0660", "many", (0, vec![])),
    ] {
        let mut told = token(SERIAL);
        told["deviceInfo"]["mode"] = mode.into();
        told["deviceInfo"]["gid"] = gid.into();
        says(&stage.sandbox, "pico-discovery-node-1", &report("pico", &[told])).await?;
        wait_for_some(&deployments, AGENT, DEADLINE, |live| {
            identity(live) == Some(wanted.clone())
        })
        .await
        .with_context(|| format!("{mode} {gid}"))?;
    }
    stage.kill(running).await
}

#[tokio::test]
async fn a_token_with_a_new_number_gets_a_new_pod() -> Result<()> {
    let (stage, _, running) = Stage::serving("replug").await?;
    let deployments = stage.api::<Deployment>();
    let mut replugged = token(SERIAL);
    replugged["devicePath"] = "/dev/bus/usb/001/017".into();
    says(
        &stage.sandbox,
        "pico-discovery-node-1",
        &report("pico", &[replugged]),
    )
    .await?;
    wait_for_some(&deployments, AGENT, DEADLINE, |live| {
        let template = live.spec.as_ref().and_then(|spec| spec.template.metadata.clone());
        let annotations = template
            .and_then(|metadata| metadata.annotations)
            .unwrap_or_default();
        annotations.values().any(|value| value == "/dev/bus/usb/001/017")
    })
    .await?;
    stage.kill(running).await
}
