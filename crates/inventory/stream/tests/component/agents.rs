//! The life of an `ObsykAgent`: what it says of itself, and what an edit does.

use anyhow::Result;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};
use trustplane_api::inventory::ObsykAgent;
use trustplane_testkit::platform::{Endpoint, Settings};
use trustplane_testkit::{DEADLINE, Sandbox, wait_for, wait_for_some};

use crate::stage::{AGENT, SECRET, Stage, key_pair};

/// The samples of the Obsyk operator, and what its chart renders.
fn samples() -> Vec<Value> {
    let spec = |more: Value| {
        let mut spec = json!({
            "platformURL": "https://api.obsyk.ai", "clusterName": "production-us-east-1",
            "credentialsSecretRef": {"name": "obsyk-credentials"},
        });
        if let (Some(spec), Value::Object(more)) = (spec.as_object_mut(), more) {
            spec.extend(more);
        }
        json!({"apiVersion": "obsyk.io/v1", "kind": "ObsykAgent", "metadata": {"name": "sample"}, "spec": spec})
    };
    vec![
        spec(json!({})),
        spec(json!({"syncInterval": "5m"})),
        spec(json!({"syncInterval": "1h30m0s", "rateLimit": {"eventsPerSecond": 10, "burstSize": 20}})),
        spec(json!({"platformURL": "http://localhost:8080", "rateLimit": {}})),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn the_samples_of_the_original_apply_and_wrong_values_are_refused() -> Result<()> {
    let stage = Stage::new("samples", Settings::default()).await?;
    let agents = stage.agents();
    let strict = PostParams {
        dry_run: true,
        field_manager: None,
    };
    for sample in samples() {
        let agent: ObsykAgent = serde_json::from_value(sample)?;
        agents.create(&strict, &agent).await?;
    }
    for (field, value, word) in [
        ("platformURL", json!("ftp://hub"), "platformURL"),
        ("clusterName", json!(""), "clusterName"),
        ("syncInterval", json!("abc"), "at least 5s"),
        ("syncInterval", json!("1s"), "at least 5s"),
        ("rateLimit", json!({"eventsPerSecond": 0}), "eventsPerSecond"),
        ("rateLimit", json!({"burstSize": 1001}), "burstSize"),
    ] {
        let mut sample = samples().remove(0);
        sample["spec"][field] = value.clone();
        let agent: ObsykAgent = serde_json::from_value(sample)?;
        let error = agents.create(&strict, &agent).await.unwrap_err().to_string();
        assert!(error.contains(word), "{field} {value}: {error}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_follows_its_credentials_and_its_spec_without_a_restart() -> Result<()> {
    let stage = Stage::new("edits", Settings::default()).await?;
    let (_instance, running) = stage.start("first").await?;
    let secrets: Api<Secret> = stage.sandbox.api();

    secrets.delete(SECRET, &DeleteParams::default()).await?;
    stage.agent(AGENT, json!({})).await?;
    stage.says(AGENT, "Degraded", "True", "does not exist").await?;
    let empty = serde_json::from_value(json!({"metadata": {"name": SECRET}}))?;
    secrets.create(&PostParams::default(), &empty).await?;
    stage
        .says(AGENT, "Degraded", "True", "client_id is missing")
        .await?;
    stage.credentials("client-1", "nonsense").await?;
    let told = stage
        .says(AGENT, "Degraded", "True", "private_key must be PEM")
        .await?;
    let reason = told
        .status
        .unwrap()
        .conditions
        .get("Degraded")
        .unwrap()
        .reason
        .clone();
    assert_eq!(reason, "AuthenticationError");
    assert_eq!(
        stage.platform.read(|state| state.received(Endpoint::Token)),
        0,
        "nothing was sent"
    );

    // A key that the platform does not know.
    let (private, public) = key_pair();
    stage.credentials("client-1", &private).await?;
    stage
        .says(AGENT, "Degraded", "True", "the platform refuses the credentials")
        .await?;
    stage.platform.register("client-1", &public)?;
    stage.credentials("client-1", &stage.private_key).await?;
    stage
        .says(AGENT, "Degraded", "True", "the platform refuses the credentials")
        .await?;
    stage.credentials("client-1", &private).await?;
    let good = stage.says(AGENT, "Available", "True", "AgentRunning").await?;
    stage.equal("credentials that were mended").await?;
    let status = good.status.unwrap();
    assert_eq!(
        status.cluster_uid.as_deref(),
        Some(stage.cluster_uid().await?.as_str())
    );
    assert!(status.last_snapshot_time.is_some() && status.observed_generation.is_some());

    // Another name at the platform: a new snapshot says so.
    let before = stage.platform.read(|state| state.accepted(Endpoint::Snapshot));
    stage.edit(AGENT, json!({"clusterName": "renamed"})).await?;
    stage
        .platform
        .wait("a snapshot with the new name", |state| {
            let snapshots = state
                .journal()
                .iter()
                .filter(|entry| entry.endpoint == Endpoint::Snapshot);
            let named = snapshots.filter(|entry| entry.body.windows(9).any(|word| word == b"\"renamed\""));
            state.accepted(Endpoint::Snapshot) > before && named.count() > 0
        })
        .await?;

    // Namespaces that are excluded vanish.
    let home = stage.sandbox.namespace().to_owned();
    stage.edit(AGENT, json!({"excludeNamespaces": [home]})).await?;
    stage
        .equal_but("an exclusion", |(kind, _), object| {
            let namespace = if kind == "Namespace" {
                &object["name"]
            } else {
                &object["namespace"]
            };
            namespace != &json!(home)
        })
        .await?;

    // A URL that cannot be used ends the stream and says why.
    stage
        .edit(AGENT, json!({"platformURL": "https://user:pw@hub"}))
        .await?;
    stage
        .says(AGENT, "Degraded", "True", "spec.platformURL must be")
        .await?;
    stage
        .edit(
            AGENT,
            json!({"platformURL": stage.platform.url(), "excludeNamespaces": []}),
        )
        .await?;
    stage.equal("a URL that was mended").await?;

    stage.agents().delete(AGENT, &DeleteParams::default()).await?;
    wait_for(&stage.agents(), AGENT, DEADLINE, |live| live.is_none()).await?;
    stage.kill(running).await
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_are_served_side_by_side_and_only_at_home() -> Result<()> {
    let stage = Stage::new("several", Settings::default()).await?;
    let other = trustplane_testkit::platform::Platform::start(Settings {
        tls: true,
        ..Settings::default()
    })
    .await?;
    let (private, public) = key_pair();
    stage.platform.register("client-1", &public)?;
    other.register("client-1", &public)?;
    stage.credentials("client-1", &private).await?;
    let elsewhere = Sandbox::on(stage.sandbox.plane().clone(), "elsewhere").await?;
    stage.agent(AGENT, json!({})).await?;
    let tls = json!({"platformURL": other.url(), "caBundle": other.ca_bundle()});
    stage.agent("second", tls).await?;
    let agent: ObsykAgent = serde_json::from_value(json!({
        "metadata": {"name": "far"},
        "spec": {"platformURL": "https://hub", "clusterName": "far", "credentialsSecretRef": {"name": SECRET}},
    }))?;
    elsewhere
        .api::<ObsykAgent>()
        .create(&PostParams::default(), &agent)
        .await?;
    let (_instance, running) = stage.start("first").await?;
    stage.equal("a start").await?;
    let expected = stage.expected().await?;
    other
        .wait("the second platform", |state| state.projections() == expected)
        .await?;
    let far = |agent: &ObsykAgent| {
        let status = agent.status.clone().unwrap_or_default();
        let degraded = status.conditions.get("Degraded").cloned();
        degraded.is_some_and(|one| {
            one.message
                .contains("not permitted to get, list and watch the Secret")
        })
    };
    wait_for_some(&elsewhere.api::<ObsykAgent>(), "far", DEADLINE, far).await?;

    // The first stops, the second goes on.
    stage.agents().delete(AGENT, &DeleteParams::default()).await?;
    stage.pod("after").await?;
    other
        .wait("the pod", |state| {
            state
                .projections()
                .values()
                .any(|object| object["name"] == "after")
        })
        .await?;
    let late = stage.platform.read(|state| {
        state
            .projections()
            .values()
            .any(|object| object["name"] == "after")
    });
    assert!(!late, "a platform whose agent was deleted hears nothing more");
    stage.kill(running).await
}
