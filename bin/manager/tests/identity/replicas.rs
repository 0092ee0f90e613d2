//! Two replicas: both answer, one writes, and a change that the leader dies in is carried on.

use anyhow::Result;
use serde_json::json;
use trustplane_api::identity::{SPIRE_AGENT, SPIRE_OIDC, SPIRE_SERVER, ZTWIM};
use trustplane_plan::Kind;
use trustplane_testkit::audit::{Audit, Mark};
use trustplane_testkit::proxy::{Fault, Gate, Match, Proxy, Rule, Verb};
use trustplane_testkit::{DEADLINE, Instance};

use crate::hand::Ask;
use crate::stage::{Stage, record};

/// How often an instance has written the fields of an operand, or of ZTWIM.
fn writes(audit: &Audit, of: &Instance, kind: &Kind) -> usize {
    let audit = audit.by(of).of(&kind.plural);
    audit
        .writes()
        .iter()
        .filter(|event| event.subresource().is_empty() && event.succeeded())
        .count()
}

#[tokio::test]
async fn standby_answers_and_carries_on_when_the_leader_dies_in_a_change() -> Result<()> {
    let stage = Stage::new("replicas").await?;
    let proxy = Proxy::start(stage.sandbox.plane()).await?;
    let first = stage.account.instance("first").await?.through(&proxy);
    let second = stage.account.instance("second").await?;
    let leader = stage.start(&first).await?;
    let holds = Match::writes().resource("leases").by(&first);
    proxy.wait_for(&holds, 1, DEADLINE).await?;
    let standby = stage.start(&second).await?;
    let mark = Mark::now(stage.sandbox.plane()).await?;
    // The standby answers every review from here on.
    stage.service.forward_to(standby.address);
    stage.install_webhooks().await?;
    stage.apply_quickstart().await?;
    let oidc = stage.read(&SPIRE_OIDC).await?;
    assert_eq!(record(&oidc)["jwtIssuer"], "https://oidc-discovery.example.org");

    let held = Rule::new(
        Match::verb(Verb::Patch).resource(&SPIRE_AGENT.plural).by(&first),
        Fault::Hold(Gate::default()),
    );
    let change = Mark::now(stage.sandbox.plane()).await?;
    let held = proxy.add(held);
    stage
        .passes(Ask::edit(&ZTWIM, json!({ "clusterName": "west" })))
        .await?;
    stage.follows(&SPIRE_SERVER, "clusterName", "west").await?;
    held.fired(1, DEADLINE).await?;
    mark.since().await?.by(&second).assert_silent();
    leader.process.kill().await?;

    // There is no leader, and edits are answered.
    assert_eq!(stage.read(&SPIRE_AGENT).await?["spec"]["clusterName"], "demo");
    let edited = stage
        .passes(Ask::edit(&SPIRE_OIDC, json!({ "logLevel": "debug" })))
        .await?;
    assert_eq!(edited.warnings, [""; 0]);
    stage.follows(&SPIRE_AGENT, "clusterName", "west").await?;
    stage
        .says(&ZTWIM, "ConfigurationValid", "True", "ConfigurationValid")
        .await?;
    let same =
        json!({ "trustDomain": "example.org", "clusterName": "west", "bundleConfigMap": "spire-bundle" });
    for kind in [SPIRE_SERVER, SPIRE_AGENT] {
        assert_eq!(record(&stage.read(&kind).await?), same, "{}", kind.kind);
    }
    let audit = change.since().await?;
    let story = audit.by_account(&stage.account).story();
    let by =
        |instance| [ZTWIM, SPIRE_SERVER, SPIRE_AGENT, SPIRE_OIDC].map(|kind| writes(&audit, instance, &kind));
    assert_eq!((by(&first), by(&second)), ([0, 1, 0, 0], [0, 0, 1, 0]), "{story}");
    standby.process.kill().await?;
    stage.assert_nothing_denied().await
}
