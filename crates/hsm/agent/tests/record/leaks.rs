//! No PIN shows in the record or in what an agent prints, and no digest that could be made without the key.

use anyhow::Result;
use aws_lc_rs::digest::{SHA256, digest};
use k8s_openapi::api::core::v1::ConfigMap;
use trustplane_api::hsm::record::{AgentPhase, Outcome, Try};
use trustplane_testkit::canary::{Canary, Search};

use crate::pins::serving;
use crate::stage::{RECORD, Stage};

#[tokio::test]
async fn the_record_and_the_log_hold_no_pin() -> Result<()> {
    let [right, wrong] = ["right PIN", "wrong PIN"].map(Canary::new);
    let stage = Stage::blank(wrong.value()).await?;
    stage.make_token(right.value());
    let agent = stage.agent("pod").await?;
    stage.state(AgentPhase::PinRejected).await?;
    stage.write_secret(right.value()).await?;
    agent.says(&serving()).await;
    stage.state(AgentPhase::Serving).await?;
    let is_accepted = |last: Option<&Try>| last.is_some_and(|tried| tried.outcome == Outcome::Accepted);
    stage.recorded(|record| is_accepted(record.tries.last())).await?;
    let map = stage.sandbox.api::<ConfigMap>().get(RECORD).await?;
    let mut search = Search::for_canaries([&right, &wrong]);
    search.json("the record", &map)?;
    search.text("the log", &agent.log());
    search.assert_clean();
    let text = serde_json::to_string(&map)?;
    assert!(text.contains("rejected") && text.contains("accepted"), "{text}");
    for canary in [&right, &wrong] {
        let bare = digest(&SHA256, canary.value().as_bytes());
        let hex: String = bare.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(!text.contains(&hex), "{text}");
    }
    Ok(())
}
