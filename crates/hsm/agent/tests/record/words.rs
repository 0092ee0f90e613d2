//! What a person allows, and what is tried without a word of one.

use anyhow::Result;
use trustplane_api::hsm::record::{AgentPhase, Outcome, Try};
use trustplane_hsm_agent::PinProblem;
use trustplane_pkcs11_shim::pkcs11::{CKR_DEVICE_REMOVED, CKR_PIN_INCORRECT};
use trustplane_pkcs11_shim::{Action, Control, Duration as Lasting, Fault};

use crate::agent::Order;
use crate::pins::{refused, serving};
use crate::stage::{PIN, Stage, WRONG, eventually};

#[tokio::test]
async fn each_new_text_allows_one_more_try() -> Result<()> {
    let stage = Stage::new(WRONG).await?;
    let agent = stage.agent("pod").await?;
    agent.says(&refused(PinProblem::Rejected)).await;
    // While the token shows a wrong PIN, nothing is tried on anybody's word.
    stage.allow("once more").await?;
    agent.says(&refused(PinProblem::TriesLow)).await;
    assert_eq!(stage.wrong_tries(), 1);
    stage.change_token(PIN, PIN);
    agent.says(&refused(PinProblem::Rejected)).await;
    assert_eq!(stage.wrong_tries(), 2);
    stage
        .recorded(|record| record.tries[0].outcome == Outcome::Rejected)
        .await?;
    agent.kill();
    // The same text allows nothing more; another one does.
    stage.change_token(PIN, PIN);
    let agent = stage.agent("pod").await?;
    agent.says(&refused(PinProblem::Rejected)).await;
    assert_eq!(stage.wrong_tries(), 2);
    stage.allow("and again").await?;
    eventually("it is tried", || stage.wrong_tries() == 3).await;
    Ok(())
}

#[tokio::test]
async fn a_pin_that_was_reset_on_the_token_is_tried_on_somebodys_word() -> Result<()> {
    let stage = Stage::new(WRONG).await?;
    let agent = stage.agent("pod").await?;
    agent.says(&refused(PinProblem::Rejected)).await;
    stage.change_token(PIN, WRONG);
    stage.allow("it is right now").await?;
    agent.says(&serving()).await;
    assert_eq!(stage.answers("C_Login"), [Some(CKR_PIN_INCORRECT), Some(0)]);
    Ok(())
}

#[tokio::test]
async fn a_pin_without_an_answer_is_tried_on_somebodys_word() -> Result<()> {
    let stage = Stage::new(PIN).await?;
    stage.set(Control::fault(Fault::before(1, Action::Abort).of("C_Login")));
    let agent = stage.agent("pod").await?;
    let health = agent.says(&refused(PinProblem::Unanswered)).await;
    assert!(health.contains("trustplane.io/try-again"), "{health}");
    stage.state(AgentPhase::PinUnanswered).await?;
    stage.heal();
    stage.allow("I have looked").await?;
    agent.says(&serving()).await;
    assert_eq!(stage.answers("C_Login"), [Some(0)]);
    Ok(())
}

#[tokio::test]
async fn a_pin_that_has_opened_the_token_survives_crashes_in_the_login() -> Result<()> {
    let stage = Stage::new(PIN).await?;
    let agent = stage.agent("pod").await?;
    agent.says(&serving()).await;
    stage
        .recorded(|record| record.tries[0].outcome == Outcome::Accepted)
        .await?;
    agent.kill();
    stage.set(Control::fault(Fault::before(1, Action::Abort).of("C_Login")));
    for starts in 1..4 {
        let agent = stage.agent("pod").await?;
        agent.says("starts=4").await;
        assert!(stage.answers("C_Login").len() >= 3 * starts);
        agent.kill();
    }
    stage.heal();
    let agent = stage.agent("pod").await?;
    agent.says(&serving()).await;
    assert_eq!(stage.answers("C_Login"), [Some(0)]);
    Ok(())
}

#[tokio::test]
async fn a_token_that_is_lost_right_before_the_login_costs_no_try() -> Result<()> {
    let stage = Stage::new(PIN).await?;
    let mut last = String::new();
    // Its two places are looked at to find it; then it is asked once when it is opened, and once more before C_Login.
    for at in [3, 4, 3, 4] {
        let gone = Fault::before(at, Action::Answer(CKR_DEVICE_REMOVED)).lasting(Lasting::Always);
        stage.set(Control::fault(gone.of("C_GetTokenInfo")));
        let agent = stage.agent("pod").await?;
        eventually("it is lost", || stage.shim.has_failed().unwrap()).await;
        let is_back = |tried: &Try| tried.by != last && tried.outcome == Outcome::Withdrawn;
        let record = stage.recorded(|record| record.tries.iter().any(is_back)).await?;
        last = record.tries[0].by.clone();
        assert!(stage.answers("C_Login").is_empty());
        agent.kill();
    }
    stage.heal();
    let agent = stage.agent("pod").await?;
    agent.says(&serving()).await;
    assert_eq!(stage.answers("C_Login"), [Some(0)]);
    Ok(())
}

#[tokio::test]
async fn with_another_key_nothing_is_tried_beside_what_was_refused() -> Result<()> {
    let stage = Stage::new(WRONG).await?;
    let agent = stage.agent("pod").await?;
    agent.says(&refused(PinProblem::Rejected)).await;
    stage.state(AgentPhase::PinRejected).await?;
    agent.kill();
    stage.change_token(PIN, PIN);
    let order = Order {
        key: 8,
        ..Order::new(&stage, "pod")
    };
    let agent = stage.agent_with(&order).await?;
    agent.says(&refused(PinProblem::KeyLost)).await;
    let record = stage.state(AgentPhase::PinKeyLost).await?;
    let message = record.state.unwrap().message;
    assert!(message.contains("trustplane.io/try-again"), "{message}");
    assert_eq!(stage.wrong_tries(), 1);
    stage.write_secret(PIN).await?;
    stage.allow("this is the right one").await?;
    agent.says(&serving()).await;
    assert_eq!(stage.answers("C_Login"), [Some(CKR_PIN_INCORRECT), Some(0)]);
    Ok(())
}
