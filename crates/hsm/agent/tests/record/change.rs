//! The PIN is changed, and the agent is killed wherever that can happen: each PIN is tried once at most.

use anyhow::Result;
use trustplane_api::hsm::record::{AgentPhase, Outcome, Record};
use trustplane_hsm_agent::PinProblem;
use trustplane_pkcs11_shim::pkcs11::CKR_PIN_INCORRECT;
use trustplane_pkcs11_shim::{Action, Control, Fault};
use trustplane_testkit::proxy::{Fault as Cut, Match, Proxy, Rule, Verb};

use crate::agent::{Agent, Order};
use crate::pins::{refused, serving};
use crate::stage::{NEW, PIN, Stage, eventually};

fn outcomes(record: &Record) -> Vec<Outcome> {
    record.tries.iter().map(|tried| tried.outcome).collect()
}

/// An agent that serves, and a record that says so.
async fn serves(stage: &Stage) -> Result<Agent> {
    let agent = stage.agent("pod").await?;
    agent.says(&serving()).await;
    stage
        .recorded(|record| outcomes(record).last() == Some(&Outcome::Accepted))
        .await?;
    stage.heal();
    Ok(agent)
}

#[tokio::test]
async fn a_pin_that_was_changed_is_not_tried_by_who_starts_next() -> Result<()> {
    let stage = Stage::new(PIN).await?;
    let mut agent = serves(&stage).await?;
    agent.change_pin(PIN, NEW);
    agent.answers("Ok").await;
    // Whoever was answered can rely on the record.
    let record = stage.record().await?;
    assert_eq!(outcomes(&record), [Outcome::Replaced, Outcome::Accepted]);
    agent.kill();
    let agent = stage.agent("pod").await?;
    agent.says(&refused(PinProblem::Rejected)).await;
    assert!(stage.answers("C_Login").is_empty());
    stage.write_secret(NEW).await?;
    agent.says(&serving()).await;
    assert_eq!(stage.answers("C_Login"), [Some(0)]);
    Ok(())
}

#[tokio::test]
async fn a_pin_that_was_changed_there_and_back_opens_the_token() -> Result<()> {
    let stage = Stage::new(PIN).await?;
    let mut agent = serves(&stage).await?;
    for (old, new) in [(PIN, NEW), (NEW, PIN)] {
        agent.change_pin(old, new);
        agent.answers("Ok").await;
    }
    agent.kill();
    let agent = stage.agent("pod").await?;
    agent.says(&serving()).await;
    assert_eq!(stage.answers("C_Login"), [Some(0)]);
    Ok(())
}

#[tokio::test]
async fn a_pin_that_was_tried_too_early_opens_the_token_once_it_is_changed() -> Result<()> {
    let stage = Stage::new(NEW).await?;
    let mut agent = stage.agent("pod").await?;
    agent.says(&refused(PinProblem::Rejected)).await;
    stage.write_secret(PIN).await?;
    agent.says(&serving()).await;
    agent.change_pin(PIN, NEW);
    agent.answers("Ok").await;
    stage.write_secret(NEW).await?;
    agent.kill();
    let agent = stage.agent("pod").await?;
    agent.says(&serving()).await;
    let logins = [Some(CKR_PIN_INCORRECT), Some(0), Some(0)];
    assert_eq!(stage.answers("C_Login"), logins);
    Ok(())
}

/// Has an agent killed while the module holds the change.
async fn killed(stage: &Stage, fault: Fault) -> Result<()> {
    let mut agent = serves(stage).await?;
    stage.set(Control::fault(fault.of("C_SetPIN")));
    agent.change_pin(PIN, NEW);
    eventually("the change hangs", || stage.shim.has_failed().unwrap()).await;
    let record = stage.record().await?;
    assert_eq!(outcomes(&record), [Outcome::Changing, Outcome::Changing]);
    agent.kill();
    stage.heal();
    Ok(())
}

#[tokio::test]
async fn after_a_change_that_the_token_has_not_seen_the_old_pin_has_one_try() -> Result<()> {
    let stage = Stage::new(PIN).await?;
    killed(&stage, Fault::before(1, Action::Freeze)).await?;
    let agent = stage.agent("pod").await?;
    agent.says(&serving()).await;
    stage
        .recorded(|record| outcomes(record) == [Outcome::Replaced, Outcome::Accepted])
        .await?;
    // The other one is known not to be it.
    stage.write_secret(NEW).await?;
    agent.kill();
    let agent = stage.agent("pod").await?;
    agent.says(&refused(PinProblem::Rejected)).await;
    assert_eq!(stage.answers("C_Login"), [Some(0)]);
    Ok(())
}

#[tokio::test]
async fn after_a_change_whose_answer_was_lost_each_pin_has_one_try() -> Result<()> {
    let stage = Stage::new(PIN).await?;
    killed(&stage, Fault::after(1, Action::Freeze)).await?;
    for _ in 0..2 {
        let agent = stage.agent("pod").await?;
        agent.says(&refused(PinProblem::Rejected)).await;
        stage
            .recorded(|record| outcomes(record) == [Outcome::Changing, Outcome::Rejected])
            .await?;
        agent.kill();
    }
    stage.write_secret(NEW).await?;
    let agent = stage.agent("pod").await?;
    agent.says(&serving()).await;
    assert_eq!(stage.answers("C_Login"), [Some(CKR_PIN_INCORRECT), Some(0)]);
    Ok(())
}

#[tokio::test]
async fn a_module_that_crashes_in_a_change_leaves_each_pin_one_try_without_a_restart() -> Result<()> {
    let stage = Stage::new(PIN).await?;
    let mut agent = serves(&stage).await?;
    stage.set(Control::fault(Fault::after(1, Action::Abort).of("C_SetPIN")));
    agent.change_pin(PIN, NEW);
    agent.answers("Unknown").await;
    agent.says(&refused(PinProblem::Rejected)).await;
    stage.write_secret(NEW).await?;
    agent.says(&serving()).await;
    assert_eq!(stage.answers("C_Login"), [Some(CKR_PIN_INCORRECT), Some(0)]);
    Ok(())
}

#[tokio::test]
async fn without_the_record_the_pin_is_not_changed() -> Result<()> {
    let stage = Stage::new(PIN).await?;
    let proxy = Proxy::start(stage.sandbox.plane()).await?;
    let instance = stage.account.instance("agent").await?.through(&proxy);
    let mut agent = Agent::start(&stage, &instance, &Order::new(&stage, "pod"))?;
    agent.says(&serving()).await;
    stage
        .recorded(|record| outcomes(record) == [Outcome::Accepted])
        .await?;
    let away = proxy.add(Rule::new(Match::any().resource("configmaps"), Cut::Cut));
    agent.change_pin(PIN, NEW);
    agent.answers("so the PIN is not changed").await;
    assert!(stage.answers("C_SetPIN").is_empty());
    away.end();
    agent.change_pin(PIN, NEW);
    agent.answers("Ok").await;
    Ok(())
}

#[tokio::test]
async fn what_a_change_has_left_is_written_as_soon_as_that_is_possible() -> Result<()> {
    let stage = Stage::new(PIN).await?;
    let proxy = Proxy::start(stage.sandbox.plane()).await?;
    let instance = stage.account.instance("agent").await?.through(&proxy);
    let mut agent = Agent::start(&stage, &instance, &Order::new(&stage, "pod"))?;
    agent.says(&serving()).await;
    stage
        .recorded(|record| outcomes(record) == [Outcome::Accepted])
        .await?;
    stage.state(AgentPhase::Serving).await?;
    // The first write says that it begins.
    let patch = Match::verb(Verb::Patch).resource("configmaps");
    let away = proxy.add(Rule::new(patch, Cut::Cut).skip(1));
    agent.change_pin(PIN, NEW);
    // The PIN is changed, and that is what is answered.
    agent.answers("Ok").await;
    let record = stage.record().await?;
    assert_eq!(outcomes(&record), [Outcome::Changing, Outcome::Changing]);
    away.end();
    stage
        .recorded(|record| outcomes(record) == [Outcome::Replaced, Outcome::Accepted])
        .await?;
    Ok(())
}
