//! The token of the first contact is the only one.

use anyhow::Result;
use trustplane_api::hsm::record::AgentPhase;

use crate::pins::serving;
use crate::stage::{LABEL, PIN, Stage};

#[tokio::test]
async fn the_token_of_the_first_contact_is_written_down_and_another_is_not_tried() -> Result<()> {
    let stage = Stage::new(PIN).await?;
    let agent = stage.agent("pod").await?;
    let record = stage.state(AgentPhase::Serving).await?;
    let token = record.token.unwrap();
    assert_eq!(token.label, LABEL);
    assert!(
        !token.serial.is_empty() && token.model.contains("SoftHSM"),
        "{token:?}"
    );
    assert_eq!(record.tries[0].token, token.serial);
    agent.kill();

    // Another token of the same label, with the same PIN.
    stage.swap();
    stage.make_token(PIN);
    stage.heal();
    let agent = stage.agent("pod").await?;
    let health = agent.says("another token is there").await;
    assert!(
        health.starts_with("Unavailable") && health.contains(&token.serial),
        "{health}"
    );
    stage
        .recorded(|record| {
            let told =
                |state: &trustplane_api::hsm::record::AgentState| state.message.contains("another token");
            record.state.as_ref().is_some_and(told)
        })
        .await?;
    assert!(stage.answers("C_Login").is_empty());
    stage.swap();
    agent.says(&serving()).await;
    Ok(())
}

#[tokio::test]
async fn an_agent_chooses_its_own_token_among_several_with_one_label() -> Result<()> {
    let stage = Stage::new(PIN).await?;
    let agent = stage.agent("pod").await?;
    let token = stage.state(AgentPhase::Serving).await?.token.unwrap();
    agent.kill();
    // Another token with the same label and PIN beside it.
    stage.make_token(PIN);
    let _agent = stage.agent("next").await?;
    let record = stage
        .recorded(|record| {
            let state = record.state.as_ref();
            state.is_some_and(|state| state.phase == AgentPhase::Serving && state.by == "next")
        })
        .await?;
    assert!(record.state.unwrap().message.contains(&token.serial));
    Ok(())
}

#[tokio::test]
async fn an_agent_that_has_met_no_token_chooses_none_of_several_with_one_label() -> Result<()> {
    let stage = Stage::new(PIN).await?;
    stage.make_token(PIN);
    let _agent = stage.agent("pod").await?;
    stage.state(AgentPhase::Unavailable).await?;
    assert!(stage.answers("C_Login").is_empty());
    Ok(())
}
