//! Without the API server nothing new is tried, and what is known to be right goes on.

use anyhow::Result;
use k8s_openapi::api::core::v1::ConfigMap;
use trustplane_api::hsm::record::{AgentPhase, Outcome};
use trustplane_hsm_agent::PinProblem;
use trustplane_testkit::proxy::{Fault, Match, Proxy, Rule, Verb};

use crate::agent::{Agent, Order};
use crate::pins::{refused, serving};
use crate::stage::{PIN, RECORD, Stage, eventually};

async fn behind(proxy: &Proxy, stage: &Stage) -> Result<Agent> {
    let instance = stage.account.instance("agent").await?.through(proxy);
    Agent::start(stage, &instance, &Order::new(stage, "pod"))
}

#[tokio::test]
async fn without_the_api_server_at_the_start_nothing_is_tried() -> Result<()> {
    let stage = Stage::new(PIN).await?;
    let proxy = Proxy::start(stage.sandbox.plane()).await?;
    let away = proxy.add(Rule::new(Match::any(), Fault::Cut));
    let agent = behind(&proxy, &stage).await?;
    let health = agent.says(&refused(PinProblem::Missing)).await;
    assert!(health.contains("cannot be read now"), "{health}");
    assert!(stage.answers("C_Login").is_empty());
    away.end();
    agent.says(&serving()).await;
    Ok(())
}

#[tokio::test]
async fn without_the_record_nothing_is_tried() -> Result<()> {
    let stage = Stage::new(PIN).await?;
    let proxy = Proxy::start(stage.sandbox.plane()).await?;
    for verb in [Verb::Get, Verb::Patch] {
        let away = proxy.add(Rule::new(Match::verb(verb).resource("configmaps"), Fault::Cut));
        let agent = behind(&proxy, &stage).await?;
        agent.says("the record cannot be reached").await;
        assert!(stage.answers("C_Login").is_empty());
        away.end();
        agent.says(&serving()).await;
        agent.kill();
        stage.heal();
    }
    Ok(())
}

#[tokio::test]
async fn a_pin_that_was_accepted_is_used_again_without_the_api_server() -> Result<()> {
    let stage = Stage::new(PIN).await?;
    let proxy = Proxy::start(stage.sandbox.plane()).await?;
    let agent = behind(&proxy, &stage).await?;
    stage.state(AgentPhase::Serving).await?;
    proxy.add(Rule::new(Match::any(), Fault::Cut));
    proxy.cut_all();
    stage.heal();
    agent.kill_module();
    agent.says(&format!("{} starts=2", serving())).await;
    assert_eq!(stage.answers("C_Login"), [Some(0)]);
    Ok(())
}

#[tokio::test]
async fn a_write_whose_answer_is_lost_costs_no_try_and_no_second_one() -> Result<()> {
    let stage = Stage::new(PIN).await?;
    let proxy = Proxy::start(stage.sandbox.plane()).await?;
    let patch = Match::verb(Verb::Patch).resource("configmaps");
    // The state is written first; then comes the try.
    let lost = proxy.add(Rule::new(patch, Fault::CutAnswer).times(3));
    let agent = behind(&proxy, &stage).await?;
    lost.fired(3, trustplane_testkit::DEADLINE).await?;
    agent.says(&serving()).await;
    assert_eq!(stage.answers("C_Login"), [Some(0)]);
    Ok(())
}

#[tokio::test]
async fn at_rest_nothing_is_written() -> Result<()> {
    let stage = Stage::new(PIN).await?;
    let agent = stage.agent("pod").await?;
    agent.says(&serving()).await;
    stage.state(AgentPhase::Serving).await?;
    stage
        .recorded(|record| record.tries[0].outcome == Outcome::Accepted)
        .await?;
    let maps = stage.sandbox.api::<ConfigMap>();
    let before = maps.get(RECORD).await?.metadata.resource_version;
    stage.heal();
    eventually("the token is looked at again and again", || {
        stage.answers("C_GetTokenInfo").len() > 5
    })
    .await;
    assert_eq!(maps.get(RECORD).await?.metadata.resource_version, before);
    Ok(())
}
