//! Connections that break or fall silent, an API server that restarts, a token that ends.

use std::time::Duration;

use anyhow::Result;
use kube::api::DeleteParams;
use trustplane_cluster::control_plane::Component;
use trustplane_testkit::crash::Subject;
use trustplane_testkit::proxy::{Answer, Fault, Match, Rule, Verb};
use trustplane_testkit::{ControlPlane, DEADLINE};

use crate::stage::{Stage, alone, single};

#[tokio::test]
async fn broken_connections_are_made_anew() -> Result<()> {
    let (stage, instance, running) = Stage::settled("cut").await?;
    for round in 1..=3 {
        let watches = Match::verb(Verb::Watch).by(&instance);
        assert!(stage.proxy.cut(&watches) > 0, "there was no watch to cut");
        // What happens while no watch is there must not be missed.
        stage.secrets().delete("a", &DeleteParams::default()).await?;
        stage.in_step("a", &(round - 1).to_string()).await?;
        stage.assert_follows("a", &round.to_string()).await?;
        stage.proxy.cut_all();
    }
    stage.assert_follows("a", "last").await?;
    alone().kill(running).await
}

#[tokio::test]
async fn a_watch_that_falls_silent_is_noticed() -> Result<()> {
    use trustplane_testkit::proxy::{EventFault, EventMatch};
    let (stage, _, running) = Stage::settled("silent").await?;
    // The next event of each watch is swallowed, and with it every later one; the connections stay.
    let silent = Fault::Events(
        EventMatch::of(&["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]),
        EventFault::Freeze,
    );
    let script = stage
        .proxy
        .add(Rule::new(Match::verb(Verb::Watch), silent).times(3));
    stage.secrets().delete("a", &DeleteParams::default()).await?;
    script.fired(1, DEADLINE).await?;
    stage.in_step("a", "0").await?;
    script.end();
    stage.assert_follows("a", "1").await?;
    alone().kill(running).await
}

#[tokio::test]
async fn a_frozen_network_thaws_without_harm() -> Result<()> {
    let (stage, instance, running) = Stage::settled("frozen").await?;
    let copy = stage.in_step("a", "0").await?.metadata.uid;
    stage.proxy.freeze();
    let journal = stage.proxy.mark();
    stage.set_source("1").await?;
    // The controller asks, and nobody answers.
    let asked = Match::any().by(&instance);
    let before = stage.proxy.requests(&asked).len() - stage.proxy.requests_since(journal, &asked).len();
    stage.proxy.wait_for(&asked, before + 1, DEADLINE).await?;
    stage.proxy.thaw();
    stage.in_step("a", "1").await?;
    stage.assert_follows("a", "2").await?;
    assert_eq!(
        stage.secrets().get("a").await?.metadata.uid,
        copy,
        "the copy was made anew"
    );
    alone().kill(running).await
}

#[tokio::test]
async fn a_restart_of_the_api_server_is_survived() -> Result<()> {
    let plane = ControlPlane::own().await?;
    let stage = Stage::on(plane.clone(), "api-restart").await?;
    let (_, mut running) = stage.start(&single(), "binary").await?;
    stage.set_source("0").await?;
    stage.mirror("m", &["a"]).await?;
    stage.says("m", "InStep").await?;
    plane.kill(Component::ApiServer).await?;
    let journal = stage.proxy.mark();
    // It notices, and keeps trying.
    let tries = stage.proxy.requests(&Match::any()).len() + 1;
    stage.proxy.wait_for(&Match::any(), tries, DEADLINE).await?;
    plane.restart(Component::ApiServer).await?;
    stage.assert_follows("a", "1").await?;
    let storm = stage.proxy.requests_since(journal, &Match::any()).len();
    assert!(storm < 500, "{storm} requests during one restart");
    running.terminate()?;
    assert!(running.ended(DEADLINE).await?.success());
    Ok(())
}

#[tokio::test]
async fn a_token_that_ends_is_replaced_by_the_next() -> Result<()> {
    let stage = Stage::new("token").await?;
    let (instance, running) = stage.start(&single(), "binary").await?;
    stage.set_source("0").await?;
    stage.mirror("m", &["a"]).await?;
    stage.says("m", "InStep").await?;
    // From now on the old token is worth nothing, and the new one lies where the kubelet puts it.
    let refused = stage.proxy.add(Rule::new(
        Match::any().by(&instance),
        Fault::Answer(Answer::unauthorized()),
    ));
    running.credentials().rotate(&stage.account.token().await?)?;
    stage.proxy.cut_all();
    stage.set_source("1").await?;
    refused.fired(1, DEADLINE).await?;
    // The client reads the file again after a minute at most.
    let copies = stage.secrets();
    let patience = Duration::from_secs(120);
    trustplane_testkit::wait_for_some(&copies, "a", patience, |live| crate::stage::has_value(live, "1"))
        .await?;
    running.kill().await
}
