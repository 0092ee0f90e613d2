//! Values that only operands have, and values that differ: nothing that runs rests on a guess.

use anyhow::Result;
use serde_json::json;
use trustplane_api::identity::{SPIFFE_CSI_DRIVER, SPIRE_AGENT, SPIRE_OIDC, SPIRE_SERVER, ZTWIM, names};
use trustplane_plan::kinds::{CONFIG_MAP, DAEMON_SET};

use crate::stage::Stage;

const VALID: &str = "ConfigurationValid";
const CONFLICT: &str = "ConfigurationConflict";

#[tokio::test]
async fn ztwim_gets_values_once_the_operands_agree_on_them() -> Result<()> {
    let stage = Stage::new("agree").await?;
    let _running = stage.start("first").await?;
    stage.apply(&ZTWIM, json!({})).await?;
    let of_server = json!({
        "trustDomain": "one.example", "clusterName": "old", "jwtIssuer": "https://issuer.one.example",
    });
    stage.apply(&SPIRE_SERVER, of_server.clone()).await?;
    stage
        .until(&ZTWIM, "cluster", |live| live["spec"]["clusterName"] == "old")
        .await?;
    // From the start once more, with operands that disagree: ZTWIM is emptied while they have two values.
    stage
        .apply(&SPIRE_AGENT, json!({ "trustDomain": "two.example" }))
        .await?;
    let conflict = stage.says(&SPIRE_AGENT, VALID, "False", CONFLICT).await?;
    assert!(
        conflict.contains("one.example") && conflict.contains("two.example"),
        "{conflict}"
    );
    stage.edit(&ZTWIM, json!({ "trustDomain": null })).await?;
    let conflict = stage.says(&ZTWIM, VALID, "False", CONFLICT).await?;
    for word in [
        "SpireServer/cluster",
        "one.example",
        "SpireAgent/cluster",
        "two.example",
    ] {
        assert!(conflict.contains(word), "{word} is missing in {conflict}");
    }
    stage.says(&SPIRE_SERVER, VALID, "False", CONFLICT).await?;
    let manager = stage.read(&ZTWIM, "cluster").await?;
    assert!(
        manager["spec"]["trustDomain"].is_null(),
        "nothing was copied: {manager:#}"
    );
    assert!(
        stage.api(&CONFIG_MAP).get_opt(names::AGENT).await?.is_none(),
        "nothing was made"
    );

    stage
        .edit(&SPIRE_AGENT, json!({ "trustDomain": "one.example" }))
        .await?;
    let manager = stage
        .until(&ZTWIM, "cluster", |live| {
            live["spec"]["trustDomain"] == "one.example"
        })
        .await?;
    assert_eq!(manager["spec"]["clusterName"], "old");
    stage
        .hears(
            &ZTWIM,
            "InitializingZTWIM",
            "Initializing ZTWIM from operand config",
        )
        .await?;
    stage
        .hears(&ZTWIM, "ConsiderMovingToZTWIM", "Consider moving to ZTWIM")
        .await?;
    stage
        .file_has(names::AGENT, names::AGENT_CONF, "one.example")
        .await?;
    stage.says(&ZTWIM, VALID, "True", VALID).await?;
    // The operand had this value before ZTWIM did: the value is its own, and does not follow ZTWIM.
    let server = stage.read(&SPIRE_SERVER, "cluster").await?;
    let record = server["metadata"]["annotations"][names::INHERITED]
        .as_str()
        .unwrap_or_default();
    assert!(!record.contains("trustDomain"), "{record}");
    Ok(())
}

#[tokio::test]
async fn operand_without_a_value_says_where_it_is_required() -> Result<()> {
    let stage = Stage::new("required").await?;
    let _running = stage.start("first").await?;
    stage.apply(&SPIRE_SERVER, json!({})).await?;
    let waiting = stage.says(&SPIRE_SERVER, VALID, "False", "Progressing").await?;
    assert!(
        waiting.contains("waiting for the ZeroTrustWorkloadIdentityManager"),
        "{waiting}"
    );
    stage.apply(&ZTWIM, json!({ "clusterName": "one" })).await?;
    let missing = stage.says(&SPIRE_SERVER, VALID, "False", "ValueRequired").await?;
    assert!(missing.contains("TrustDomain required in ZTWIM"), "{missing}");
    stage
        .edit(&ZTWIM, json!({ "trustDomain": "example.org" }))
        .await?;
    stage
        .file_has(names::SERVER, names::SERVER_CONF, "example.org")
        .await?;
    stage.says(&SPIRE_SERVER, VALID, "True", VALID).await?;
    Ok(())
}

#[tokio::test]
async fn children_stay_when_an_operand_gets_a_value_of_its_own() -> Result<()> {
    let (stage, _running) = Stage::with_quickstart("own").await?;
    for operand in [SPIRE_SERVER, SPIRE_AGENT, SPIRE_OIDC] {
        stage.says(&operand, VALID, "True", VALID).await?;
    }
    let before = stage.versions(None).await?;
    stage
        .edit(
            &SPIRE_AGENT,
            json!({ "trustDomain": "other.example", "logLevel": "debug" }),
        )
        .await?;
    for kind in [SPIRE_SERVER, SPIRE_AGENT, SPIRE_OIDC, ZTWIM] {
        let conflict = stage.says(&kind, VALID, "False", CONFLICT).await?;
        for word in [
            "trustDomain",
            "other.example",
            "example.org",
            "SpireAgent/cluster",
            "kubectl patch",
        ] {
            assert!(conflict.contains(word), "{word} is missing in {conflict}");
        }
    }
    assert_eq!(stage.versions(None).await?, before);
    stage.says(&SPIFFE_CSI_DRIVER, VALID, "False", CONFLICT).await?;

    // The patch that the message names.
    stage.edit(&SPIRE_AGENT, json!({ "trustDomain": null })).await?;
    stage
        .until(&SPIRE_AGENT, "cluster", |live| {
            live["spec"]["trustDomain"] == "example.org"
        })
        .await?;
    stage
        .file_has(names::AGENT, names::AGENT_CONF, "\"debug\"")
        .await?;
    stage.says(&SPIRE_AGENT, VALID, "True", VALID).await?;
    let rolled = stage.read(&DAEMON_SET, names::AGENT).await?;
    assert_eq!(rolled["metadata"]["generation"], 2);
    Ok(())
}
