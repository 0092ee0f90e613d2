//! An agent that is killed between writing a try down and knowing what came of it.

use anyhow::Result;
use trustplane_api::hsm::record::{AgentPhase, Outcome};
use trustplane_hsm_agent::PinProblem;
use trustplane_pkcs11_shim::{Action, Control, Fault};

use crate::agent::Order;
use crate::pins::{refused, serving};
use crate::stage::{PIN, Stage, WRONG, eventually};

/// Has an agent killed while the module holds its login.
async fn killed(stage: &Stage, fault: Fault, order: &Order) -> Result<()> {
    stage.set(Control::fault(fault.of("C_Login")));
    let agent = stage.agent_with(order).await?;
    eventually("the login hangs", || stage.shim.has_failed().unwrap()).await;
    let record = stage.record().await?;
    assert_eq!(record.tries.len(), 1);
    assert_eq!(record.tries[0].outcome, Outcome::Pending);
    agent.kill();
    stage.heal();
    Ok(())
}

#[tokio::test]
async fn a_pin_that_the_token_has_not_seen_is_tried_again_by_the_same_pod_at_once() -> Result<()> {
    let stage = Stage::new(PIN).await?;
    let order = Order::new(&stage, "pod");
    killed(&stage, Fault::before(1, Action::Freeze), &order).await?;
    let agent = stage.agent_with(&order).await?;
    agent.says(&serving()).await;
    assert_eq!(stage.answers("C_Login"), [Some(0)]);
    let record = stage
        .recorded(|record| record.tries[0].outcome == Outcome::Accepted)
        .await?;
    assert_eq!(record.tries.len(), 1);
    Ok(())
}

#[tokio::test]
async fn a_pin_that_the_token_has_not_seen_is_tried_by_another_pod_when_the_first_must_be_gone() -> Result<()>
{
    let stage = Stage::new(PIN).await?;
    let order = Order {
        opening: 5,
        ..Order::new(&stage, "pod-a")
    };
    killed(&stage, Fault::before(1, Action::Freeze), &order).await?;
    let other = Order {
        pod: "pod-b".to_owned(),
        ..order
    };
    let agent = stage.agent_with(&other).await?;
    agent.says("another process may be trying a PIN").await;
    assert!(stage.answers("C_Login").is_empty());
    agent.says(&serving()).await;
    assert_eq!(stage.answers("C_Login"), [Some(0)]);
    Ok(())
}

#[tokio::test]
async fn a_wrong_pin_whose_answer_was_lost_is_never_tried_again() -> Result<()> {
    let stage = Stage::new(WRONG).await?;
    let order = Order::new(&stage, "pod");
    killed(&stage, Fault::after(1, Action::Freeze), &order).await?;
    for _ in 0..2 {
        let agent = stage.agent_with(&order).await?;
        agent.says(&refused(PinProblem::Unanswered)).await;
        let record = stage.state(AgentPhase::PinUnanswered).await?;
        assert_eq!(record.tries[0].outcome, Outcome::Unanswered);
        agent.kill();
    }
    assert!(stage.answers("C_Login").is_empty());
    // Somebody mends it.
    stage.write_secret(PIN).await?;
    let agent = stage.agent_with(&order).await?;
    agent.says(&serving()).await;
    assert_eq!(stage.answers("C_Login"), [Some(0)]);
    Ok(())
}

#[tokio::test]
async fn a_module_that_crashes_in_the_login_has_two_tries_over_all_restarts() -> Result<()> {
    let stage = Stage::new(PIN).await?;
    stage.set(Control::fault(Fault::before(1, Action::Abort).of("C_Login")));
    for _ in 0..3 {
        let agent = stage.agent("pod").await?;
        agent.says(&refused(PinProblem::Unanswered)).await;
        agent.kill();
    }
    assert_eq!(stage.answers("C_Login"), [None, None]);
    Ok(())
}
