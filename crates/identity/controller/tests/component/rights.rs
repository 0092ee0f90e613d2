//! Rights used are rights granted.

use anyhow::Result;
use kube::api::DeleteParams;
use serde_json::json;
use trustplane_api::identity::{SPIFFE_CSI_DRIVER, SPIRE_AGENT, SPIRE_OIDC, SPIRE_SERVER, ZTWIM, names};
use trustplane_identity_controller::rights;
use trustplane_kit::rights::Place;
use trustplane_plan::kinds::CLUSTER_ROLE_BINDING;
use trustplane_testkit::audit::{Mark, granted};
use trustplane_testkit::proxy::{Answer, Fault, Match, Proxy, Rule, Verb};
use trustplane_testkit::{DEADLINE, Rules};

use crate::children::{CHILDREN, children_of};
use crate::stage::{KINDS, OPERANDS, Stage};
use crate::workloads::AllPodsRun;

/// What no request shows: the API server asks for it on the way of another request.
const ASIDE: [&str; 6] = [
    // Of whoever changes owner references, by the admission plugin OwnerReferencesPermissionEnforcement.
    "update zerotrustworkloadidentitymanagers/finalizers (operator.openshift.io) named \"cluster\" in the cluster",
    "delete spireagents (operator.openshift.io) named \"cluster\" in the cluster",
    "delete spireservers (operator.openshift.io) named \"cluster\" in the cluster",
    "delete spiffecsidrivers (operator.openshift.io) named \"cluster\" in the cluster",
    "delete spireoidcdiscoveryproviders (operator.openshift.io) named \"cluster\" in the cluster",
    // Of whoever binds a role with more rights than their own.
    "bind clusterroles (rbac.authorization.k8s.io)",
];

#[tokio::test]
async fn rights_used_are_rights_granted() -> Result<()> {
    let stage = Stage::new("least").await?;
    let proxy = Proxy::start(stage.sandbox.plane()).await?;
    let mark = Mark::now(stage.sandbox.plane()).await?;
    // A server that does not stream lists is listed by pages: the right to list is for that.
    let streamed = proxy.add(Rule::new(
        Match::streamed_lists(),
        Fault::Answer(Answer::invalid()),
    ));
    let running = stage.start_through("first", &proxy).await?;
    let pods = AllPodsRun::new(&stage);
    // ZTWIM gets a value that only an operand has.
    stage.apply(&ZTWIM, json!({ "clusterName": "demo" })).await?;
    stage
        .apply(&SPIRE_SERVER, json!({ "trustDomain": "example.org" }))
        .await?;
    stage
        .until(&ZTWIM, "cluster", |live| {
            live["spec"]["trustDomain"] == "example.org"
        })
        .await?;
    stage.quickstart().await?;
    stage.all_there().await?;
    stage.is_ready().await?;
    for kind in OPERANDS {
        stage
            .until(&kind, "cluster", |live| {
                live["metadata"]["ownerReferences"][0]["controller"] == true
            })
            .await?;
    }
    for (kind, name) in children_of(None).filter(|(kind, _)| *kind == CLUSTER_ROLE_BINDING) {
        stage.there(&kind, name).await?;
    }
    // Every child changes.
    stage.edit(&ZTWIM, json!({ "labels": { "team": "x" } })).await?;
    for (_, kind, name, _) in CHILDREN {
        stage
            .until(&kind, name, |live| live["metadata"]["labels"]["team"] == "x")
            .await?;
    }
    // Somebody else has written meanwhile: the object is read, and written again.
    let conflict = |resource: &str| {
        Rule::new(
            Match::verb(Verb::Patch).resource(resource),
            Fault::Answer(Answer::conflict()),
        )
        .once()
    };
    for kind in KINDS {
        proxy.add(conflict(&kind.plural));
    }
    proxy.add(conflict("events"));
    stage.edit(&ZTWIM, json!({ "clusterName": "second" })).await?;
    stage
        .file_has(names::AGENT, names::AGENT_CONF, "\"second\"")
        .await?;
    stage
        .edit(&SPIFFE_CSI_DRIVER, json!({ "pluginName": "csi.example.org" }))
        .await?;
    stage
        .says(
            &SPIRE_OIDC,
            "ConfigurationValid",
            "False",
            "ConfigurationConflict",
        )
        .await?;
    stage
        .edit(&SPIRE_OIDC, json!({ "csiDriverName": "csi.example.org" }))
        .await?;
    stage.is_ready().await?;
    drop(pods);
    for operand in [SPIRE_OIDC, SPIFFE_CSI_DRIVER, SPIRE_AGENT, SPIRE_SERVER] {
        stage
            .delete(&operand, "cluster", &DeleteParams::default())
            .await?;
    }
    for (kind, name) in children_of(None) {
        stage.gone(&kind, name).await?;
    }
    proxy
        .answered(&Match::verb(Verb::Create).resource("events"), 0, DEADLINE)
        .await?;
    running.kill().await?;
    assert!(streamed.count() > 0);

    let audit = mark.since().await?;
    let report = audit.rights(&stage.account);
    assert!(report.beyond.is_empty(), "{report}");
    // The rights of the process are used by others too, and tested there.
    let rights = rights();
    let own = granted(&Rules {
        cluster: rights.of(Place::Cluster),
        namespaced: [rights.of(Place::Home), rights.of(Place::Served)].concat(),
    });
    let unused: Vec<String> = report
        .unused
        .intersection(&own)
        .map(ToString::to_string)
        .collect();
    let unseen: Vec<_> = unused
        .iter()
        .filter(|right| !ASIDE.iter().any(|aside| right.starts_with(aside)))
        .collect();
    assert!(unseen.is_empty(), "{unseen:#?}");
    Ok(())
}
