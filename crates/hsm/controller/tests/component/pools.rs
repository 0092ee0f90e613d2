//! Pools: what nodes report, and what of it counts.

use anyhow::Result;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use trustplane_api::hsm::HsmPool;
use trustplane_api::hsm::conditions::phase;
use trustplane_testkit::audit::Mark;
use trustplane_testkit::proxy::{EventFault, EventMatch, Fault, Gate, Match, Proxy, Rule, Verb};

use crate::nodes::Silent;
use crate::outage::{Node, is_impatient};
use crate::quiet::looked_at;
use crate::stage::{AGENT, SERIAL, Stage, at, device, node, phase, pico, pod, report, says, token};

#[tokio::test]
async fn a_report_becomes_the_status_of_the_pool() -> Result<()> {
    let (stage, _, running) = Stage::serving("report").await?;
    let status = stage
        .pool("pico-pool", |status| status.available_devices == 1)
        .await?;
    assert_eq!(
        (
            status.phase.as_deref(),
            status.total_devices,
            status.served_devices
        ),
        // Nobody serves it here.
        (Some(phase::PARTIAL), 1, Some(0))
    );
    let found = &status.aggregated_devices[0];
    assert_eq!(found.serial_number.as_deref(), Some(SERIAL));
    // The report did not name its node: it is that of the pod.
    assert_eq!(
        (found.node_name.as_str(), found.available),
        (at(&stage.sandbox, "node-1").as_str(), true)
    );
    assert!(status.reporting_pods[0].fresh && status.reporting_pods[0].devices_found == 1);
    stage.kill(running).await
}

#[tokio::test]
async fn pods_that_copy_labels_do_not_count() -> Result<()> {
    let stage = Stage::new("impostor").await?;
    let (_, running) = stage.start("first").await?;
    device(&stage.sandbox, "pico", pico()).await?;
    let set: DaemonSet = stage.there("pico-discovery").await?;
    let labels = set.spec.unwrap().selector.match_labels.unwrap();
    // It has an owner of its own: a DaemonSet takes in whoever has none.
    let owner = device(&stage.sandbox, "other", pico()).await?;
    let owner = json!({
        "apiVersion": "hsm.j5t.io/v1alpha1", "kind": "HSMDevice", "name": "other", "uid": owner.metadata.uid,
        "controller": true,
    });
    let stranger = json!({ "name": "stranger", "labels": labels, "ownerReferences": [owner] });
    pod(&stage.sandbox, stranger, "node-9").await?;
    says(&stage.sandbox, "stranger", &report("pico", &[token("evil")])).await?;
    node(
        &stage.sandbox,
        "pico",
        "node-1",
        &report("pico", &[token(SERIAL)]),
    )
    .await?;
    let status = stage
        .pool("pico-pool", |status| status.available_devices > 0)
        .await?;
    let serials: Vec<_> = status
        .aggregated_devices
        .iter()
        .map(|found| &found.serial_number)
        .collect();
    assert_eq!(serials, [&Some(SERIAL.to_owned())]);
    assert_eq!(status.reporting_pods.len(), 1, "{:?}", status.reporting_pods);
    stage.there::<Deployment>(AGENT).await?;
    stage.kill(running).await
}

#[tokio::test]
async fn devices_that_share_a_node_do_not_disturb_each_other() -> Result<()> {
    let stage = Stage::new("shared").await?;
    let (_, running) = stage.start("first").await?;
    device(&stage.sandbox, "pico", pico()).await?;
    let mut nitro = pico();
    nitro["discovery"]["usb"] = json!([{ "vendorId": "20a0", "productId": "4230" }]);
    device(&stage.sandbox, "nitro", nitro).await?;
    node(
        &stage.sandbox,
        "pico",
        "node-1",
        &report("pico", &[token(SERIAL)]),
    )
    .await?;
    let pod = node(
        &stage.sandbox,
        "nitro",
        "node-1",
        &report("nitro", &[token("n1")]),
    )
    .await?;
    let only = |status: &trustplane_api::hsm::HsmPoolStatus, serial: &str| {
        let all = &status.aggregated_devices;
        all.len() == 1 && all[0].serial_number.as_deref() == Some(serial)
    };
    stage.pool("pico-pool", |status| only(status, SERIAL)).await?;
    stage.pool("nitro-pool", |status| only(status, "n1")).await?;
    // A report for another device is none for this one.
    says(&stage.sandbox, &pod, &report("pico", &[token("p2")])).await?;
    stage
        .pool("nitro-pool", |status| {
            let mut pods = status.reporting_pods.iter();
            pods.any(|pod| pod.error.is_some() || !pod.fresh)
        })
        .await?;
    stage.pool("pico-pool", |status| only(status, SERIAL)).await?;
    stage.kill(running).await
}

#[tokio::test]
async fn a_node_that_falls_silent_is_noticed_and_its_agent_keeps_serving() -> Result<()> {
    let stage = Stage::new("silent").await?;
    let (_, running) = stage.start("first").await?;
    device(&stage.sandbox, "pico", pico()).await?;
    is_impatient(&stage, "pico-pool").await?;
    let said = report("pico", &[token(SERIAL)]);
    let first = node(&stage.sandbox, "pico", "silent", &said).await?;
    let second = node(&stage.sandbox, "pico", "node-2", &report("pico", &[token("f77")])).await?;
    let reporting = Node::reports(&stage, &first, SERIAL);
    let _reporting = Node::reports(&stage, &second, "f77");
    stage.there::<Deployment>(AGENT).await?;
    let silent = Silent::runs(&stage, AGENT).await?;
    serves(&stage, AGENT, &silent.pod).await?;
    stage
        .pool("pico-pool", |status| status.served_devices == Some(1))
        .await?;
    // The agent of the first node serves while the node falls silent; the second node goes on reporting.
    drop(reporting);
    let status = stage
        .pool("pico-pool", |status| {
            let fresh: Vec<_> = status.reporting_pods.iter().map(|pod| pod.fresh).collect();
            fresh == [true, false]
        })
        .await?;
    let available: Vec<_> = status
        .aggregated_devices
        .iter()
        .map(|token| token.available)
        .collect();
    assert_eq!(available, [true, true]);
    // The agent no longer serves the token, and the node is silent: the pool gives the token up after the grace period.
    stage.record(AGENT, json!({ "state": null })).await?;
    stage
        .pool("pico-pool", |status| {
            status.available_devices == 1 && status.total_devices == 2
        })
        .await?;
    stage
        .pool("pico-pool", |status| status.total_devices == 1)
        .await?;
    stage.there::<Deployment>("hsm-agent-pico-f77").await?;
    silent.ends().await?;
    stage.kill(running).await
}

/// The pod of an agent is ready, and says that it serves.
async fn serves(stage: &Stage, agent: &str, pod: &str) -> Result<()> {
    phase(&stage.sandbox, pod, "Running", "").await?;
    let ready = json!({ "status": { "conditions": [{ "type": "Ready", "status": "True" }] } });
    let pods = stage.api::<Pod>();
    let ready = pods
        .patch_status(pod, &PatchParams::default(), &Patch::Merge(&ready))
        .await?;
    let state = json!({ "phase": "Serving", "since": Timestamp::now(), "by": ready.metadata.uid });
    stage.record(agent, json!({ "state": state.to_string() })).await
}

#[tokio::test]
async fn a_grace_period_that_somebody_sets_stays() -> Result<()> {
    let (stage, _, running) = Stage::serving("grace").await?;
    let pools = stage.api::<HsmPool>();
    let patch = Patch::Merge(json!({ "spec": { "gracePeriod": "1h" } }));
    pools.patch("pico-pool", &PatchParams::default(), &patch).await?;
    // Everything is looked at again, and the DaemonSet is told.
    let sets = stage.api::<DaemonSet>();
    trustplane_testkit::wait_for_some(&sets, "pico-discovery", trustplane_testkit::DEADLINE, |set| {
        serde_json::to_string(&set.spec).is_ok_and(|spec| spec.contains("--grace-period=3600"))
    })
    .await?;
    assert_eq!(pools.get("pico-pool").await?.spec.grace_period, "1h");
    stage.kill(running).await
}

#[tokio::test]
async fn a_pool_that_does_not_see_its_own_status_writes_it_once() -> Result<()> {
    let mut stage = Stage::new("stale").await?;
    let looks = stage.count_looks();
    let proxy = Proxy::start(stage.sandbox.plane()).await?;
    let instance = stage.account.instance("first").await?.through(&proxy);
    let running = stage.start_as(&instance).await?;
    device(&stage.sandbox, "pico", pico()).await?;
    let pod = node(
        &stage.sandbox,
        "pico",
        "node-1",
        &report("pico", &[token(SERIAL)]),
    )
    .await?;
    stage
        .pool("pico-pool", |status| status.available_devices == 1)
        .await?;
    looked_at(&looks, 30).await?;

    let gate = Gate::default();
    let events = Fault::Events(EventMatch::any(), EventFault::Hold(gate.clone()));
    proxy.add(Rule::new(Match::verb(Verb::Watch).resource("hsmpools"), events));
    let mark = Mark::now(stage.sandbox.plane()).await?;
    let mut lost = token(SERIAL);
    lost["available"] = false.into();
    says(&stage.sandbox, &pod, &report("pico", &[lost])).await?;
    stage
        .pool("pico-pool", |status| status.available_devices == 0)
        .await?;
    // Whatever it decides now rests on what was before.
    looked_at(&looks, 30).await?;
    let written = mark.since().await?.by(&instance).of("hsmpools");
    assert_eq!(written.writes().len(), 1, "{}", written.story());
    gate.open();
    says(&stage.sandbox, &pod, &report("pico", &[token(SERIAL)])).await?;
    stage
        .pool("pico-pool", |status| status.available_devices == 1)
        .await?;
    stage.kill(running).await
}
