//! The platform's state equals the cluster's, whatever happened in between.

use std::time::{Duration, Instant};

use anyhow::Result;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;
use trustplane_testkit::platform::{Endpoint, Fault, Match, Rule, Settings, Snapshots};
use trustplane_testkit::proxy::{self, Proxy};
use trustplane_testkit::{DEADLINE, platform};

use crate::stage::{AGENT, Stage};

/// How long the platform is away while the cluster changes.
pub const OUTAGE: Duration = Duration::from_secs(60);

pub async fn furnish(stage: &Stage, objects: usize) -> Result<()> {
    for number in 0..objects {
        stage
            .config_map(&format!("map-{number}"), json!({"key": "value"}))
            .await?;
    }
    for number in 0..10 {
        stage.pod(&format!("pod-{number}")).await?;
    }
    // A name that the API server escapes.
    let role = serde_json::from_value(json!({"metadata": {"name": "dev & <ops>"}}))?;
    let roles: Api<ClusterRole> = Api::all(stage.client());
    roles.create(&PostParams::default(), &role).await?;
    Ok(())
}

/// Lets pods come, change and go for so long.
pub async fn change_for(stage: &Stage, time: Duration) -> Result<()> {
    let begin = Instant::now();
    let mut pace = tokio::time::interval(Duration::from_millis(200));
    let mut number = 0;
    while begin.elapsed() < time {
        pace.tick().await;
        match number % 3 {
            0 => drop(stage.pod(&format!("late-{number}")).await?),
            1 => stage.label("pod-1", number).await?,
            _ => stage.remove_pod(&format!("late-{}", number - 2)).await?,
        }
        number += 1;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_platform_equals_the_cluster_after_a_start_and_an_outage_under_change() -> Result<()> {
    let stage = Stage::new("outage", Settings::default()).await?;
    furnish(&stage, 490).await?;
    stage.agent(AGENT, json!({})).await?;
    let (_instance, running) = stage.start("first").await?;
    stage.equal("a start with 500 objects").await?;
    let (snapshots, events) = stage.platform.read(|state| {
        (
            state.accepted(Endpoint::Snapshot),
            state.accepted(Endpoint::Events),
        )
    });
    assert_eq!(snapshots, 1, "one snapshot");
    assert!(events < 50, "what the snapshot held is not sent again: {events}");
    assert_eq!(
        stage.platform.read(|state| state.clusters().to_vec()),
        [stage.cluster_uid().await?]
    );

    stage.platform.close().await;
    change_for(&stage, OUTAGE).await?;
    stage
        .says(AGENT, "Available", "False", "PlatformUnreachable")
        .await?;
    let all = DeleteParams::default();
    let maps: Api<ConfigMap> = stage.sandbox.api();
    maps.delete_collection(
        &all,
        &ListParams::default().fields("metadata.name!=kube-root-ca.crt"),
    )
    .await?;
    stage.platform.open().await?;
    stage.equal("an outage under change").await?;
    stage.says(AGENT, "Available", "True", "AgentRunning").await?;
    stage.kill(running).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_platform_equals_the_cluster_after_each_refusal() -> Result<()> {
    // Deletions have to be told, not only left out of snapshots.
    let settings = Settings {
        snapshots: Snapshots::Merge,
        ..Settings::default()
    };
    let stage = Stage::new("refusals", settings).await?;
    furnish(&stage, 5).await?;
    stage.agent(AGENT, json!({})).await?;
    let proxy = Proxy::start(stage.sandbox.plane()).await?;
    let (_instance, running) = stage.start_through("first", &proxy).await?;
    stage.equal("a start").await?;

    expire(&proxy, "pods").await?;
    stage.label("pod-8", 1).await?;
    stage.remove_pod("pod-9").await?;
    stage.equal("410").await?;

    stage.platform.revoke_tokens();
    stage.label("pod-0", 1).await?;
    stage.equal("401").await?;
    assert_eq!(
        stage.platform.read(|state| state.accepted(Endpoint::Token)),
        2,
        "one refresh"
    );

    let equal = async |after: &str| stage.equal(after).await;
    refuse(&stage, equal).await?;

    take_right(&stage, "secrets", false).await?;
    stage
        .says(
            AGENT,
            "Degraded",
            "True",
            "not permitted to list and watch secrets",
        )
        .await?;
    stage.label("pod-6", 1).await?;
    stage.equal("a right that was taken").await?;
    take_right(&stage, "secrets", true).await?;
    stage.says(AGENT, "Degraded", "False", "AgentHealthy").await?;
    stage.equal("a right that was given back").await?;
    stage.kill(running).await?;

    // A platform that never sweeps hears of a deletion only if the agent ran at that time.
    let before = stage.platform.read(|state| state.accepted(Endpoint::Snapshot));
    let (_instance, running) = stage.start("second").await?;
    let is_sent = |state: &platform::State| state.accepted(Endpoint::Snapshot) > before;
    stage.platform.wait("a snapshot", is_sent).await?;
    stage.remove_pod("pod-7").await?;
    stage.equal("a kill and a new start").await?;
    stage.kill(running).await
}

/// Lets the platform refuse requests in every way that passes: too many, broken, answers that never come, one odd object. The receiver
/// is `equal` to the cluster after each of them.
pub async fn refuse(stage: &Stage, equal: impl AsyncFn(&str) -> Result<()>) -> Result<()> {
    let busy = stage
        .platform
        .add(Rule::new(Match::on(Endpoint::Events), Fault::busy(429, 2)).once());
    stage.label("pod-0", 2).await?;
    busy.fired(1, DEADLINE).await?;
    stage.label("pod-1", 2).await?;
    stage.remove_pod("pod-2").await?;
    equal("429").await?;
    assert_waited(stage, Duration::from_secs(2));

    // No change reaches the platform before the third 503, and the first one that does is not answered.
    let broken = stage
        .platform
        .add(Rule::new(Match::any(), Fault::status(503)).times(3));
    let cut = stage
        .platform
        .add(Rule::new(Match::any(), Fault::CutAnswer).once());
    for step in 3..6 {
        stage.label("pod-3", step).await?;
        stage.label("pod-4", step).await?;
    }
    equal("5xx and answers that never came").await?;
    broken.fired(3, DEADLINE).await?;
    cut.fired(1, DEADLINE).await?;

    let odd = stage.pod("odd").await?.metadata.uid.unwrap();
    let on_odd = Match::on(Endpoint::Events).uid(&odd);
    let unwanted = stage.platform.add(Rule::new(on_odd, Fault::status(422)));
    stage.label("odd", 1).await?;
    stage.label("pod-5", 1).await?;
    stage.says(AGENT, "Degraded", "True", "odd (422)").await?;
    unwanted.end();
    stage.label("odd", 2).await?;
    equal("422 for one object").await?;
    stage.says(AGENT, "Degraded", "False", "AgentHealthy").await?;
    Ok(())
}

/// The request that was answered with 429 was not made again before the time that the platform had asked for.
fn assert_waited(stage: &Stage, wait: Duration) {
    stage.platform.read(|state| {
        let journal = state.journal();
        let mut entries = journal.iter().skip_while(|entry| entry.status != Some(429));
        let busy = entries.next().expect("a 429");
        let again = entries.find(|entry| entry.uid == busy.uid).expect("another try");
        let waited = again.received.duration_since(busy.received);
        assert!(waited >= wait, "{waited:?}");
    });
}

/// The API server no longer has the version from which the watch of a kind goes on (410).
pub async fn expire(proxy: &Proxy, resource: &str) -> Result<()> {
    let watching = proxy::Match::verb(proxy::Verb::Watch).resource(resource);
    let gone = proxy::Fault::Answer(proxy::Answer::expired());
    let expired = proxy.add(proxy::Rule::new(watching, gone).once());
    expired.fired(1, DEADLINE).await
}

/// Takes a right of the account, or gives it back.
pub async fn take_right(stage: &Stage, resource: &str, granted: bool) -> Result<()> {
    let roles: Api<ClusterRole> = Api::all(stage.client());
    let all = roles.list(&ListParams::default()).await?;
    let ours = all
        .items
        .into_iter()
        .find(|role| {
            let rules = role.rules.iter().flatten();
            rules
                .into_iter()
                .any(|rule| rule.resources.iter().flatten().any(|one| one == "obsykagents"))
        })
        .expect("the role of the account");
    let mut rules = ours.rules.clone().unwrap_or_default();
    for rule in &mut rules {
        let named = rule
            .resources
            .iter()
            .flatten()
            .any(|one| one == resource || one == "disabled");
        if named && rule.resource_names.is_none() {
            rule.resources = Some(vec![if granted { resource } else { "disabled" }.to_owned()]);
        }
    }
    let name = ours.metadata.name.unwrap_or_default();
    let patch = Patch::Merge(json!({ "rules": rules }));
    roles.patch(&name, &PatchParams::default(), &patch).await?;
    Ok(())
}
