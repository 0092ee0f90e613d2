//! Two names for one token: one of them has an agent.

use anyhow::Result;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use trustplane_api::hsm::HsmPool;
use trustplane_api::hsm::conditions;

use crate::nodes::Silent;
use crate::quiet::looked_at;
use crate::stage::{Stage, device, fixed, remove_device};

/// What an agent writes down of the token that it has met.
async fn meets(stage: &Stage, agent: &str, serial: &str) -> Result<()> {
    stage.there::<ConfigMap>(agent).await?;
    let token = json!({
        "serial": serial, "label": "one", "manufacturer": "Maker", "model": "Box 5", "firmware": "1.0", "reader": "",
    });
    stage.record(agent, json!({ "token": token.to_string() })).await
}

#[tokio::test]
async fn two_devices_that_name_one_token_are_in_conflict_and_the_younger_does_not_serve_it() -> Result<()> {
    let mut stage = Stage::new("same").await?;
    let looks = stage.count_looks();
    let (_, running) = stage.start("first").await?;
    let one = || fixed(json!([{ "name": "one", "tokenLabel": "one" }]));
    // Made within a second of each other, so their names decide.
    for name in ["a", "b"] {
        device(&stage.sandbox, name, one()).await?;
        stage
            .there::<Deployment>(&format!("hsm-agent-{name}-one"))
            .await?;
    }
    meets(&stage, "hsm-agent-a-one", "42").await?;
    meets(&stage, "hsm-agent-b-one", "42").await?;
    let first = format!("{}/a", stage.sandbox.namespace());
    stage.told("b", conditions::CONFLICT, &first).await?;
    stage.gone::<Deployment>("hsm-agent-b-one").await?;
    let served = stage.api::<Deployment>().get("hsm-agent-a-one").await?;
    assert_eq!(served.metadata.deletion_timestamp, None);
    let pool = stage
        .pool("b-pool", |status| status.available_devices == 0)
        .await?;
    let claimed = &pool.aggregated_devices[0].device_info;
    assert_eq!(claimed.get("claimed-by"), Some(&first));
    // What it has met is known as before, so it does not come back before the other one has gone.
    stage.api::<ConfigMap>().get("hsm-agent-b-one").await?;
    // Nor before its pod has ended, which goes on for a while, as one whose node does not answer.
    let pod = Silent::runs(&stage, "hsm-agent-a-one").await?;
    remove_device(&stage.sandbox, "a").await?;
    stage.gone::<HsmPool>("a-pool").await?;
    stage.gone::<Deployment>("hsm-agent-a-one").await?;
    looked_at(&looks, 30).await?;
    assert!(
        stage
            .api::<Deployment>()
            .get_opt("hsm-agent-b-one")
            .await?
            .is_none()
    );
    pod.ends().await?;
    stage.there::<Deployment>("hsm-agent-b-one").await?;
    stage.kill(running).await
}
