//! All of SPIRE at work.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use trustplane_api::identity::names;
use trustplane_identity_controller::roles;
use trustplane_plan::Manifest;
use trustplane_plan::kinds::{DAEMON_SET, SERVICE_ACCOUNT};
use trustplane_testkit::audit::{Audit, Event, Mark, granted};
use trustplane_testkit::{Rules, Sandbox};

use crate::container;
use crate::node::Node;
use crate::oidc::Provider;
use crate::pod::Pod;
use crate::program::Program;
use crate::server::Server;
use crate::stage::{Stage, applied, pod_of};

/// The guide's pod that reads its SVID.
const WORKLOAD: &str = include_str!("../../../../../docs/guide/examples/identity/workload.yaml");
/// The server may write a ConfigMap of this name only if its rights are for this name.
const BUNDLE: &str = "trust.bundle";

#[tokio::test]
async fn spire_runs_as_the_operands_say() -> Result<()> {
    let mut stage = Stage::new().await?;
    let mark = Mark::now(stage.sandbox.plane()).await?;
    let node = Node::new(&stage.sandbox).await?;
    let mut server = Server::start(&stage, &node).await?;
    server.has_written(&stage).await?;
    stage.shared.bundle = BUNDLE.to_owned();
    stage.apply(stage.server()).await?;
    server.restart().await?;
    server.has_written(&stage).await?;

    let (_pod, agent) = attested(&stage, &node, &server).await?;
    let elsewhere = Sandbox::on(stage.sandbox.plane().clone(), "shop").await?;
    let workload = workload(&node, &elsewhere).await?;
    let provider = Provider::new(&stage, &node).await?;
    let mut manager = server.start_manager().await?;
    entries_are(&stage, &server, &mut manager, [&workload, &provider.pod]).await?;
    server.webhook_judges(&stage, &mut manager).await?;

    let mut reader = container::start(&workload, "reader").await?;
    let id = format!("spiffe://example.org/ns/{}/sa/web", elsewhere.namespace());
    reader.prints(&id).await.with_context(|| agent.log())?;
    provider
        .serves(&stage, &server)
        .await
        .with_context(|| agent.log())?;
    rights_are_enough(&stage, &mark.since().await?)
}

/// The agent, attested by the token of its pod.
async fn attested(stage: &Stage, node: &Arc<Node>, server: &Server) -> Result<(Pod, Program)> {
    let objects = stage.agent();
    stage.apply(objects.clone()).await?;
    let pod = node.admit(pod_of(&objects, &DAEMON_SET)?).await?;
    let service = server.behind(stage, names::SERVER, 443).await?;
    node.lead(&node.network, 443, service).await?;
    pod.knows_host(&format!("{}.{}", names::SERVER, stage.shared.namespace));
    let mut agent = container::start(&pod, "spire-agent").await?;
    agent.ready().await?;
    let list = server.says(&["agent", "list"]).await?;
    ensure!(
        list["agents"][0]["id"] == id(&parent(stage, node)),
        "{list:#}\n{}",
        agent.log()
    );
    Ok((pod, agent))
}

/// The path of the agent of the node.
fn parent(stage: &Stage, node: &Node) -> String {
    format!("/spire/agent/k8s_psat/{}/{}", stage.shared.cluster_name, node.uid)
}

/// A SPIFFE ID in the trust domain, as the console of the server shows it.
fn id(path: &str) -> Value {
    json!({ "path": path, "trust_domain": "example.org" })
}

/// The guide's pod, in another namespace than the guide's.
async fn workload(node: &Arc<Node>, place: &Sandbox) -> Result<Pod> {
    let objects: Vec<Value> = serde_saphyr::from_multiple(WORKLOAD)?;
    let mut pod = objects
        .into_iter()
        .find(|object| object["kind"] == "Pod")
        .context("a pod")?;
    let account = pod["spec"]["serviceAccountName"].as_str().context("an account")?;
    applied(
        &node.client,
        &Manifest::new(SERVICE_ACCOUNT, Some(place.namespace()), account),
    )
    .await?;
    pod["metadata"]["namespace"] = place.namespace().into();
    node.admit(pod).await
}

/// Waits until the server has an entry for each of the pods, and no other, as the ClusterSPIFFEIDs of the operands say.
async fn entries_are(stage: &Stage, server: &Server, manager: &mut Program, pods: [&Pod; 2]) -> Result<()> {
    let list = async || -> Result<Option<Vec<Value>>> {
        let list = server.says(&["entry", "show"]).await?;
        let entries = list["entries"].as_array().cloned().unwrap_or_default();
        Ok((entries.len() >= pods.len()).then_some(entries))
    };
    let entries = manager.until("an entry for each pod", list).await?;
    ensure!(entries.len() == pods.len(), "{entries:#?}");
    for (pod, hint) in pods.into_iter().zip(["default", "oidc-discovery-provider"]) {
        let found = entries.iter().find(|entry| entry["hint"] == hint);
        let entry = found.with_context(|| format!("no entry {hint}: {entries:#?}"))?;
        let uid = format!("pod-uid:{}", pod.text("/metadata/uid"));
        let account = pod.text("/spec/serviceAccountName");
        let path = format!("/ns/{}/sa/{account}", pod.namespace());
        ensure!(entry["spiffe_id"] == id(&path), "{entry:#}");
        ensure!(entry["parent_id"] == id(&parent(stage, &pod.node)), "{entry:#}");
        ensure!(
            entry["selectors"] == json!([{ "type": "k8s", "value": uid }]),
            "{entry:#}"
        );
        let prefix = format!("{}.", stage.shared.cluster_name);
        ensure!(
            entry["id"].as_str().is_some_and(|id| id.starts_with(&prefix)),
            "{entry:#}"
        );
    }
    Ok(())
}

/// Fails if the API server refused something to one of the programs, or if the server did not use what it may do.
fn rights_are_enough(stage: &Stage, audit: &Audit) -> Result<()> {
    let events = |account: &str| -> Vec<&Event> {
        let user = format!("system:serviceaccount:{}:{account}", stage.shared.namespace);
        audit
            .events()
            .iter()
            .filter(|event| event.user() == user)
            .collect()
    };
    for account in [names::SERVER, names::AGENT, names::OIDC] {
        let denied: Vec<_> = events(account)
            .into_iter()
            .filter(|event| event.denied())
            .collect();
        ensure!(denied.is_empty(), "{denied:#?}");
    }
    let roles = roles();
    let role = roles
        .iter()
        .find(|role| role.name == names::SERVER_ROLE)
        .context("a role")?;
    for right in granted(&Rules {
        cluster: role.rules.clone(),
        namespaced: Vec::new(),
    }) {
        let asked = events(names::SERVER).into_iter();
        let mut used = asked.filter(|event| event.verb == right.verb && event.resource() == right.resource);
        ensure!(used.next().is_some(), "granted, but never used: {right}");
    }
    Ok(())
}
