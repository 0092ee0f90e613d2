//! A blank token is made ours if that is wanted, once.

use anyhow::Result;
use trustplane_api::hsm::record::{AgentPhase, OFFICER as OFFICERS, Outcome, Record};
use trustplane_pkcs11_shim::{Action, Control, Fault};

use crate::agent::Order;
use crate::pins::serving;
use crate::stage::{LABEL, OFFICER, PIN, Stage, eventually};

fn order(stage: &Stage) -> Order {
    Order {
        officer: Some(OFFICER.to_owned()),
        ..Order::new(stage, "pod")
    }
}

fn officers(record: &Record) -> Vec<Outcome> {
    let tries = record.tries.iter().filter(|tried| tried.secret == OFFICERS);
    tries.map(|tried| tried.outcome).collect()
}

#[tokio::test]
async fn a_blank_token_is_left_alone_unless_it_is_wanted() -> Result<()> {
    let stage = Stage::blank(PIN).await?;
    let _agent = stage.agent("pod").await?;
    stage.state(AgentPhase::Unavailable).await?;
    assert!(stage.answers("C_InitToken").is_empty());
    Ok(())
}

#[tokio::test]
async fn a_blank_token_is_told_of_and_left_as_it_is_without_an_so_pin() -> Result<()> {
    let stage = Stage::blank(PIN).await?;
    let waiting = Order {
        officer: Some(String::new()),
        ..order(&stage)
    };
    let agent = stage.agent_with(&waiting).await?;
    stage.state(AgentPhase::SoPinWanted).await?;
    agent.kill();
    assert!(stage.answers("C_InitToken").is_empty() && stage.answers("C_Login").is_empty());
    assert_eq!(stage.record().await?.tries, []);
    // The next pod has one.
    let agent = stage.agent_with(&order(&stage)).await?;
    agent.says(&serving()).await;
    Ok(())
}

#[tokio::test]
async fn an_agent_of_a_token_in_use_wants_no_so_pin() -> Result<()> {
    let stage = Stage::blank(PIN).await?;
    stage.make_token(PIN);
    let waiting = Order {
        officer: Some(String::new()),
        ..order(&stage)
    };
    let agent = stage.agent_with(&waiting).await?;
    agent.says(&serving()).await;
    stage.state(AgentPhase::Serving).await?;
    Ok(())
}

#[tokio::test]
async fn a_blank_token_is_made_ours_once() -> Result<()> {
    let stage = Stage::blank(PIN).await?;
    let agent = stage.agent_with(&order(&stage)).await?;
    agent.says(&serving()).await;
    let record = stage
        .recorded(|record| officers(record) == [Outcome::Accepted] && record.token.is_some())
        .await?;
    assert_eq!(record.token.unwrap().label, LABEL);
    agent.kill();
    let agent = stage.agent_with(&order(&stage)).await?;
    agent.says(&serving()).await;
    agent.kill();
    // The token is gone; there is a blank one, but this agent has had its own.
    stage.swap();
    let _agent = stage.agent_with(&order(&stage)).await?;
    let record = stage.state(AgentPhase::ProvisionSkipped).await?;
    assert!(record.state.unwrap().message.contains("once"));
    assert_eq!(stage.answers("C_InitToken"), [Some(0)]);
    Ok(())
}

#[tokio::test]
async fn what_was_interrupted_is_done_again_with_the_same_officers_pin() -> Result<()> {
    for function in ["C_InitToken", "C_InitPIN"] {
        let stage = Stage::blank(PIN).await?;
        stage.set(Control::fault(Fault::before(1, Action::Freeze).of(function)));
        let agent = stage.agent_with(&order(&stage)).await?;
        eventually("it hangs", || stage.shim.has_failed().unwrap()).await;
        stage.state(AgentPhase::Provisioning).await?;
        assert_eq!(officers(&stage.record().await?), [Outcome::Pending]);
        agent.kill();
        stage.heal();
        let agent = stage.agent_with(&order(&stage)).await?;
        agent.says(&serving()).await;
    }
    Ok(())
}

#[tokio::test]
async fn a_token_in_use_is_not_made_ours() -> Result<()> {
    let stage = Stage::blank(PIN).await?;
    stage.make_token("975310");
    let wanted = Order {
        label: "another".to_owned(),
        ..order(&stage)
    };
    // SoftHSM always has a place for one more token: that one is blank, and is ours; the other is left as it is.
    let agent = stage.agent_with(&wanted).await?;
    agent.says(&serving()).await;
    let logins = stage.answers("C_Login");
    assert!(logins.iter().all(|code| *code == Some(0)), "{logins:?}");
    agent.kill();
    let record = stage.record().await?;
    assert_eq!(record.token.unwrap().label, "another");
    Ok(())
}
