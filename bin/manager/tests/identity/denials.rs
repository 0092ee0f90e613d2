//! What rules 1, 3 and 4 deny, in which words, and that the request passes once its own command has run.

use anyhow::Result;
use serde_json::{Value, json};
use trustplane_api::identity::{SPIFFE_CSI_DRIVER, SPIRE_AGENT, SPIRE_OIDC, SPIRE_SERVER, ZTWIM};
use trustplane_plan::Kind;
use trustplane_testkit::metrics;

use crate::denied::{Denied, RULE_1, RULE_3, RULE_4};
use crate::hand::Ask;
use crate::legacy;
use crate::stage::Stage;

#[tokio::test]
async fn requests_are_denied_when_they_break_rules_1_3_and_4() -> Result<()> {
    let (stage, manager) = Stage::with_manager("denials").await?;
    without_ztwim(&stage).await?;
    faulty_bundle(&stage).await?;
    legacy::operands_have_a_value_first(&stage).await?;
    rule_3(&stage).await?;
    rule_4(&stage).await?;
    what_follows_and_what_owns(&stage).await?;
    legacy::operands_disagree(&stage).await?;
    let scrape = metrics::scrape(&manager.process)?;
    for rule in ["ztwim_create", "ztwim_update", "operand_create", "operand_update"] {
        let counted = format!("trustplane_identity_webhook_denials_total{{rule=\"{rule}\"}}");
        assert!(scrape.contains(&counted), "{counted} in {scrape}");
    }
    metrics::are_documented(&scrape)?;
    stage.assert_nothing_denied().await
}

/// The creation of a ZTWIM that would pass, with these changes.
fn ztwim(changes: Value) -> Ask {
    let mut spec = json!({ "trustDomain": "a.io", "clusterName": "one" });
    json_patch::merge(&mut spec, &changes);
    Ask::create(&ZTWIM, spec)
}

async fn without_ztwim(stage: &Stage) -> Result<()> {
    let denied = |ask, field, parts: &[&str]| Denied::new(RULE_1, ask, field, parts);
    let here = stage.sandbox.namespace();
    let invalid =
        r#""A.io" of ZeroTrustWorkloadIdentityManager/cluster is not valid: want a trust domain: labels"#;
    let nowhere = [r#""elsewhere" is not served"#, "runs operands in", here];
    let label = json!({ "labels": { "a b": "c" } });
    let required = |name: &str| format!("{name} required in ZTWIM");
    for denied in [
        denied(
            Ask::create(&ZTWIM, json!({})),
            "spec.trustDomain",
            &[&required("TrustDomain")],
        ),
        denied(
            ztwim(json!({ "clusterName": null })),
            "spec.clusterName",
            &[&required("ClusterName")],
        ),
        denied(
            ztwim(json!({ "trustDomain": "A.io" })),
            "spec.trustDomain",
            &[invalid],
        ),
        denied(
            ztwim(json!({ "namespace": "elsewhere" })),
            "spec.namespace",
            &nowhere,
        ),
        denied(ztwim(label), "spec.labels[a b]", &["the key must be"]),
    ] {
        stage.denied(denied).await?;
    }
    let alone = Ask::create(&SPIRE_SERVER, json!({ "trustDomain": "a.io" }));
    let words =
        "ZeroTrustWorkloadIdentityManager/cluster does not exist; create it before SpireServer/cluster";
    stage
        .denied(Denied::new(RULE_3, alone, "metadata.ownerReferences", &[words]))
        .await?;
    Ok(())
}

/// Two faults of one manifest, each with its own command.
async fn faulty_bundle(stage: &Stage) -> Result<()> {
    let bundle = json!({ "name": "b", "namespace": "elsewhere" });
    let faulty = ztwim(json!({ "bundleConfig": bundle, "bundleConfigMap": "m" }));
    let words = r#""m" differs from "b" of spec.bundleConfig.name, and both are new"#;
    let faulty = Denied::new(RULE_1, faulty, "spec.bundleConfigMap", &[words]);
    let made = stage.denied_until_obeyed(faulty).await?.body;
    assert_eq!(made["spec"]["bundleConfig"], json!({ "name": "b" }));
    assert_eq!(made["spec"]["bundleConfigMap"], "b");
    Ok(())
}

async fn rule_3(stage: &Stage) -> Result<()> {
    let denied =
        |kind, spec, field, parts: &[&str]| Denied::new(RULE_3, Ask::create(kind, spec), field, parts);
    let ztwim = "of ZeroTrustWorkloadIdentityManager/cluster";
    for denied in [
        denied(
            &SPIRE_SERVER,
            json!({ "trustDomain": "b.io", "jwtIssuer": "https://a.io" }),
            "spec.trustDomain",
            &[
                &format!(
                    r#""b.io" of SpireServer/cluster differs from "first.io" {ztwim}, which it follows;"#
                ),
                "leave it out, or change both: kubectl patch zerotrustworkloadidentitymanagers cluster",
            ],
        ),
        denied(
            &SPIRE_AGENT,
            json!({ "clusterName": "two" }),
            "spec.clusterName",
            &[&format!(
                r#""two" of SpireAgent/cluster differs from "one" {ztwim}"#
            )],
        ),
        denied(
            &SPIFFE_CSI_DRIVER,
            json!({ "agentSocketPath": "/run/other" }),
            "spec.agentSocketPath",
            &[
                r#"spec.agentSocketPath "/run/other" of SpiffeCSIDriver/cluster differs from"#,
                r#"spec.socketPath "/run/spire/agent-sockets" of SpireAgent/cluster; change SpireAgent/cluster first"#,
            ],
        ),
        denied(
            &SPIRE_OIDC,
            json!({ "jwtIssuer": "https://b.io" }),
            "spec.jwtIssuer",
            &[
                r#""https://b.io" of SpireOIDCDiscoveryProvider/cluster differs from "https://a.io" of SpireServer"#,
                "kubectl patch spireservers cluster",
            ],
        ),
        denied(
            &SPIRE_OIDC,
            json!({ "csiDriverName": "other.io" }),
            "spec.csiDriverName",
            &[
                r#""other.io" of SpireOIDCDiscoveryProvider/cluster differs from spec.pluginName "csi.spiffe.io""#,
                "kubectl patch spiffecsidrivers cluster",
            ],
        ),
    ] {
        // Another case may have made the object.
        stage.remove(denied.kind()).await?;
        let made = stage.denied_until_obeyed(denied).await?;
        assert_eq!(
            made.body["metadata"]["ownerReferences"][0]["kind"], *ZTWIM.kind,
            "{}",
            made.body
        );
    }
    Ok(())
}

async fn rule_4(stage: &Stage) -> Result<()> {
    let denied =
        |kind: &Kind, spec, field, parts: &[&str]| Denied::new(RULE_4, Ask::edit(kind, spec), field, parts);
    let ztwim = "of ZeroTrustWorkloadIdentityManager/cluster";
    for denied in [
        denied(
            &SPIRE_SERVER,
            json!({ "trustDomain": "c.io" }),
            "spec.trustDomain",
            &[&format!(
                r#""c.io" of SpireServer/cluster differs from "b.io" {ztwim}"#
            )],
        ),
        // The command is denied in turn, as there is no such ConfigMap yet.
        denied(
            &SPIRE_AGENT,
            json!({ "bundleConfigMap": "moved" }),
            "spec.bundleConfigMap",
            &[&format!(
                r#""moved" of SpireAgent/cluster differs from "b" {ztwim}"#
            )],
        ),
        denied(
            &SPIFFE_CSI_DRIVER,
            json!({ "agentSocketPath": "/run/third" }),
            "spec.agentSocketPath",
            &[r#"spec.socketPath "/run/other" of SpireAgent/cluster; change SpireAgent/cluster first"#],
        ),
        denied(
            &SPIRE_OIDC,
            json!({ "jwtIssuer": "https://c.io" }),
            "spec.jwtIssuer",
            &[
                r#""https://c.io" of SpireOIDCDiscoveryProvider/cluster differs from "https://b.io" of SpireServer"#,
            ],
        ),
    ] {
        stage.denied_until_obeyed(denied).await?;
    }
    let short = json!({ "caValidity": "30m" });
    let words = ["must not be shorter than spec.defaultX509Validity (1h), but is 30m"];
    stage
        .denied(denied(&SPIRE_SERVER, short, "spec.caValidity", &words))
        .await?;
    Ok(())
}

/// Rule 4 about the record and about the owner reference, which only we write.
async fn what_follows_and_what_owns(stage: &Stage) -> Result<()> {
    let metadata = |kind: &Kind, metadata: Value| Ask::patch(kind, json!({ "metadata": metadata }));
    let other =
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "u", "controller": true });
    let other = metadata(&SPIFFE_CSI_DRIVER, json!({ "ownerReferences": [other] }));
    let words = "ConfigMap/x is the controller of SpiffeCSIDriver/cluster, so ZeroTrustWorkloadIdentityManager/cluster";
    stage
        .denied(Denied::new(RULE_4, other, "metadata.ownerReferences", &[words]))
        .await?;

    let forged = json!({
        "metadata": { "annotations": { "ztwim.io/inherited": r#"{"clusterName":"forged"}"# } },
        "spec": { "clusterName": "forged" },
    });
    let words = [r#""forged" of SpireAgent/cluster differs from"#];
    stage
        .denied(Denied::new(
            RULE_4,
            Ask::patch(&SPIRE_AGENT, forged),
            "spec.clusterName",
            &words,
        ))
        .await?;

    let before = stage.read(&SPIRE_AGENT).await?["metadata"].clone();
    let gone = json!({ "ownerReferences": null, "annotations": { "ztwim.io/inherited": null } });
    let after = stage.passes(metadata(&SPIRE_AGENT, gone)).await?.body["metadata"].clone();
    assert_eq!(after["ownerReferences"], before["ownerReferences"], "put back");
    assert_eq!(after["annotations"], before["annotations"], "put back");
    Ok(())
}
