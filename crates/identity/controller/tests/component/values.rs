//! What ZTWIM says once, and the operands follow.

use std::collections::BTreeMap;

use anyhow::Result;
use serde_json::{Value, json};
use trustplane_api::identity::{SPIFFE_CSI_DRIVER, SPIRE_AGENT, SPIRE_OIDC, SPIRE_SERVER, ZTWIM, names};
use trustplane_identity_controller::DEBOUNCE;
use trustplane_plan::kinds::{DAEMON_SET, DEPLOYMENT, STATEFUL_SET};
use trustplane_testkit::audit::Mark;

use crate::stage::Stage;
use crate::workloads::AllPodsRun;

fn record(operand: &Value) -> Value {
    let record = operand["metadata"]["annotations"][names::INHERITED].as_str();
    record
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default()
}

#[tokio::test]
async fn operands_follow_when_a_value_of_ztwim_changes() -> Result<()> {
    let (stage, running) = Stage::with_quickstart("values").await?;
    let _pods = AllPodsRun::new(&stage);
    stage.is_ready().await?;
    let mark = Mark::now(stage.sandbox.plane()).await?;
    stage.edit(&ZTWIM, json!({ "clusterName": "second" })).await?;
    for operand in [SPIRE_SERVER, SPIRE_AGENT] {
        let live = stage
            .until(&operand, "cluster", |live| {
                live["spec"]["clusterName"] == "second"
            })
            .await?;
        assert_eq!(record(&live)["clusterName"], "second", "{}", record(&live));
        assert_eq!(record(&live)["trustDomain"], "example.org", "{}", record(&live));
    }
    stage
        .file_has(names::SERVER, names::SERVER_CONF, "\"second\"")
        .await?;
    stage
        .file_has(
            names::CONTROLLER_MANAGER,
            names::CONTROLLER_MANAGER_CONF,
            "\"second\"",
        )
        .await?;
    stage
        .file_has(names::AGENT, names::AGENT_CONF, "\"second\"")
        .await?;
    stage.is_ready().await?;
    // What differs is written once, and nothing else is written but statuses.
    let audit = mark.since().await?.by(&running.instance);
    let mut writes = BTreeMap::new();
    for write in audit.except("events").writes() {
        if write.subresource().is_empty() {
            *writes
                .entry(format!("{} {}", write.resource(), write.name()))
                .or_insert(0) += 1;
        }
    }
    let expected = [
        "configmaps spire-agent",
        "configmaps spire-controller-manager",
        "configmaps spire-server",
        "daemonsets spire-agent",
        "spireagents cluster",
        "spireservers cluster",
        "statefulsets spire-server",
    ];
    assert_eq!(
        writes,
        expected.map(|write| (write.to_owned(), 1)).into(),
        "{}",
        audit.story()
    );
    Ok(())
}

#[tokio::test]
async fn pods_follow_the_settings_of_ztwim_unless_an_operand_has_its_own() -> Result<()> {
    let (stage, _running) = Stage::with_quickstart("pods").await?;
    let anti = json!({ "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [{
        "topologyKey": "kubernetes.io/hostname", "labelSelector": { "matchLabels": { "app": "x" } },
    }] } });
    let (all, own) = (
        json!([{ "key": "all", "operator": "Exists" }]),
        json!([{ "key": "own", "operator": "Exists" }]),
    );
    stage
        .edit(
            &SPIRE_AGENT,
            json!({
                "labels": { "team": "own" }, "nodeSelector": { "disk": "own" }, "tolerations": own,
                "resources": { "limits": { "memory": "1Gi" } },
            }),
        )
        .await?;
    stage
        .edit(
            &SPIRE_SERVER,
            json!({ "controllerManagerResources": { "limits": { "memory": "2Gi" } } }),
        )
        .await?;
    stage
        .edit(
            &ZTWIM,
            json!({
                "labels": { "team": "all", "stage": "test", "app.kubernetes.io/name": "ours-wins" },
                "nodeSelector": { "disk": "all" }, "tolerations": all, "affinity": anti,
                "resources": { "requests": { "cpu": "10m" } },
            }),
        )
        .await?;
    let workloads = [
        (STATEFUL_SET, names::SERVER),
        (DAEMON_SET, names::AGENT),
        (DAEMON_SET, names::CSI_DRIVER),
        (DEPLOYMENT, names::OIDC),
    ];
    for (kind, name) in workloads {
        let live = stage
            .until(&kind, name, |live| {
                live["spec"]["template"]["spec"]["affinity"] == anti
            })
            .await?;
        let (template, own_of_agent) = (&live["spec"]["template"], name == names::AGENT);
        let (labels, pod) = (&template["metadata"]["labels"], &template["spec"]);
        let owner = if own_of_agent { "own" } else { "all" };
        assert_eq!(
            (&labels["team"], &labels["stage"]),
            (&json!(owner), &json!("test")),
            "{name}: {labels:#}"
        );
        assert_ne!(labels["app.kubernetes.io/name"], "ours-wins", "{name}");
        assert_eq!(live["metadata"]["labels"]["team"], owner, "{name}");
        assert_eq!(pod["nodeSelector"], json!({ "disk": owner }), "{name}");
        assert_eq!(
            pod["tolerations"],
            json!([{ "key": owner, "operator": "Exists" }]),
            "{name}"
        );
        let resources = match own_of_agent {
            true => json!({ "limits": { "memory": "1Gi" }, "requests": { "memory": "1Gi" } }),
            false => json!({ "requests": { "cpu": "10m" } }),
        };
        let limits = |resources: &Value| resources["limits"].clone();
        assert_eq!(
            limits(&pod["containers"][0]["resources"]),
            limits(&resources),
            "{name}"
        );
    }
    let server = stage.read(&STATEFUL_SET, names::SERVER).await?;
    let containers = &server["spec"]["template"]["spec"]["containers"];
    assert_eq!(
        containers[0]["resources"],
        json!({ "requests": { "cpu": "10m" } })
    );
    assert_eq!(
        containers[1]["resources"]["limits"],
        json!({ "memory": "2Gi" }),
        "its own size"
    );
    // Nothing of it is written back into operands.
    for operand in [SPIRE_SERVER, SPIFFE_CSI_DRIVER, SPIRE_OIDC] {
        let live = stage.read(&operand, "cluster").await?;
        assert!(
            live["spec"]["tolerations"].is_null() && live["spec"]["labels"].is_null(),
            "{live:#}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn pods_roll_once_when_edits_follow_each_other() -> Result<()> {
    let mut stage = Stage::new("rolls").await?;
    stage.pace.debounce = DEBOUNCE;
    let _running = stage.start("first").await?;
    stage.quickstart().await?;
    stage.all_there().await?;
    let workloads = [
        (STATEFUL_SET, names::SERVER, 1),
        (DAEMON_SET, names::AGENT, 1),
        (DAEMON_SET, names::CSI_DRIVER, 0),
    ];
    for name in ["one", "two", "three"] {
        stage.edit(&ZTWIM, json!({ "clusterName": name })).await?;
        // The operands follow each edit at once.
        stage
            .until(&SPIRE_SERVER, "cluster", |live| {
                live["spec"]["clusterName"] == name
            })
            .await?;
    }
    stage
        .file_has(names::SERVER, names::SERVER_CONF, "\"three\"")
        .await?;
    stage
        .file_has(names::AGENT, names::AGENT_CONF, "\"three\"")
        .await?;
    for operand in [SPIRE_SERVER, SPIRE_AGENT] {
        stage
            .says(&operand, "ConfigurationValid", "True", "ConfigurationValid")
            .await?;
    }
    for (kind, name, rolls) in workloads {
        let generation = &stage.read(&kind, name).await?["metadata"]["generation"];
        assert_eq!(*generation, 1 + rolls, "{name}");
    }
    Ok(())
}
