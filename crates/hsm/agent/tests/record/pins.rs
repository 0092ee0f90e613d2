//! Each PIN is tried once: across restarts, and by whichever of several agents.

use anyhow::Result;
use trustplane_api::hsm::record::{AgentPhase, Outcome, Record};
use trustplane_hsm_agent::{Phase, PinProblem};
use trustplane_pkcs11_shim::pkcs11::CKR_PIN_INCORRECT;
use trustplane_pkcs11_shim::{Control, PinTries};

use crate::stage::{PIN, Stage, WRONG};

pub fn refused(problem: PinProblem) -> String {
    format!("{:?}", Phase::PinRefused(problem))
}

pub fn serving() -> String {
    format!("{:?}", Phase::Serving)
}

#[tokio::test]
async fn a_wrong_pin_is_tried_once_over_five_restarts() -> Result<()> {
    let stage = Stage::new(WRONG).await?;
    for start in 0..6 {
        // The same pod, and then another one.
        let agent = stage.agent(&format!("pod-{}", start / 3)).await?;
        agent.says(&refused(PinProblem::Rejected)).await;
        // What was written stays: a restart is no news.
        let record = stage.state(AgentPhase::PinRejected).await?;
        if start == 0 {
            stage
                .recorded(|record| record.tries[0].outcome == Outcome::Rejected)
                .await?;
        } else {
            assert_eq!(record.tries[0].outcome, Outcome::Rejected);
        }
        agent.kill();
    }
    let record = stage.state(AgentPhase::PinRejected).await?;
    assert_eq!(record.tries.len(), 1, "{record:?}");
    assert_eq!(stage.answers("C_Login"), [Some(CKR_PIN_INCORRECT)]);
    Ok(())
}

#[tokio::test]
async fn a_secret_that_was_mended_opens_the_token_with_one_try() -> Result<()> {
    let stage = Stage::new(WRONG).await?;
    let agent = stage.agent("pod").await?;
    stage.state(AgentPhase::PinRejected).await?;
    stage.write_secret(PIN).await?;
    agent.says(&serving()).await;
    assert_eq!(stage.answers("C_Login"), [Some(CKR_PIN_INCORRECT), Some(0)]);
    stage.state(AgentPhase::Serving).await?;
    let outcomes =
        |record: &Record| -> Vec<Outcome> { record.tries.iter().map(|tried| tried.outcome).collect() };
    stage
        .recorded(|record| outcomes(record) == [Outcome::Rejected, Outcome::Accepted])
        .await?;
    // Back to the wrong one: whoever starts now knows it.
    stage.write_secret(WRONG).await?;
    agent.kill();
    let agent = stage.agent("pod").await?;
    agent.says(&refused(PinProblem::Rejected)).await;
    assert_eq!(stage.wrong_tries(), 1);
    Ok(())
}

#[tokio::test]
async fn a_secret_that_is_mended_while_no_agent_runs_opens_the_token() -> Result<()> {
    let stage = Stage::new(WRONG).await?;
    let agent = stage.agent("pod-a").await?;
    stage
        .recorded(|record| {
            record
                .tries
                .iter()
                .any(|tried| tried.outcome == Outcome::Rejected)
        })
        .await?;
    agent.kill();
    stage.write_secret(PIN).await?;
    let agent = stage.agent("pod-b").await?;
    agent.says(&serving()).await;
    assert_eq!(stage.answers("C_Login"), [Some(CKR_PIN_INCORRECT), Some(0)]);
    Ok(())
}

#[tokio::test]
async fn two_agents_side_by_side_try_a_wrong_pin_once() -> Result<()> {
    let stage = Stage::new(WRONG).await?;
    let agents = [stage.agent("pod-a").await?, stage.agent("pod-b").await?];
    for agent in &agents {
        agent.says(&refused(PinProblem::Rejected)).await;
    }
    assert_eq!(stage.answers("C_Login"), [Some(CKR_PIN_INCORRECT)]);
    Ok(())
}

#[tokio::test]
async fn two_agents_side_by_side_serve_with_a_right_pin() -> Result<()> {
    let stage = Stage::new(PIN).await?;
    let agents = [stage.agent("pod-a").await?, stage.agent("pod-b").await?];
    for agent in &agents {
        agent.says(&serving()).await;
    }
    assert_eq!(stage.answers("C_Login"), [Some(0), Some(0)]);
    Ok(())
}

#[tokio::test]
async fn at_low_count_nothing_is_tried_until_it_has_passed() -> Result<()> {
    for tries in [PinTries::Low, PinTries::Final] {
        let stage = Stage::new(PIN).await?;
        stage.set(Control {
            pin_tries: Some(tries),
            ..Control::default()
        });
        let agent = stage.agent("pod").await?;
        stage.state(AgentPhase::PinLow).await?;
        assert!(stage.answers("C_Login").is_empty());
        stage.heal();
        agent.says(&serving()).await;
    }
    let stage = Stage::new(PIN).await?;
    stage.set(Control {
        pin_tries: Some(PinTries::Locked),
        ..Control::default()
    });
    let _agent = stage.agent("pod").await?;
    stage.state(AgentPhase::PinLocked).await?;
    assert!(stage.answers("C_Login").is_empty());
    Ok(())
}
