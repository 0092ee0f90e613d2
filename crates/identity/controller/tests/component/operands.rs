//! The quickstart: four operands get what makes them run.

use anyhow::Result;
use serde_json::{Value, json};
use trustplane_api::identity::{
    OperandKind, SPIFFE_CSI_DRIVER, SPIRE_AGENT, SPIRE_OIDC, SPIRE_SERVER, ZTWIM, names,
};
use trustplane_plan::OWNER_UID;
use trustplane_plan::kinds::{CONFIG_MAP, CSI_DRIVER, DEPLOYMENT};

use crate::children::CHILDREN;
use crate::stage::{OPERANDS, Stage};
use crate::workloads::AllPodsRun;

const MANAGER: &str = names::MANAGED_BY;

#[tokio::test]
async fn operands_get_their_children_when_the_quickstart_is_applied() -> Result<()> {
    let stage = Stage::new("quickstart").await?;
    let _running = stage.start("first").await?;
    stage.quickstart().await?;
    for (operand, kind, name, part) in CHILDREN {
        let child = stage.there(&kind, name).await?;
        let metadata = &child["metadata"];
        let labels = &metadata["labels"];
        let what = format!("{} {name}: {labels:#}", kind.kind);
        let owner = stage.read(&operand, names::SINGLETON).await?;
        assert_eq!(labels[OWNER_UID], owner["metadata"]["uid"], "{what}");
        assert_eq!(labels["app.kubernetes.io/name"], part, "{what}");
        assert_eq!(labels["app.kubernetes.io/managed-by"], MANAGER, "{what}");
        assert_eq!(labels["app.kubernetes.io/part-of"], MANAGER, "{what}");
        assert_eq!(labels["app.kubernetes.io/instance"], names::INSTANCE, "{what}");
        assert!(metadata["ownerReferences"].is_null(), "{what}");
    }
    let manager = stage.read(&ZTWIM, names::SINGLETON).await?;
    for operand in OPERANDS {
        let live = stage.read(&operand, names::SINGLETON).await?;
        let owner = json!([{
            "apiVersion": "operator.openshift.io/v1alpha1", "kind": "ZeroTrustWorkloadIdentityManager",
            "name": "cluster", "uid": manager["metadata"]["uid"],
            "controller": true, "blockOwnerDeletion": true,
        }]);
        assert_eq!(live["metadata"]["ownerReferences"], owner, "{}", operand.kind);
    }
    let waiting = stage.says(&ZTWIM, "Ready", "False", "Progressing").await?;
    assert!(
        waiting.contains("Waiting for operands: [SpireServer(reconciling)"),
        "{waiting}"
    );

    let _pods = AllPodsRun::new(&stage);
    stage.is_ready().await?;
    let manager = stage.read(&ZTWIM, names::SINGLETON).await?;
    let told: Vec<_> = manager["status"]["operands"]
        .as_array()
        .into_iter()
        .flatten()
        .collect();
    let kinds: Vec<&Value> = told.iter().map(|operand| &operand["kind"]).collect();
    assert_eq!(
        kinds,
        OperandKind::ALL.map(OperandKind::as_str),
        "in the order of the seed"
    );
    for operand in told {
        assert_eq!(
            (&operand["name"], &operand["ready"]),
            (&json!("cluster"), &json!("true")),
            "{operand:#}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn operands_run_without_a_spec_when_ztwim_has_the_values() -> Result<()> {
    let stage = Stage::new("empty").await?;
    let _running = stage.start("first").await?;
    let _pods = AllPodsRun::new(&stage);
    stage
        .apply(
            &ZTWIM,
            json!({ "trustDomain": "example.org", "clusterName": "demo" }),
        )
        .await?;
    for operand in OPERANDS {
        stage.apply(&operand, Value::Null).await?;
    }
    for operand in [SPIRE_SERVER, SPIRE_AGENT, SPIFFE_CSI_DRIVER] {
        stage.says(&operand, "Ready", "True", "Ready").await?;
    }
    // The plugins without which the agent ends at start.
    let agent: Value = serde_json::from_str(&stage.file("spire-agent", "agent.conf").await?)?;
    let plugins = &agent["plugins"];
    assert_eq!(
        plugins["NodeAttestor"][0]["k8s_psat"]["plugin_data"]["cluster"],
        "demo"
    );
    assert!(plugins["WorkloadAttestor"][0]["k8s"].is_object(), "{plugins:#}");
    let server = stage.read(&SPIRE_SERVER, "cluster").await?;
    assert_eq!(server["spec"]["bundleConfigMap"], names::BUNDLE);
    stage.there(&CONFIG_MAP, names::BUNDLE).await?;

    // The issuer has no default. Only the OIDC discovery provider waits for it; the other operands run.
    let missing = stage
        .says(&SPIRE_OIDC, "ConfigurationValid", "False", "ValueRequired")
        .await?;
    assert!(missing.contains("JwtIssuer required in SpireServer"), "{missing}");
    let issuer = "https://issuer.example.org/path";
    stage.edit(&SPIRE_SERVER, json!({ "jwtIssuer": issuer })).await?;
    stage.is_ready().await?;
    let oidc = stage.read(&SPIRE_OIDC, "cluster").await?;
    assert_eq!(oidc["spec"]["jwtIssuer"], issuer, "{oidc:#}");
    stage
        .file_has(names::OIDC, names::OIDC_CONF, "\"server_path_prefix\": \"/path\"")
        .await?;
    Ok(())
}

#[tokio::test]
async fn csi_driver_object_follows_the_name_of_the_plugin() -> Result<()> {
    let (stage, _running) = Stage::with_quickstart("plugin").await?;
    let _pods = AllPodsRun::new(&stage);
    stage.is_ready().await?;
    let provider = stage.read(&DEPLOYMENT, names::OIDC).await?["metadata"]["generation"].clone();
    stage
        .edit(&SPIFFE_CSI_DRIVER, json!({ "pluginName": "csi.example.org" }))
        .await?;
    stage.there(&CSI_DRIVER, "csi.example.org").await?;
    stage.gone(&CSI_DRIVER, names::PLUGIN).await?;
    // The pods of the provider would wait for a driver that nobody is.
    let conflict = stage
        .says(
            &SPIRE_OIDC,
            "ConfigurationValid",
            "False",
            "ConfigurationConflict",
        )
        .await?;
    assert!(
        conflict.contains("csiDriverName") && conflict.contains("csi.example.org"),
        "{conflict}"
    );
    assert_eq!(
        stage.read(&DEPLOYMENT, names::OIDC).await?["metadata"]["generation"],
        provider
    );
    stage
        .edit(&SPIRE_OIDC, json!({ "csiDriverName": "csi.example.org" }))
        .await?;
    stage.is_ready().await?;
    let provider = stage.read(&DEPLOYMENT, names::OIDC).await?;
    let volumes = &provider["spec"]["template"]["spec"]["volumes"];
    assert_eq!(volumes[0]["csi"]["driver"], "csi.example.org", "{volumes:#}");
    Ok(())
}
