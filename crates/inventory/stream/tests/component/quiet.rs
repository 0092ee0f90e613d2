//! Silence at rest, exactly the granted rights, and no value anywhere.

use anyhow::Result;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use trustplane_testkit::Log;
use trustplane_testkit::audit::{Mark, granted};
use trustplane_testkit::canary::{Canary, Search};
use trustplane_testkit::platform::{Endpoint, Settings};
use trustplane_testkit::proxy::{self, Proxy};

use crate::stage::{AGENT, Stage, own_rules};

#[tokio::test(flavor = "multi_thread")]
async fn at_rest_only_heartbeats_are_sent_and_no_value_ever() -> Result<()> {
    let log = Log::collect()?;
    let stage = Stage::new("quiet", Settings::default()).await?;
    let begin = Mark::now(stage.sandbox.plane()).await?;
    let canary = Canary::new("a value of a Secret, a ConfigMap, an annotation and a variable");
    let manifest = json!({"kind": "Secret", "data": {"password": canary.value()}}).to_string();
    let secret: Secret = serde_json::from_value(json!({
        "metadata": {"name": "db", "annotations": {"kapp.k14s.io/original": manifest, "team": "shop"}},
        "stringData": {"password": canary.value()},
    }))?;
    stage
        .sandbox
        .api()
        .create(&PostParams::default(), &secret)
        .await?;
    stage
        .config_map("settings", json!({"token": canary.value()}))
        .await?;
    let pod = stage.pod("web").await?;
    let annotate = Patch::Merge(json!({"metadata": {"annotations": {"last-applied": manifest}}}));
    stage
        .sandbox
        .api::<k8s_openapi::api::core::v1::Pod>()
        .patch("web", &PatchParams::default(), &annotate)
        .await?;
    stage.agent(AGENT, json!({})).await?;
    // A server that does not stream lists is listed by pages: the right to list is for that.
    let proxy = Proxy::start(stage.sandbox.plane()).await?;
    proxy.add(proxy::Rule::new(
        proxy::Match::streamed_lists(),
        proxy::Fault::Answer(proxy::Answer::invalid()),
    ));
    let (instance, running) = stage.start_through("first", &proxy).await?;
    stage.equal("a start").await?;
    stage.says(AGENT, "Syncing", "True", "SyncActive").await?;
    stage.says(AGENT, "Available", "True", "AgentRunning").await?;
    let beats = stage.platform.read(|state| state.accepted(Endpoint::Heartbeat));
    // The counts of the first status are from before the agent's own event and pod: they move once.
    stage
        .platform
        .wait("two heartbeats", |state| {
            state.accepted(Endpoint::Heartbeat) >= beats + 2
        })
        .await?;

    let mark = Mark::now(stage.sandbox.plane()).await?;
    let (beats, events, snapshots) = stage.platform.read(|state| {
        let of = |endpoint| state.accepted(endpoint);
        (
            of(Endpoint::Heartbeat),
            of(Endpoint::Events),
            of(Endpoint::Snapshot),
        )
    });
    stage
        .platform
        .wait("three more heartbeats", |state| {
            state.accepted(Endpoint::Heartbeat) >= beats + 3
        })
        .await?;
    mark.since().await?.by(&instance).assert_silent();
    let after = stage.platform.read(|state| {
        (
            state.accepted(Endpoint::Events),
            state.accepted(Endpoint::Snapshot),
        )
    });
    assert_eq!(
        after,
        (events, snapshots),
        "at rest nothing but heartbeats is sent"
    );

    // A change that changes nothing of what is sent, sends nothing.
    let status = Patch::Merge(json!({"metadata": {"annotations": {"kubernetes.io/x": "1"}}}));
    stage
        .sandbox
        .api::<k8s_openapi::api::core::v1::Pod>()
        .patch("web", &PatchParams::default(), &status)
        .await?;
    stage.label("web", 7).await?;
    stage.equal("a label").await?;
    let uid = pod.metadata.uid.unwrap_or_default();
    let sent = stage.platform.read(|state| {
        let of_pod = |entry: &&trustplane_testkit::platform::Entry| entry.uid.as_deref() == Some(&uid);
        state.journal().iter().filter(of_pod).count()
    });
    assert_eq!(sent, 1);

    let mut search = Search::for_canaries([&canary]);
    stage.platform.read(|state| {
        for entry in state.journal() {
            search.text("a request to the platform", &String::from_utf8_lossy(&entry.body));
        }
    });
    let agent = stage.agents().get_status(AGENT).await?;
    search.text("the status", &serde_json::to_string(&agent)?);
    let log = log.text();
    assert!(
        log.contains("trustplane_inventory_stream") || log.contains("trustplane_kit"),
        "a log"
    );
    search.text("the log", &log);
    search.assert_clean();
    let key = stage.private_key.lines().nth(1).unwrap_or_default().to_owned();
    let status = serde_json::to_string(&agent)?;
    let tokens = stage.platform.tokens();
    assert!(!tokens.is_empty());
    for (place, text) in [("the status", &status), ("the log", &log)] {
        assert!(!text.contains(&key), "the private key is in {place}");
        assert!(
            !tokens.iter().any(|token| text.contains(token)),
            "a token is in {place}"
        );
    }

    stage.kill(running).await?;
    let audit = begin.since().await?.by(&instance);
    audit.assert_nothing_denied();
    let report = audit.rights(&stage.account);
    assert!(report.beyond.is_empty(), "{report}");
    let unused: Vec<_> = report
        .unused
        .intersection(&granted(&own_rules()))
        .cloned()
        .collect();
    assert!(unused.is_empty(), "{report}");
    Ok(())
}
