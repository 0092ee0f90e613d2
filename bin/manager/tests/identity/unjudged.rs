//! Values that got past admission: the controller judges them again.

use anyhow::Result;
use serde_json::{Value, json};
use trustplane_api::identity::names::{AGENT, SERVER, SINGLETON};
use trustplane_api::identity::{SPIRE_AGENT, SPIRE_SERVER, ZTWIM};
use trustplane_plan::Kind;
use trustplane_plan::kinds::{CONFIG_MAP, DAEMON_SET, STATEFUL_SET};
use trustplane_testkit::{DEADLINE, until};

use crate::hand::Ask;
use crate::stage::{Stage, is_told};

const CHILDREN: [(Kind, &str); 4] = [
    (STATEFUL_SET, SERVER),
    (CONFIG_MAP, SERVER),
    (DAEMON_SET, AGENT),
    (CONFIG_MAP, AGENT),
];

async fn versions(stage: &Stage) -> Result<Vec<Value>> {
    let mut versions = Vec::new();
    for (kind, name) in CHILDREN {
        let child = stage.until(&kind, name, |_| true).await?;
        versions.push(child["metadata"]["resourceVersion"].clone());
    }
    Ok(versions)
}

/// Without webhooks, wrong values make conditions.
pub async fn values_change_nothing_that_runs(stage: &Stage) -> Result<()> {
    for kind in [SPIRE_SERVER, SPIRE_AGENT] {
        stage
            .until(&kind, SINGLETON, |live| {
                is_told(live, "ConfigurationValid", "True")
            })
            .await?;
    }
    let before = versions(stage).await?;
    stage.remove_webhooks().await?;
    // The API server learns of it by a watch of its own.
    let short = Ask::edit(&SPIRE_SERVER, json!({ "caValidity": "30m" }));
    until("the webhooks to be out of force", DEADLINE, || async {
        Ok((stage.hand.ask(&short).await?.code == 200).then_some(()))
    })
    .await?;
    stage
        .passes(Ask::edit(&SPIRE_AGENT, json!({ "trustDomain": "own.org" })))
        .await?;
    let message = stage
        .says(
            &SPIRE_SERVER,
            "TTLConfigurationValid",
            "False",
            "TTLValidationFailed",
        )
        .await?;
    let words = "must not be shorter than spec.defaultX509Validity (1h), but is 30m";
    assert!(message.contains(words), "{message}");
    for kind in [ZTWIM, SPIRE_AGENT, SPIRE_SERVER] {
        let message = stage
            .says(&kind, "ConfigurationValid", "False", "ConfigurationConflict")
            .await?;
        let words = r#""example.org" of ZeroTrustWorkloadIdentityManager/cluster differs from "own.org", which SpireAgent"#;
        assert!(message.contains(words), "{message}");
    }
    assert_eq!(versions(stage).await?, before, "of {CHILDREN:?}");
    Ok(())
}
