//! Namespaces that are missing, not served, or too strict.

use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use trustplane_api::identity::{SPIFFE_CSI_DRIVER, SPIRE_AGENT, SPIRE_OIDC, SPIRE_SERVER, ZTWIM, names};
use trustplane_identity_controller::rights;
use trustplane_kit::manager::process_rights;
use trustplane_kit::rights::Place;
use trustplane_testkit::{DEADLINE, Rules, Sandbox, wait_for_some};

use crate::stage::Stage;
use crate::workloads::AllPodsRun;

#[tokio::test]
async fn namespace_that_refuses_the_pods_is_told_with_the_command_until_it_does_not() -> Result<()> {
    let mut stage = Stage::new("strict").await?;
    // Instead of the look after some seconds, as no watch tells of namespaces.
    stage.resync_every(Duration::from_millis(500));
    let namespaces: Api<Namespace> = Api::all(stage.sandbox.client());
    let enforce = |level: &str| {
        Patch::Merge(json!({ "metadata": { "labels": { "pod-security.kubernetes.io/enforce": level } } }))
    };
    let name = stage.namespace().to_owned();
    namespaces
        .patch(&name, &PatchParams::default(), &enforce("restricted"))
        .await?;
    let _running = stage.start("first").await?;
    stage.quickstart().await?;
    for operand in [SPIRE_AGENT, SPIFFE_CSI_DRIVER] {
        let told = stage
            .says(&operand, "NamespaceReady", "False", "PodSecurityTooStrict")
            .await?;
        let command = format!(
            "kubectl label namespace {name} pod-security.kubernetes.io/enforce=privileged --overwrite"
        );
        assert!(told.contains(&command), "{told}");
        stage.says(&operand, "Ready", "False", "Failed").await?;
    }
    for operand in [SPIRE_SERVER, SPIRE_OIDC] {
        stage.says(&operand, "Ready", "False", "Progressing").await?;
    }
    namespaces
        .patch(&name, &PatchParams::default(), &enforce("privileged"))
        .await?;
    let _pods = AllPodsRun::new(&stage);
    stage.is_ready().await
}

#[tokio::test]
async fn namespace_that_is_missing_is_told_with_the_command_until_it_is_made() -> Result<()> {
    // An admin who gives the manager its rights everywhere.
    let rights = process_rights("trustplane-manager").and(rights());
    let everywhere = Rules {
        cluster: rights.wide(),
        namespaced: rights.of(Place::Home),
    };
    let mut stage = Stage::with_rules("missing", &everywhere).await?;
    stage.resync_every(Duration::from_millis(500));
    let home = stage.namespace().to_owned();
    let missing = format!("{home}-missing");
    stage.settings.namespaces = vec![home.clone(), missing.clone()];
    let _running = stage.start("first").await?;
    let values = |namespace: &str| json!({ "trustDomain": "example.org", "clusterName": "demo", "namespace": namespace });
    stage.apply(&ZTWIM, values("elsewhere")).await?;
    stage.apply(&SPIRE_SERVER, json!({})).await?;
    let told = stage
        .says(&SPIRE_SERVER, "ConfigurationValid", "False", "NamespaceNotServed")
        .await?;
    assert!(
        told.contains("\"elsewhere\" is not served") && told.contains(&home),
        "{told}"
    );
    stage.apply(&ZTWIM, values(&missing)).await?;
    let told = stage
        .says(&SPIRE_SERVER, "NamespaceReady", "False", "NamespaceMissing")
        .await?;
    assert!(
        told.contains(&format!("kubectl create namespace {missing}")),
        "{told}"
    );
    let namespaces: Api<Namespace> = Api::all(stage.sandbox.client());
    let wish = serde_json::from_value(json!({ "metadata": { "name": missing } }))?;
    namespaces.create(&PostParams::default(), &wish).await?;
    let made: Api<StatefulSet> = Api::namespaced(stage.sandbox.client(), &missing);
    wait_for_some(&made, names::SERVER, DEADLINE, |_| true).await?;
    stage.says(&SPIRE_SERVER, "Ready", "False", "Progressing").await?;
    assert!(
        stage
            .sandbox
            .api::<StatefulSet>()
            .get_opt(names::SERVER)
            .await?
            .is_none()
    );
    Ok(())
}

#[tokio::test]
async fn operand_says_so_when_the_manager_has_no_rights_in_the_namespace() -> Result<()> {
    let mut stage = Stage::new("forbidden").await?;
    stage.resync_every(Duration::from_millis(500));
    let home = stage.namespace().to_owned();
    let other = Sandbox::on(stage.sandbox.plane().clone(), "other").await?;
    stage.settings.namespaces = vec![home.clone(), other.namespace().to_owned()];
    let _running = stage.start("first").await?;
    let values = |namespace: &str| json!({ "trustDomain": "example.org", "clusterName": "demo", "namespace": namespace });
    stage.apply(&ZTWIM, values(other.namespace())).await?;
    stage.apply(&SPIRE_SERVER, json!({})).await?;
    let told = stage
        .says(&SPIRE_SERVER, "NamespaceReady", "False", "NamespaceForbidden")
        .await?;
    assert!(told.contains(other.namespace()), "{told}");
    stage.apply(&ZTWIM, values(&home)).await?;
    stage
        .file_has("spire-server", "server.conf", "example.org")
        .await?;
    Ok(())
}
