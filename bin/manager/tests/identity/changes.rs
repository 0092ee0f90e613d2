//! What becomes of changes of ZTWIM: rule 2, and the operands that follow.

use anyhow::Result;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use serde_json::{Value, json};
use trustplane_api::identity::names::SERVER;
use trustplane_api::identity::{SPIRE_AGENT, SPIRE_OIDC, SPIRE_SERVER, ZTWIM};
use trustplane_plan::kinds::STATEFUL_SET;

use crate::denied::{Denied, RULE_2};
use crate::hand::Ask;
use crate::stage::Stage;
use crate::unjudged;

#[tokio::test]
async fn operands_follow_when_ztwim_changes() -> Result<()> {
    let (stage, _manager) = Stage::with_manager("changes").await?;
    stage.apply_quickstart().await?;
    cluster_name(&stage).await?;
    bundle(&stage).await?;
    what_has_to_stay(&stage).await?;
    trust_domain(&stage).await?;
    unjudged::values_change_nothing_that_runs(&stage).await?;
    stage.assert_nothing_denied().await
}

fn edit(spec: Value) -> Ask {
    Ask::edit(&ZTWIM, spec)
}

async fn cluster_name(stage: &Stage) -> Result<()> {
    let changed = stage.passes(edit(json!({ "clusterName": "west" }))).await?;
    assert_eq!(changed.warnings, [""; 0]);
    for kind in [SPIRE_SERVER, SPIRE_AGENT] {
        stage.follows(&kind, "clusterName", "west").await?;
    }
    let past = stage.past_admission()?;
    past.ask(&Ask::edit(&SPIRE_AGENT, json!({ "clusterName": "own" })))
        .await?
        .passed()?;
    let words = [
        r#""east" of ZeroTrustWorkloadIdentityManager/cluster differs from "own", which SpireAgent/cluster has of its own"#,
        "let the operand follow first: kubectl patch spireagents cluster",
    ];
    let own = Denied::new(
        RULE_2,
        edit(json!({ "clusterName": "east" })),
        "spec.clusterName",
        &words,
    );
    stage.denied_until_obeyed(own).await?;
    for kind in [SPIRE_SERVER, SPIRE_AGENT] {
        stage.follows(&kind, "clusterName", "east").await?;
    }
    Ok(())
}

async fn bundle(stage: &Stage) -> Result<()> {
    let second = edit(json!({ "bundleConfig": { "name": "second" } }));
    let words = [
        r#"there is no ConfigMap "second" in the namespace"#,
        stage.sandbox.namespace(),
    ];
    let missing = Denied::new(RULE_2, second, "spec.bundleConfig.name", &words);
    let changed = stage.denied_until_obeyed(missing).await?;
    assert_eq!(changed.body["spec"]["bundleConfigMap"], "second");
    let third: ConfigMap = serde_json::from_value(json!({ "metadata": { "name": "third" } }))?;
    stage.sandbox.api().create(&PostParams::default(), &third).await?;
    let changed = stage.passes(edit(json!({ "bundleConfigMap": "third" }))).await?;
    assert_eq!(changed.body["spec"]["bundleConfig"]["name"], "third");
    for kind in [SPIRE_SERVER, SPIRE_AGENT] {
        stage.follows(&kind, "bundleConfigMap", "third").await?;
    }
    let both = edit(json!({ "bundleConfig": { "name": "second" }, "bundleConfigMap": "fourth" }));
    let words = [r#""fourth" differs from "second" of spec.bundleConfig.name, and both are new"#];
    stage
        .denied(Denied::new(RULE_2, both, "spec.bundleConfigMap", &words))
        .await?;
    Ok(())
}

async fn what_has_to_stay(stage: &Stage) -> Result<()> {
    let toleration = json!({ "tolerations": [{ "operator": "Exists", "value": "x" }] });
    for (spec, field, words) in [
        (
            json!({ "trustDomain": null }),
            "spec.trustDomain",
            "TrustDomain required in ZTWIM",
        ),
        (
            json!({ "clusterName": "" }),
            "spec.clusterName",
            "ClusterName required in ZTWIM",
        ),
        (
            json!({ "namespace": "elsewhere" }),
            "spec.namespace",
            "is not served",
        ),
        // The manager cannot look for a bundle where it has no right.
        (
            json!({ "namespace": "elsewhere", "bundleConfigMap": "x" }),
            "spec.namespace",
            "is not served",
        ),
        (toleration, "spec.tolerations[0].value", "must be empty"),
    ] {
        stage
            .denied(Denied::new(RULE_2, edit(spec), field, &[words]))
            .await?;
    }
    Ok(())
}

async fn trust_domain(stage: &Stage) -> Result<()> {
    let before = stage.until(&STATEFUL_SET, SERVER, |_| true).await?;
    stage.passes(edit(json!({ "changePolicy": "Immutable" }))).await?;
    let words = [
        r#"must stay "example.org" and not become "new.org""#,
        "spec.changePolicy of ZeroTrustWorkloadIdentityManager/cluster is Immutable; to allow it: kubectl patch",
    ];
    let immutable = edit(json!({ "trustDomain": "new.org" }));
    let immutable = Denied::new(RULE_2, immutable, "spec.trustDomain", &words);
    let warnings = stage.denied_until_obeyed(immutable).await?.warnings;
    let warning = "spec.trustDomain changes while SpireServer/cluster exists: this version does not move the data of a server";
    assert!(
        matches!(&*warnings, [only] if only.starts_with(warning)),
        "{warnings:?}"
    );
    for kind in [SPIRE_SERVER, SPIRE_AGENT, SPIRE_OIDC] {
        stage.follows(&kind, "trustDomain", "new.org").await?;
    }
    let pending = stage
        .says(
            &SPIRE_SERVER,
            "ConfigurationValid",
            "False",
            "TrustDomainChangePending",
        )
        .await?;
    assert!(
        pending.contains(r#""example.org", and ZTWIM says "new.org""#),
        "{pending}"
    );
    let after = stage.until(&STATEFUL_SET, SERVER, |_| true).await?;
    let trust_domain = |set: &Value| set["metadata"]["annotations"]["trustplane.io/trust-domain"].clone();
    assert_eq!(
        (trust_domain(&before), trust_domain(&after)),
        (json!("example.org"), json!("example.org"))
    );
    stage
        .passes(edit(json!({ "trustDomain": "example.org" })))
        .await?;
    stage.follows(&SPIRE_SERVER, "trustDomain", "example.org").await?;
    Ok(())
}
