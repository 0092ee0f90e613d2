//! Crashes at every write, and watches that lag behind: the end state is the same.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service, ServiceAccount};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::api::storage::v1::CSIDriver;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use trustplane_api::identity::{
    ClusterSpiffeId, SpiffeCsiDriver, SpireAgent, SpireOidcDiscoveryProvider, SpireServer, ZTWIM,
    ZeroTrustWorkloadIdentityManager,
};
use trustplane_plan::kinds::STATEFUL_SET;
use trustplane_plan::{FINGERPRINT, OWNER_UID};
use trustplane_testkit::DEADLINE;
use trustplane_testkit::crash::Picture;
use trustplane_testkit::proxy::{EventFault, EventMatch, Fault, Match, Moment, Proxy, Rule, Verb};

use crate::children::children_of;
use crate::stage::{KINDS, Stage};
use crate::workloads::AllPodsRun;

const OURS: &str = "app.kubernetes.io/managed-by=zero-trust-workload-identity-manager";

/// More than two looks at each of the five keys.
const QUIET: usize = 12;

/// Everything that the capability writes, but for what is random, or follows from a uid.
fn picture() -> Picture {
    let people = Picture::default()
        .cluster_scoped::<ZeroTrustWorkloadIdentityManager>(None)
        .cluster_scoped::<SpireServer>(None)
        .cluster_scoped::<SpireAgent>(None)
        .cluster_scoped::<SpiffeCsiDriver>(None)
        .cluster_scoped::<SpireOidcDiscoveryProvider>(None);
    let children = people
        .cluster_scoped::<ClusterRoleBinding>(Some(OURS))
        .cluster_scoped::<ValidatingWebhookConfiguration>(Some(OURS))
        .cluster_scoped::<CSIDriver>(Some(OURS))
        .cluster_scoped::<ClusterSpiffeId>(Some(OURS))
        .labelled::<ServiceAccount>(OURS)
        .labelled::<Service>(OURS)
        .labelled::<ConfigMap>(OURS)
        .labelled::<Secret>(OURS)
        .labelled::<Role>(OURS)
        .labelled::<RoleBinding>(OURS)
        .labelled::<PodDisruptionBudget>(OURS)
        .labelled::<StatefulSet>(OURS)
        .labelled::<DaemonSet>(OURS)
        .labelled::<Deployment>(OURS);
    let random = [
        FINGERPRINT,
        OWNER_UID,
        "clusterIP",
        "clusterIPs",
        "tls.crt",
        "tls.key",
        "trustplane.io/certificate-ends",
    ];
    random.into_iter().fold(children, Picture::without)
}

/// A process that dies at its first write, and one after the other in its place, until one finds nothing left to write and the state is
/// the expected one. Gives how many died.
async fn crash_at_every_write(stage: &Stage, proxy: &Proxy, expected: &Value) -> Result<usize> {
    for crashes in 0.. {
        let name = format!("try-{crashes}");
        let instance = stage.account.instance(&name).await?.through(proxy);
        let writes = Match::work().except(&["events"]).by(&instance);
        let halt = proxy.add(Rule::new(writes.clone(), Fault::Halt(Moment::After)).once());
        let running = stage.start_as(instance).await?;
        tokio::select! {
            biased;
            fired = halt.fired(1, 2 * DEADLINE) => {
                fired?;
                proxy.answered(&writes, 0, DEADLINE).await?;
            }
            ended = is_at_rest(stage, expected) => ended?,
        }
        running.kill().await?;
        halt.end();
        if halt.count() == 0 {
            return Ok(crashes);
        }
    }
    unreachable!("numbers do not end")
}

/// Waits until everything was looked at, and the state is the expected one.
async fn is_at_rest(stage: &Stage, expected: &Value) -> Result<()> {
    let mut last = Value::Null;
    for _ in 0..20 {
        stage.looks.more(QUIET).await?;
        last = picture().of(&stage.sandbox).await?;
        if last == *expected {
            return Ok(());
        }
    }
    let differ = |one: &Value, other: &Value| -> Vec<Value> {
        let others = other.as_array().cloned().unwrap_or_default();
        let all = one.as_array().cloned().unwrap_or_default();
        all.into_iter()
            .filter(|object| !others.contains(object))
            .collect()
    };
    let (undisturbed, found) = (differ(expected, &last), differ(&last, expected));
    bail!("these differ\nundisturbed: {undisturbed:#?}\nwith crashes: {found:#?}")
}

async fn delete_all(stage: &Stage) -> Result<()> {
    // ZTWIM is the last, or the garbage collector would take the operands.
    for kind in KINDS.into_iter().rev() {
        stage.delete(&kind, "cluster", &DeleteParams::default()).await?;
        stage.gone(&kind, "cluster").await?;
    }
    Ok(())
}

#[tokio::test]
async fn end_state_is_the_same_when_the_process_dies_at_every_write() -> Result<()> {
    let mut stage = Stage::new("crash").await?;
    stage.resync_every(Duration::from_millis(200));
    let _pods = AllPodsRun::new(&stage);
    let change = json!({ "clusterName": "second", "labels": { "team": "x" } });

    let running = stage.start("undisturbed").await?;
    stage.quickstart().await?;
    stage.all_there().await?;
    stage.is_ready().await?;
    stage.looks.more(QUIET).await?;
    let installed = picture().of(&stage.sandbox).await?;
    stage.edit(&ZTWIM, change.clone()).await?;
    stage.file_has("spire-agent", "agent.conf", "\"second\"").await?;
    stage.is_ready().await?;
    stage.looks.more(QUIET).await?;
    let changed = picture().of(&stage.sandbox).await?;
    delete_all(&stage).await?;
    for (kind, name) in children_of(None) {
        stage.gone(&kind, name).await?;
    }
    let empty = picture().of(&stage.sandbox).await?;
    running.kill().await?;

    let proxy = Proxy::start(stage.sandbox.plane()).await?;
    stage.quickstart().await?;
    let crashes = crash_at_every_write(&stage, &proxy, &installed).await;
    let crashes = crashes.context("the installation")?;
    assert!(crashes > children_of(None).count(), "only {crashes} crashes");
    stage.edit(&ZTWIM, change).await?;
    let crashes = crash_at_every_write(&stage, &proxy, &changed).await;
    let crashes = crashes.context("the change")?;
    assert!(
        crashes > children_of(None).count(),
        "every child has the label: only {crashes} crashes"
    );
    delete_all(&stage).await?;
    let crashes = crash_at_every_write(&stage, &proxy, &empty).await;
    let crashes = crashes.context("the deletion")?;
    assert_eq!(crashes, children_of(None).count());
    Ok(())
}

#[tokio::test]
async fn write_that_no_watch_shows_is_not_repeated() -> Result<()> {
    let stage = Stage::new("frozen").await?;
    let proxy = Proxy::start(stage.sandbox.plane()).await?;
    let added = Fault::Events(
        EventMatch::of(&["ADDED"]).name("spire-server"),
        EventFault::Freeze,
    );
    let frozen = proxy.add(Rule::new(Match::verb(Verb::Watch).resource("statefulsets"), added).once());
    let running = stage.start_through("first", &proxy).await?;
    stage.quickstart().await?;
    stage.all_there().await?;
    frozen.fired(1, DEADLINE).await?;
    // An edit has the server looked at, and the store does not have the StatefulSet: it is listed again.
    stage.edit(&ZTWIM, json!({ "clusterName": "second" })).await?;
    stage
        .file_has("spire-server", "server.conf", "\"second\"")
        .await?;
    let changed = |live: &Value| live["metadata"]["generation"] == 2;
    stage.until(&STATEFUL_SET, "spire-server", changed).await?;
    let _pods = AllPodsRun::new(&stage);
    stage.is_ready().await?;
    let writes = Match::writes()
        .resource("statefulsets")
        .subresource("")
        .by(&running.instance);
    let answers: Vec<_> = proxy.requests(&writes).iter().map(|write| write.status).collect();
    assert_eq!(answers, [Some(201), Some(200)], "one makes it, one changes it");
    Ok(())
}
