//! A ZTWIM that is deleted without its operands, and a second ZTWIM that adopts them.

use anyhow::Result;
use serde_json::{Value, json};
use trustplane_api::identity::names::{AGENT, SERVER, SINGLETON};
use trustplane_api::identity::{
    CLUSTER_STATIC_ENTRY, SPIFFE_CSI_DRIVER, SPIRE_AGENT, SPIRE_OIDC, SPIRE_SERVER, ZTWIM,
};
use trustplane_plan::kinds::{CONFIG_MAP, DAEMON_SET, STATEFUL_SET};

use crate::denied::{Denied, RULE_1, RULE_3};
use crate::hand::Ask;
use crate::stage::{Stage, record};

/// A finalizer of the test.
const HOLD: &str = "test.trustplane.io/hold";

/// The garbage collector. It heeds a kind up to 30 seconds after it was installed, and what it does not know yet it deletes with an owner that
/// should leave it.
pub struct Collector<'a>(&'a Stage);

impl<'a> Collector<'a> {
    /// Asks it to orphan what belongs to an object of the kind that is installed last.
    pub async fn asked(stage: &'a Stage) -> Result<Self> {
        let entry = json!({
            "spiffeID": "spiffe://example.org/x", "parentID": "spiffe://example.org/y", "selectors": ["a:b"],
        });
        stage.passes(Ask::create(&CLUSTER_STATIC_ENTRY, entry)).await?;
        stage.passes(Ask::delete(&CLUSTER_STATIC_ENTRY, "Orphan")).await?;
        Ok(Self(stage))
    }

    /// Waits until it heeds all kinds, and takes a SpiffeCSIDriver as one more proof.
    pub async fn works(self) -> Result<()> {
        let Self(stage) = self;
        stage.gone(&CLUSTER_STATIC_ENTRY).await?;
        stage.passes(Ask::delete(&SPIFFE_CSI_DRIVER, "Orphan")).await?;
        stage.gone(&SPIFFE_CSI_DRIVER).await
    }
}

fn finalizers(finalizers: &Value) -> Ask {
    Ask::patch(&ZTWIM, json!({ "metadata": { "finalizers": finalizers } }))
}

/// Without an answer of the webhooks, the garbage collector takes the owner references off, and the operands stay. A finalizer of the test
/// keeps ZTWIM.
pub async fn makes_orphans_without_webhooks(stage: &Stage) -> Result<()> {
    stage.passes(finalizers(&json!([HOLD]))).await?;
    stage.passes(Ask::delete(&ZTWIM, "Orphan")).await?;
    stage
        .until(&ZTWIM, SINGLETON, |live| {
            live["metadata"]["finalizers"] == json!([HOLD])
        })
        .await?;
    // An object on its way out is not judged.
    stage.passes(Ask::edit(&ZTWIM, json!({ "logLevel": 3 }))).await?;
    for kind in [SPIRE_SERVER, SPIRE_AGENT, SPIRE_OIDC] {
        let orphan = stage.read(&kind).await?;
        assert_eq!(
            orphan["metadata"]["ownerReferences"],
            Value::Null,
            "{}",
            kind.kind
        );
        assert_eq!(
            orphan["metadata"]["deletionTimestamp"],
            Value::Null,
            "{}",
            kind.kind
        );
    }
    Ok(())
}

/// Orphans serve on and can be edited, but no operand joins them.
pub async fn leaves_operands_that_serve(stage: &Stage) -> Result<()> {
    let denied = |words| {
        let create = Ask::create(&SPIFFE_CSI_DRIVER, json!({}));
        Denied::new(RULE_3, create, "metadata.ownerReferences", &[words])
    };
    let words =
        "ZeroTrustWorkloadIdentityManager/cluster is being deleted; create it again before SpiffeCSIDriver";
    stage.denied(denied(words)).await?;
    stage.passes(finalizers(&Value::Null)).await?;
    stage.gone(&ZTWIM).await?;
    for (kind, name) in [(STATEFUL_SET, SERVER), (DAEMON_SET, AGENT), (CONFIG_MAP, SERVER)] {
        let child = stage.until(&kind, name, |_| true).await?;
        assert_eq!(
            child["metadata"]["deletionTimestamp"],
            Value::Null,
            "{} {name}",
            kind.kind
        );
    }
    let edited = stage
        .passes(Ask::edit(&SPIRE_SERVER, json!({ "logLevel": "debug" })))
        .await?
        .body;
    assert_eq!(edited["spec"]["trustDomain"], "example.org");
    assert_eq!(edited["metadata"]["ownerReferences"], Value::Null);
    let words =
        "ZeroTrustWorkloadIdentityManager/cluster does not exist; create it before SpiffeCSIDriver/cluster";
    stage.denied(denied(words)).await?;
    Ok(())
}

/// Another ZTWIM adopts the operands, and they follow it: also one with another value of its own, once it lets go of it.
pub async fn operands_are_adopted(stage: &Stage) -> Result<()> {
    let past = stage.past_admission()?;
    for (kind, value) in [(SPIRE_AGENT, json!("own")), (SPIRE_SERVER, json!(null))] {
        past.ask(&Ask::edit(&kind, json!({ "clusterName": value })))
            .await?
            .passed()?;
    }
    let second = Ask::create(
        &ZTWIM,
        json!({ "trustDomain": "example.org", "clusterName": "north" }),
    );
    let words = [
        r#"differs from "own", which SpireAgent/cluster has of its own"#,
        "kubectl patch spireagents cluster",
    ];
    let own = Denied::new(RULE_1, second, "spec.clusterName", &words);
    let second = stage.denied_until_obeyed(own).await?.body["metadata"]["uid"].clone();
    for kind in [SPIRE_SERVER, SPIRE_AGENT, SPIRE_OIDC] {
        let adopted = stage.until(&kind, SINGLETON, |live| {
            live["metadata"]["ownerReferences"][0]["uid"] == second
        });
        assert_eq!(
            record(&adopted.await?)["trustDomain"],
            "example.org",
            "{}",
            kind.kind
        );
    }
    for kind in [SPIRE_SERVER, SPIRE_AGENT] {
        stage.follows(&kind, "clusterName", "north").await?;
    }
    Ok(())
}
