//! A person edits a child by hand, or another owner has an object with the name of a child.

use std::time::Duration;

use anyhow::Result;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};
use trustplane_api::identity::{SPIFFE_CSI_DRIVER, SPIRE_AGENT, SPIRE_OIDC, SPIRE_SERVER, ZTWIM, names};
use trustplane_plan::OWNER_UID;
use trustplane_plan::kinds::{
    CLUSTER_ROLE_BINDING, CONFIG_MAP, CSI_DRIVER, DAEMON_SET, ROLE, SECRET, SERVICE, SERVICE_ACCOUNT,
    VALIDATING_WEBHOOKS,
};
use trustplane_testkit::audit::Mark;

use crate::stage::Stage;
use crate::workloads::AllPodsRun;

const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

#[tokio::test]
async fn hand_edits_of_children_are_put_back() -> Result<()> {
    let (stage, running) = Stage::with_quickstart("edits").await?;
    let good = stage.file(names::AGENT, names::AGENT_CONF).await?;
    stage
        .patch(
            &CONFIG_MAP,
            names::AGENT,
            json!({ "data": { "agent.conf": "{}" } }),
        )
        .await?;
    stage
        .until(&CONFIG_MAP, names::AGENT, |live| {
            live["data"]["agent.conf"] == good
        })
        .await?;

    let image = "/spec/template/spec/containers/0/image";
    let good = stage
        .read(&DAEMON_SET, names::CSI_DRIVER)
        .await?
        .pointer(image)
        .cloned();
    let containers = json!([{ "name": "spiffe-csi-driver", "image": "theirs" }]);
    stage
        .strategic(
            &DAEMON_SET,
            names::CSI_DRIVER,
            json!({ "spec": { "template": { "spec": { "containers": containers } } } }),
        )
        .await?;
    stage
        .until(&DAEMON_SET, names::CSI_DRIVER, |live| {
            live.pointer(image) == good.as_ref()
        })
        .await?;

    stage.patch(&ROLE, names::BUNDLE, json!({ "rules": [] })).await?;
    stage
        .until(&ROLE, names::BUNDLE, |live| {
            live["rules"][0]["resourceNames"] == json!(["spire-bundle"])
        })
        .await?;

    // Without the label no watch shows it any more; by its owner's uid it is still known.
    for (kind, name) in [(SERVICE, names::SERVER), (CLUSTER_ROLE_BINDING, names::AGENT)] {
        let uid = stage.read(&kind, name).await?["metadata"]["uid"].clone();
        stage
            .patch(
                &kind,
                name,
                json!({ "metadata": { "labels": { MANAGED_BY: null } } }),
            )
            .await?;
        let back = |live: &Value| live["metadata"]["labels"][MANAGED_BY] == names::MANAGED_BY;
        let live = stage.until(&kind, name, back).await?;
        assert_eq!(live["metadata"]["uid"], uid, "the very same object");
    }

    for (kind, name) in [
        (SERVICE_ACCOUNT, names::SERVER),
        (CSI_DRIVER, names::PLUGIN),
        (VALIDATING_WEBHOOKS, names::CONTROLLER_MANAGER_WEBHOOK),
    ] {
        let uid = stage.read(&kind, name).await?["metadata"]["uid"].clone();
        stage.delete(&kind, name, &DeleteParams::default()).await?;
        stage
            .until(&kind, name, |live| live["metadata"]["uid"] != uid)
            .await?;
    }
    let mark = Mark::now(stage.sandbox.plane()).await?;
    let _pods = AllPodsRun::new(&stage);
    stage.is_ready().await?;
    let audit = mark.since().await?.by(&running.instance).except("events");
    let stray: Vec<_> = audit
        .writes()
        .into_iter()
        .filter(|write| write.subresource() != "status")
        .collect();
    assert!(stray.is_empty(), "{}", audit.story());
    Ok(())
}

#[tokio::test]
async fn foreign_object_of_a_childs_name_is_left_alone_until_it_goes() -> Result<()> {
    let mut stage = Stage::new("foreign").await?;
    // Instead of the look after some seconds, as no watch tells of an object without our label.
    stage.resync_every(Duration::from_secs(1));
    let (helm, none) = (json!({ MANAGED_BY: "Helm" }), json!({}));
    // The operator whose kinds we serve has the same label.
    let original = json!({ MANAGED_BY: names::MANAGED_BY });
    let port = json!({ "spec": { "ports": [{ "port": 1 }] } });
    let foreign = [
        (
            SPIFFE_CSI_DRIVER,
            CSI_DRIVER,
            names::PLUGIN,
            "CSIDriver",
            &helm,
            json!({ "spec": { "attachRequired": true } }),
        ),
        (SPIRE_SERVER, SERVICE, names::SERVER, "Service", &none, port),
        (
            SPIRE_AGENT,
            CONFIG_MAP,
            names::AGENT,
            "ConfigMap",
            &helm,
            json!({ "data": { "agent.conf": "theirs" } }),
        ),
        (
            SPIRE_OIDC,
            SECRET,
            names::OIDC_CERT,
            "Certificate",
            &helm,
            json!({}),
        ),
        (
            SPIRE_SERVER,
            SERVICE_ACCOUNT,
            names::SERVER,
            "ServiceAccount",
            &original,
            json!({}),
        ),
    ];
    let mut before = Vec::new();
    for (_, kind, name, _, labels, more) in &foreign {
        let mut object = more.clone();
        object["apiVersion"] = kind.api_version().into();
        object["kind"] = (*kind.kind).into();
        object["metadata"] = json!({ "name": name, "labels": labels });
        let object = serde_json::from_value(object)?;
        stage.api(kind).create(&PostParams::default(), &object).await?;
        before.push(stage.read(kind, name).await?);
    }
    let _running = stage.start("first").await?;
    let _pods = AllPodsRun::new(&stage);
    stage.quickstart().await?;
    for (operand, kind, name, what, ..) in &foreign {
        let type_ = format!("{what}Available");
        let told = stage.says(operand, &type_, "False", "ResourceConflict").await?;
        assert!(told.contains(&*kind.kind) && told.contains(name), "{told}");
        stage.says(operand, "Ready", "False", "Failed").await?;
    }
    // The rest is made.
    stage.all_there().await?;
    stage.says(&ZTWIM, "Ready", "False", "Failed").await?;
    for ((_, kind, name, ..), before) in foreign.iter().zip(before) {
        assert_eq!(stage.read(kind, name).await?, before, "untouched");
    }
    for (_, kind, name, ..) in &foreign {
        stage.delete(kind, name, &DeleteParams::default()).await?;
        let is_ours = |live: &Value| live["metadata"]["labels"][OWNER_UID].is_string();
        stage.until(kind, name, is_ours).await?;
    }
    stage.is_ready().await
}
