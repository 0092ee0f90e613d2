//! Values that running servers and agents depend on: the trust domain, and the ConfigMap for the bundle.

use anyhow::Result;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use serde_json::json;
use trustplane_api::identity::{SPIFFE_CSI_DRIVER, SPIRE_AGENT, SPIRE_OIDC, SPIRE_SERVER, ZTWIM, names};
use trustplane_plan::kinds::{CONFIG_MAP, DAEMON_SET, ROLE};

use crate::stage::Stage;
use crate::workloads::AllPodsRun;

const VALID: &str = "ConfigurationValid";

#[tokio::test]
async fn children_are_held_while_the_server_has_data_of_another_trust_domain() -> Result<()> {
    let (stage, _running) = Stage::with_quickstart("domain").await?;
    let pods = AllPodsRun::new(&stage);
    stage.is_ready().await?;
    drop(pods);
    let before = stage.versions(None).await?;
    let held = [SPIRE_SERVER, SPIRE_AGENT, SPIRE_OIDC];
    stage
        .edit(&ZTWIM, json!({ "trustDomain": "new.example" }))
        .await?;
    for operand in &held {
        stage
            .until(operand, "cluster", |live| {
                live["spec"]["trustDomain"] == "new.example"
            })
            .await?;
        let told = stage
            .says(operand, VALID, "False", "TrustDomainChangePending")
            .await?;
        for word in [
            "example.org",
            "new.example",
            "spire-data-spire-server-0",
            "Put the old value back",
        ] {
            assert!(told.contains(word), "{word} is missing in {told}");
        }
    }
    stage.says(&SPIFFE_CSI_DRIVER, "Ready", "True", "Ready").await?;
    stage.says(&ZTWIM, "Ready", "False", "Failed").await?;
    assert_eq!(stage.versions(None).await?, before);

    stage
        .edit(&ZTWIM, json!({ "trustDomain": "example.org" }))
        .await?;
    stage.is_ready().await?;
    assert_eq!(stage.versions(None).await?, before);
    Ok(())
}

#[tokio::test]
async fn bundle_of_another_name_works_and_one_that_exists_is_used_as_it_is() -> Result<()> {
    let stage = Stage::new("bundle").await?;
    let theirs = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": { "other": "theirs" },
        "metadata": { "name": "company-bundle", "labels": { "app.kubernetes.io/managed-by": "Helm" } },
    });
    let maps = stage.sandbox.api::<ConfigMap>();
    let theirs = maps
        .create(&PostParams::default(), &serde_json::from_value(theirs)?)
        .await?;
    let _running = stage.start("first").await?;
    let bundle = json!({ "name": "company-bundle" });
    stage
        .apply(
            &ZTWIM,
            json!({ "trustDomain": "example.org", "clusterName": "demo", "bundleConfig": bundle }),
        )
        .await?;
    stage.apply(&SPIRE_SERVER, json!({})).await?;
    stage.apply(&SPIRE_AGENT, json!({})).await?;

    // The server could not write it otherwise, nor the agents read it.
    let role = stage.there(&ROLE, names::BUNDLE).await?;
    assert_eq!(role["rules"][0]["resourceNames"], json!(["company-bundle"]));
    stage
        .file_has(
            names::SERVER,
            names::SERVER_CONF,
            "\"config_map\": \"company-bundle\"",
        )
        .await?;
    let agent = stage.there(&DAEMON_SET, names::AGENT).await?;
    let volumes = agent["spec"]["template"]["spec"]["volumes"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let volume = volumes.iter().find(|volume| volume["name"] == "spire-bundle");
    let items = json!([{ "key": "bundle.crt", "path": "bundle.crt" }]);
    let mounted = volume.map(|volume| (&volume["configMap"]["name"], &volume["configMap"]["items"]));
    assert_eq!(
        mounted,
        Some((&json!("company-bundle"), &items)),
        "kubelet holds the pod until the key is there"
    );
    assert_eq!(maps.get("company-bundle").await?, theirs);
    assert!(maps.get_opt(names::BUNDLE).await?.is_none());

    let waits = format!(
        "waiting for SpireServer to write bundle.crt into ConfigMap {}/company-bundle",
        stage.namespace()
    );
    let says = |words: &'static str| {
        let stage = &stage;
        async move { stage.says(&SPIRE_AGENT, "Ready", "False", words).await }
    };
    assert!(says("Progressing").await?.contains(&waits));
    stage
        .patch(
            &CONFIG_MAP,
            "company-bundle",
            json!({ "data": { "bundle.crt": "PEM" } }),
        )
        .await?;
    stage
        .until(&SPIRE_AGENT, "cluster", |live| {
            !live["status"].to_string().contains("waiting for SpireServer")
        })
        .await?;
    let _pods = AllPodsRun::new(&stage);
    stage.says(&SPIRE_SERVER, "Ready", "True", "Ready").await?;
    stage.says(&SPIRE_AGENT, "Ready", "True", "Ready").await?;
    Ok(())
}
