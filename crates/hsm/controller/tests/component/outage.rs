//! The API server is away for longer than the grace period: that costs no agent.

use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::task::JoinHandle;
use trustplane_api::hsm::HsmPool;
use trustplane_api::hsm::names::REPORT_ANNOTATION;
use trustplane_testkit::proxy::{Fault, Match, Proxy, Rule, Script, Verb};
use trustplane_testkit::wait_for;

use crate::nodes::{is_gone, there_is};
use crate::quiet::looked_at;
use crate::stage::{AGENT, SERIAL, Stage, device, node, pico, report, token};

/// The shortest grace period that there is.
const GRACE: &str = "5s";
/// Longer than a node may be silent and its token lost.
const OUTAGE: Duration = Duration::from_secs(12);
/// How often the node renews its report.
const BEAT: Duration = Duration::from_secs(1);

/// A watch that broke is current again when the API server has sent a bookmark, which it does every minute.
const PATIENCE: Duration = Duration::from_secs(150);

/// A node that renews its report of one token until this is dropped.
pub struct Node(JoinHandle<()>);

impl Node {
    pub fn reports(stage: &Stage, pod: &str, serial: &str) -> Self {
        let (pods, pod, serial) = (stage.api::<Pod>(), pod.to_owned(), serial.to_owned());
        Self(tokio::spawn(async move {
            loop {
                let said = report("pico", &[token(&serial)]).to_string();
                let patch = json!({ "metadata": { "annotations": { REPORT_ANNOTATION: said } } });
                let sent = pods
                    .patch(&pod, &PatchParams::default(), &Patch::Merge(&patch))
                    .await;
                assert!(sent.is_ok(), "{sent:?}");
                tokio::time::sleep(BEAT).await;
            }
        }))
    }
}

/// Lets a pool give up a node that is silent for a few seconds.
pub async fn is_impatient(stage: &Stage, pool: &str) -> Result<()> {
    stage.pool(pool, |_| true).await?;
    let grace = Patch::Merge(json!({ "spec": { "gracePeriod": GRACE } }));
    let pools = stage.api::<HsmPool>();
    pools.patch(pool, &PatchParams::default(), &grace).await?;
    Ok(())
}

impl Drop for Node {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[tokio::test]
async fn outage_longer_than_the_grace_period_costs_no_agent() -> Result<()> {
    let mut stage = Stage::new("outage").await?;
    let looks = stage.count_looks();
    let proxy = Proxy::start(stage.sandbox.plane()).await?;
    let running = stage.start_through("first", &proxy).await?;
    device(&stage.sandbox, "pico", pico()).await?;
    is_impatient(&stage, "pico-pool").await?;
    for name in ["node-1", "node-2"] {
        there_is(&stage, name).await?;
    }
    let said = report("pico", &[token(SERIAL)]);
    let pod = node(&stage.sandbox, "pico", "node-1", &said).await?;
    // Another node, by which the watch of pods is heard all the time.
    let beside = node(&stage.sandbox, "pico", "node-2", &report("pico", &[token("f77")])).await?;
    let _beside = Node::reports(&stage, &beside, "f77");
    let reporting = Node::reports(&stage, &pod, SERIAL);
    let before: Deployment = stage.there(AGENT).await?;

    // Nobody reaches the API server.
    drop(reporting);
    let away = proxy.add(Rule::new(Match::any(), Fault::Cut));
    proxy.cut_all();
    tokio::time::sleep(OUTAGE).await;
    // It is back, and so is the node, but not the watch that would show its report.
    let behind = [Verb::Watch, Verb::List]
        .map(|verb| proxy.add(Rule::new(Match::verb(verb).resource("pods"), Fault::Cut)));
    away.end();
    let reporting = Node::reports(&stage, &pod, SERIAL);
    looked_at(&looks, 30).await?;
    behind.iter().for_each(Script::end);
    looked_at(&looks, 30).await?;
    let after = stage.api::<Deployment>().get(AGENT).await?;
    assert_eq!(after.metadata.uid, before.metadata.uid);
    assert_eq!(after.metadata.deletion_timestamp, None);

    // A node that is really gone is found, and no other.
    drop(reporting);
    let deployments = stage.api::<Deployment>();
    wait_for(&deployments, AGENT, PATIENCE, |live| live.is_none()).await?;
    stage.there::<Deployment>("hsm-agent-pico-f77").await?;
    for name in ["node-1", "node-2"] {
        is_gone(&stage, name).await?;
    }
    stage.kill(running).await
}
