//! The Secret with the PIN: where it is said to be, and what is wrong with it.

use anyhow::Result;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{DeleteParams, PostParams};
use serde_json::json;
use trustplane_api::hsm::record::{AgentPhase, Outcome};
use trustplane_hsm_agent::PinProblem;
use trustplane_pkcs11_shim::pkcs11::CKR_PIN_INCORRECT;
use trustplane_testkit::Sandbox;

use crate::agent::Order;
use crate::pins::{refused, serving};
use crate::stage::{KEY, PIN, SECRET, Stage, WRONG};

#[tokio::test]
async fn the_namespace_of_the_secret_is_honoured() -> Result<()> {
    // In the agent's own namespace there is one of the same name.
    let stage = Stage::new(WRONG).await?;
    let elsewhere = Sandbox::new("hsm-pins").await?;
    let namespace = elsewhere.namespace();
    let post = PostParams::default();
    let secret =
        serde_json::from_value(json!({ "metadata": { "name": SECRET }, "stringData": { KEY: PIN } }))?;
    elsewhere.api::<Secret>().create(&post, &secret).await?;
    let role = serde_json::from_value(json!({ "metadata": { "name": "agent" }, "rules": [{
        "apiGroups": [""], "resources": ["secrets"], "resourceNames": [SECRET], "verbs": ["get", "list", "watch"],
    }] }))?;
    elsewhere.api::<Role>().create(&post, &role).await?;
    let binding = serde_json::from_value(json!({
        "metadata": { "name": "agent" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "agent" },
        "subjects": [{ "kind": "ServiceAccount", "name": "agent", "namespace": stage.sandbox.namespace() }],
    }))?;
    elsewhere.api::<RoleBinding>().create(&post, &binding).await?;
    let order = Order {
        pin: format!("{namespace}/{SECRET}/{KEY}"),
        ..Order::new(&stage, "pod")
    };
    let agent = stage.agent_with(&order).await?;
    agent.says(&serving()).await;
    assert_eq!(stage.answers("C_Login"), [Some(0)]);
    Ok(())
}

#[tokio::test]
async fn a_secret_that_is_missing_or_useless_is_told_and_mended_without_a_restart() -> Result<()> {
    let stage = Stage::new(PIN).await?;
    let secrets = stage.sandbox.api::<Secret>();
    secrets.delete(SECRET, &DeleteParams::default()).await?;
    let agent = stage.agent("pod").await?;
    let missing = |text: &'static str| {
        stage.recorded(move |record| {
            record
                .state
                .as_ref()
                .is_some_and(|state| state.phase == AgentPhase::PinMissing && state.message.contains(text))
        })
    };
    missing("does not exist").await?;
    let secret = serde_json::from_value(json!({ "metadata": { "name": SECRET } }))?;
    secrets.create(&PostParams::default(), &secret).await?;
    missing("the key is not there").await?;
    stage.write_secret("").await?;
    missing("it is empty").await?;
    stage.write_secret(&format!("{PIN}\n\n")).await?;
    missing("a second newline").await?;
    assert!(stage.answers("C_Login").is_empty());
    stage.write_secret(&format!("{PIN}\n")).await?;
    agent.says(&serving()).await;
    Ok(())
}

#[tokio::test]
async fn a_wrong_pin_in_a_secret_that_was_made_anew_is_not_tried_again() -> Result<()> {
    let stage = Stage::new(WRONG).await?;
    let agent = stage.agent("pod").await?;
    stage
        .recorded(|record| {
            record
                .tries
                .iter()
                .any(|tried| tried.outcome == Outcome::Rejected)
        })
        .await?;
    // Also when the token shows no wrong PIN any more, and after a restart.
    stage.change_token(PIN, PIN);
    stage.recreate_secret(WRONG).await?;
    agent.kill();
    let agent = stage.agent("pod").await?;
    agent.says(&refused(PinProblem::Rejected)).await;
    stage.recreate_secret(WRONG).await?;
    // The right one comes after that, and is what is tried next.
    stage.write_secret(PIN).await?;
    agent.says(&serving()).await;
    assert_eq!(stage.answers("C_Login"), [Some(CKR_PIN_INCORRECT), Some(0)]);
    Ok(())
}
