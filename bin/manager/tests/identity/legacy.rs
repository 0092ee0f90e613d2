//! Objects as an installation without webhooks leaves them: the values are in the operands.

use anyhow::Result;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use serde_json::{Value, json};
use trustplane_api::identity::names::SINGLETON;
use trustplane_api::identity::{SPIRE_AGENT, SPIRE_OIDC, SPIRE_SERVER, ZTWIM};
use trustplane_testkit::{DEADLINE, Select, eventually};

use crate::denied::{Denied, RULE_3};
use crate::hand::Ask;
use crate::stage::{Stage, record};

/// ZTWIM has no value, and gets that of the first operand.
pub async fn operands_have_a_value_first(stage: &Stage) -> Result<()> {
    let past = stage.past_admission()?;
    past.ask(&Ask::edit(&ZTWIM, json!({ "trustDomain": null })))
        .await?
        .passed()?;
    let server = |spec| Ask::create(&SPIRE_SERVER, spec);
    let required = ["TrustDomain required in ZTWIM"];
    stage
        .denied(Denied::new(
            RULE_3,
            server(json!({})),
            "spec.trustDomain",
            &required,
        ))
        .await?;
    let spec = json!({ "trustDomain": "first.io", "jwtIssuer": "https://a.io" });
    let first = stage.passes(server(spec)).await?;
    let what = r#"spec.trustDomain "first.io" of SpireServer/cluster"#;
    let initializing = format!("Initializing ZTWIM from operand config: {what}");
    let consider = format!("Consider moving to ZTWIM: {what}");
    assert_eq!(first.warnings, [&*initializing, &consider]);
    assert_eq!(
        record(&first.body)["trustDomain"],
        Value::Null,
        "a copied value is not inherited"
    );
    stage
        .until(&ZTWIM, SINGLETON, |live| {
            live["spec"]["trustDomain"] == "first.io"
        })
        .await?;
    // Events about objects without a namespace.
    let events: Api<Event> = Api::namespaced(stage.sandbox.client(), "default");
    let all = Select::default();
    let told = eventually(&events, &all, DEADLINE, |found| {
        let notes = found.values().filter_map(|event| event.note.clone());
        let mut notes: Vec<_> = notes.filter(|note| note.ends_with(what)).collect();
        notes.sort();
        (notes.len() > 1).then_some(notes)
    });
    assert_eq!(told.await?, [consider, initializing]);
    Ok(())
}

/// ZTWIM has no value, and its operands have different ones.
pub async fn operands_disagree(stage: &Stage) -> Result<()> {
    stage.remove(&SPIRE_OIDC).await?;
    let past = stage.past_admission()?;
    for (kind, value) in [(SPIRE_SERVER, "x.io"), (SPIRE_AGENT, "y.io")] {
        past.ask(&Ask::edit(&kind, json!({ "trustDomain": value })))
            .await?
            .passed()?;
    }
    past.ask(&Ask::edit(&ZTWIM, json!({ "trustDomain": null })))
        .await?
        .passed()?;
    let message = stage
        .says(&ZTWIM, "ConfigurationValid", "False", "ConfigurationConflict")
        .await?;
    let both = r#"SpireServer/cluster has "x.io", SpireAgent/cluster has "y.io""#;
    assert!(message.contains(both), "{message}");
    let third = Denied::new(
        RULE_3,
        Ask::create(&SPIRE_OIDC, json!({ "trustDomain": "z.io" })),
        "spec.trustDomain",
        &[
            "ZeroTrustWorkloadIdentityManager/cluster has no trustDomain, and the operands disagree: ",
            &format!(r#"{both}, SpireOIDCDiscoveryProvider/cluster has "z.io""#),
        ],
    );
    stage.denied_until_obeyed(third).await?;
    for kind in [SPIRE_SERVER, SPIRE_AGENT] {
        stage.follows(&kind, "trustDomain", "z.io").await?;
    }
    Ok(())
}
