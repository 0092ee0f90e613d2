//! The life of an `ObsykAgent`: what it says of itself, and what an edit does.

use anyhow::Result;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use trustplane_api::inventory::ObsykAgent;
use trustplane_testkit::platform::{Endpoint, Fault, Match, Rule, Settings, Snapshots, State};
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

/// Creates an agent from this manifest, word for word, with strict validation. Nothing is kept.
async fn create_strictly(stage: &Stage, manifest: &Value) -> Result<Value> {
    let path = format!(
        "/apis/obsyk.io/v1/namespaces/{}/obsykagents?dryRun=All&fieldValidation=Strict",
        stage.sandbox.namespace()
    );
    let request = http::Request::post(path)
        .header("content-type", "application/json")
        .body(serde_json::to_vec(manifest)?)?;
    Ok(stage.client().request(request).await?)
}

#[tokio::test(flavor = "multi_thread")]
async fn samples_of_the_original_apply_and_wrong_values_are_refused() -> Result<()> {
    let stage = Stage::new("samples", Settings::default()).await?;
    for sample in samples() {
        let made = create_strictly(&stage, &sample).await?;
        for (field, value) in sample["spec"].as_object().unwrap() {
            assert!(
                is_within(value, &made["spec"][field]),
                "{field} of {sample}: {made}"
            );
        }
    }
    for (field, value, word) in [
        ("platformURL", json!("ftp://hub"), "platformURL"),
        ("clusterName", json!(""), "clusterName"),
        ("syncInterval", json!("abc"), "at least 5s"),
        ("syncInterval", json!("1s"), "at least 5s"),
        ("rateLimit", json!({"eventsPerSecond": 0}), "eventsPerSecond"),
        ("rateLimit", json!({"burstSize": 1001}), "burstSize"),
        ("rateLimit", json!({"perSecond": 1}), "unknown field"),
        ("platformUrl", json!("https://hub"), "unknown field"),
    ] {
        let mut sample = samples().remove(0);
        sample["spec"][field] = value.clone();
        let error = create_strictly(&stage, &sample).await.unwrap_err().to_string();
        assert!(error.contains(word), "{field} {value}: {error}");
    }
    Ok(())
}

/// Whether everything that was sent is there. Defaults may have come in addition.
fn is_within(sent: &Value, there: &Value) -> bool {
    match sent {
        Value::Object(fields) => fields.iter().all(|(name, value)| is_within(value, &there[name])),
        _ => sent == there,
    }
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
    stage.says(AGENT, "Available", "True", "AgentRunning").await?;
    stage.equal("credentials that were mended").await?;
    // It is available before its first snapshot is accepted.
    let good = stage.says(AGENT, "Syncing", "True", "SyncActive").await?;
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

/// How many requests of each kind a platform has accepted.
fn accepted(state: &State) -> [usize; 4] {
    Endpoint::ALL.map(|endpoint| state.accepted(endpoint))
}

/// Waits until a platform has accepted so many more heartbeats.
async fn beats(platform: &trustplane_testkit::platform::Platform, more: usize) -> Result<()> {
    let before = platform.read(|state| state.accepted(Endpoint::Heartbeat));
    platform
        .wait("heartbeats", |state| {
            state.accepted(Endpoint::Heartbeat) >= before + more
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn pending_deletions_survive_refused_credentials() -> Result<()> {
    let settings = Settings {
        snapshots: Snapshots::Merge,
        ..Settings::default()
    };
    let stage = Stage::new("rotated", settings).await?;
    for n in 0..10 {
        stage.pod(&format!("pod-{n}")).await?;
    }
    stage.agent(AGENT, json!({})).await?;
    let (_instance, running) = stage.start("first").await?;
    stage.equal("a start").await?;
    stage.says(AGENT, "Available", "True", "AgentRunning").await?;
    let [tokens, snapshots, _, _] = stage.platform.read(accepted);

    // A label on the Secret is no change of the credentials.
    let label = Patch::Merge(json!({"metadata": {"labels": {"team": "shop"}}}));
    let secrets: Api<Secret> = stage.sandbox.api();
    secrets.patch(SECRET, &PatchParams::default(), &label).await?;
    stage.equal("a label on the Secret").await?;
    beats(&stage.platform, 2).await?;
    let [tokens_now, snapshots_now, _, _] = stage.platform.read(accepted);
    assert_eq!((tokens_now, snapshots_now), (tokens, snapshots));

    // The platform knows another key from now on. It keeps what no event deletes.
    let (private, public) = key_pair();
    stage.platform.register("client-1", &public)?;
    stage.platform.revoke_tokens();
    for n in 0..10 {
        stage.remove_pod(&format!("pod-{n}")).await?;
    }
    stage
        .says(AGENT, "Degraded", "True", "the platform refuses the credentials")
        .await?;
    stage.credentials("client-1", &private).await?;
    stage.equal("credentials that were mended").await?;
    stage.says(AGENT, "Available", "True", "AgentRunning").await?;
    let [_, snapshots_now, _, _] = stage.platform.read(accepted);
    assert_eq!(snapshots_now, snapshots, "the stream went on");
    stage.kill(running).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_renewed_while_nothing_is_sent() -> Result<()> {
    let stage = Stage::new("renewal", Settings::default()).await?;
    stage.platform.set_expires_in(Some(4));
    stage.agent(AGENT, json!({"syncInterval": "1h"})).await?;
    let (_instance, running) = stage.start("first").await?;
    stage.equal("a start").await?;
    stage.says(AGENT, "Available", "True", "AgentRunning").await?;
    let before = stage.platform.read(accepted);
    stage
        .platform
        .wait("renewals", |state| {
            state.accepted(Endpoint::Token) >= before[0] + 4
        })
        .await?;
    let refused = stage.platform.read(|state| {
        let of = |entry: &&trustplane_testkit::platform::Entry| entry.status == Some(401);
        state.journal().iter().filter(of).count()
    });
    assert_eq!(refused, 0, "no request was made with a token that has ended");
    stage.kill(running).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forbidden_agent_says_so_and_sends_nothing_until_permitted() -> Result<()> {
    let stage = Stage::new("forbidden", Settings::default()).await?;
    stage.agent(AGENT, json!({})).await?;
    let (_instance, running) = stage.start("first").await?;
    stage.equal("a start").await?;
    stage.says(AGENT, "Available", "True", "AgentRunning").await?;
    let rules = [Endpoint::Events, Endpoint::Heartbeat].map(|endpoint| {
        stage
            .platform
            .add(Rule::new(Match::on(endpoint), Fault::status(403)))
    });
    stage.says(AGENT, "Available", "False", "PlatformRefused").await?;
    stage
        .says(
            AGENT,
            "Degraded",
            "True",
            "the platform permits nothing to this client",
        )
        .await?;
    let late = stage.pod("late").await?.metadata.uid.unwrap_or_default();
    // Another key is tried at once; otherwise the platform is asked once in a minute.
    let (private, public) = key_pair();
    stage.platform.register("client-1", &public)?;
    rules.iter().for_each(trustplane_testkit::platform::Script::end);
    stage.credentials("client-1", &private).await?;
    stage.equal("a permission").await?;
    stage.says(AGENT, "Degraded", "False", "AgentHealthy").await?;
    let refused = stage.platform.read(|state| {
        let of = |entry: &&trustplane_testkit::platform::Entry| {
            entry.uid.as_deref() == Some(&late) && entry.status == Some(403)
        };
        state.journal().iter().filter(of).count()
    });
    assert_eq!(refused, 0, "a change waits while the platform permits nothing");
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

    // The first stops, the second goes on. The controller sees the deletion before the edit.
    stage.agents().delete(AGENT, &DeleteParams::default()).await?;
    stage.edit("second", json!({"clusterName": "renamed"})).await?;
    other
        .wait("a snapshot with the new name", |state| {
            let mut journal = state.journal().iter();
            journal.any(|entry| {
                let mut words = entry.body.windows(9);
                entry.endpoint == Endpoint::Snapshot && words.any(|word| word == b"\"renamed\"")
            })
        })
        .await?;
    let received = |state: &State| Endpoint::ALL.map(|endpoint| state.received(endpoint));
    let last = stage.platform.read(received);
    stage.pod("after").await?;
    other
        .wait("the pod", |state| {
            state
                .projections()
                .values()
                .any(|object| object["name"] == "after")
        })
        .await?;
    // Both have the same interval.
    beats(&other, 2).await?;
    assert_eq!(
        stage.platform.read(received),
        last,
        "a platform whose agent was deleted hears nothing more"
    );
    stage.kill(running).await
}
