//! Webhooks that are dead, slow or not to be trusted.

use std::time::{Duration, Instant};

use anyhow::Result;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use trustplane_api::identity::names::{AGENT, SERVER};
use trustplane_api::identity::{SPIFFE_CSI_DRIVER, SPIRE_AGENT, SPIRE_OIDC, SPIRE_SERVER, ZTWIM};
use trustplane_plan::kinds::{DAEMON_SET, STATEFUL_SET};
use trustplane_testkit::proxy::{Answer, Fault, Match, Proxy, Rule, Verb};
use trustplane_testkit::{DEADLINE, until};

use crate::deletion::{self, Collector};
use crate::hand::Ask;
use crate::impostor::Impostor;
use crate::stage::{MANAGER, Manager, Stage};

/// How long the API server waits for a webhook, and how much longer an answer may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(5);
const SLACK: Duration = Duration::from_secs(4);

#[tokio::test]
async fn dead_webhook_refuses_edits_and_nothing_else() -> Result<()> {
    let stage = Stage::new("outage").await?;
    let proxy = Proxy::start(stage.sandbox.plane()).await?;
    let manager = stage
        .start(&stage.account.instance("first").await?.through(&proxy))
        .await?;
    stage.service.forward_to(manager.address);
    stage.install_webhooks().await?;
    let collector = Collector::asked(&stage).await?;
    stage.apply_quickstart().await?;
    stage.until(&STATEFUL_SET, SERVER, |_| true).await?;
    stage.until(&DAEMON_SET, AGENT, |_| true).await?;
    blind(&stage, &proxy).await?;
    slow(&stage, &manager).await?;

    manager.process.kill().await?;
    refuses_all_edits(&stage, "").await?;
    passes_what_is_not_judged(&stage, "dead").await?;
    untrusted(&stage).await?;
    collector.works().await?;
    refuses(&stage, Ask::create(&SPIFFE_CSI_DRIVER, json!({})), "").await?;
    assert_eq!(stage.hand.read(&SPIFFE_CSI_DRIVER).await?, None);
    deletion::makes_orphans_without_webhooks(&stage).await?;

    // Without the lease of the dead one the next one need not wait for its end.
    stage
        .sandbox
        .api::<Lease>()
        .delete(MANAGER, &DeleteParams::default())
        .await?;
    let second = stage.start(&stage.account.instance("second").await?).await?;
    stage.service.forward_to(second.address);
    passes_again(&stage, "error").await?;
    deletion::leaves_operands_that_serve(&stage).await?;
    deletion::operands_are_adopted(&stage).await?;
    stage.passes(Ask::create(&SPIFFE_CSI_DRIVER, json!({}))).await?;
    stage.assert_nothing_denied().await
}

/// It answers, but cannot read what a request is judged by.
async fn blind(stage: &Stage, proxy: &Proxy) -> Result<()> {
    let reads = Match::verb(Verb::Get).resource(&SPIRE_AGENT.plural);
    proxy.add(Rule::new(reads, Fault::Answer(Answer::internal_error())).once());
    let edit = Ask::edit(&SPIRE_SERVER, json!({ "logLevel": "debug" }));
    refuses(stage, edit, "the objects beside it cannot be read").await
}

/// It takes the connection, but does not answer in time.
async fn slow(stage: &Stage, manager: &Manager) -> Result<()> {
    manager.process.freeze()?;
    // Of this object nothing else changes meanwhile: else the API server would try once more.
    let edit = Ask::edit(&SPIFFE_CSI_DRIVER, json!({ "agentSocketPath": "/run/other" }));
    let begun = Instant::now();
    let (refused, others) = tokio::join!(
        refuses(stage, edit, "context deadline exceeded"),
        passes_what_is_not_judged(stage, "slow"),
    );
    refused?;
    others?;
    let time = begun.elapsed();
    assert!(time >= PATIENCE && time < PATIENCE + SLACK, "{time:?}");
    manager.process.thaw()?;
    // The late answer changes nothing.
    let path = &stage.read(&SPIFFE_CSI_DRIVER).await?["spec"]["agentSocketPath"];
    assert_eq!(path, "/run/spire/agent-sockets");
    passes_again(stage, "warn").await
}

/// A server answers whose certificate is of an authority that the API server does not trust, or has expired.
async fn untrusted(stage: &Stage) -> Result<()> {
    let foreign = Impostor::start(Timestamp::now()).await?;
    stage.service.forward_to(foreign.address);
    refuses_all_edits(stage, "certificate signed by unknown authority").await?;
    let expired = Impostor::start(Timestamp::now() - SignedDuration::from_hours(2)).await?;
    stage.trust(&expired).await?;
    stage.service.forward_to(expired.address);
    let edit = Ask::edit(&SPIRE_AGENT, json!({ "logLevel": "warn" }));
    let told = until(
        "the API server to trust the other authority",
        DEADLINE,
        || async {
            let answer = stage.hand.ask(&edit).await?;
            Ok(answer
                .failed(500)?
                .contains("certificate has expired")
                .then_some(()))
        },
    );
    told.await?;
    refuses_all_edits(stage, "certificate has expired").await?;
    passes_what_is_not_judged(stage, "expired").await
}

/// The request fails because of the webhook, for this reason, and changes nothing.
async fn refuses(stage: &Stage, ask: Ask, why: &str) -> Result<()> {
    let answer = stage.hand.ask(&ask).await?;
    let words = answer.failed(500)?;
    let which = "failed calling webhook \"fill.identity.trustplane.io\"";
    assert!(words.contains(which) && words.contains(why), "{ask}: {words}");
    Ok(())
}

async fn refuses_all_edits(stage: &Stage, why: &str) -> Result<()> {
    for ask in [
        Ask::edit(&ZTWIM, json!({ "clusterName": "refused" })),
        Ask::edit(&SPIRE_SERVER, json!({ "logLevel": "debug" })),
        Ask::edit(&SPIRE_OIDC, json!({ "replicaCount": 2 })),
        Ask::patch(&SPIRE_AGENT, json!({ "metadata": { "ownerReferences": null } })),
        Ask::patch(
            &SPIRE_AGENT,
            json!({ "metadata": { "annotations": { "ztwim.io/inherited": null } } }),
        ),
    ] {
        let before = stage.read(&ask.kind).await?;
        refuses(stage, ask.clone(), why).await?;
        let after = stage.read(&ask.kind).await?;
        assert_eq!(
            after["metadata"]["generation"], before["metadata"]["generation"],
            "{ask}"
        );
        assert_eq!(
            after["metadata"]["ownerReferences"], before["metadata"]["ownerReferences"],
            "{ask}"
        );
    }
    Ok(())
}

/// Status, labels, other annotations, finalizers, and what changes nothing.
async fn passes_what_is_not_judged(stage: &Stage, round: &str) -> Result<()> {
    for kind in [ZTWIM, SPIRE_SERVER, SPIRE_AGENT, SPIRE_OIDC] {
        let condition = json!([{
            "type": "Test", "status": "True", "reason": "Test", "message": round, "lastTransitionTime": "2030-01-01T00:00:00Z",
        }]);
        let metadata = |metadata: Value| Ask::patch(&kind, json!({ "metadata": metadata }));
        for ask in [
            Ask::status(&kind, json!({ "conditions": condition })),
            metadata(json!({ "labels": { "round": round }, "annotations": { "round": round } })),
            metadata(json!({ "finalizers": ["test.trustplane.io/hold"] })),
            metadata(json!({ "finalizers": null })),
            Ask::edit(&kind, json!({})),
        ] {
            stage.passes(ask).await?;
        }
    }
    Ok(())
}

/// Edits pass once the API server has reached whoever answers now.
async fn passes_again(stage: &Stage, level: &str) -> Result<()> {
    let ask = Ask::edit(&SPIRE_SERVER, json!({ "logLevel": level }));
    let passed = until("edits to pass again", DEADLINE, || async {
        let answer = stage.hand.ask(&ask).await?;
        Ok((answer.code == 200).then_some(answer))
    });
    assert_eq!(passed.await?.body["spec"]["logLevel"], level);
    Ok(())
}
