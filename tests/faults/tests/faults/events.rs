//! Watch events that are lost, doubled, swapped, late, or replaced by an error.

use anyhow::Result;
use kube::api::DeleteParams;
use trustplane_kit::apply::INSTALLATION_KEY;
use trustplane_testkit::audit::Mark;
use trustplane_testkit::crash::Subject;
use trustplane_testkit::proxy::{Answer, EventFault, EventMatch, Fault, Gate, Match, Rule, Verb};
use trustplane_testkit::{DEADLINE, wait_for};

use crate::stage::{SOURCE_NAME, Stage, aim, alone, remove};

fn on_secrets(event: EventMatch, fault: EventFault) -> Rule {
    Rule::new(
        Match::verb(Verb::Watch).resource("secrets"),
        Fault::Events(event, fault),
    )
}

#[tokio::test]
async fn a_lost_change_is_found_again() -> Result<()> {
    let (stage, _, running) = Stage::settled("lost").await?;
    let lost = stage.proxy.add(on_secrets(
        EventMatch::of(&["MODIFIED"]).name(SOURCE_NAME),
        EventFault::Drop,
    ));
    stage.assert_follows("a", "1").await?;
    lost.fired(1, DEADLINE).await?;
    lost.end();
    stage.assert_follows("a", "2").await?;
    alone().kill(running).await
}

#[tokio::test]
async fn a_lost_creation_and_a_lost_deletion_are_found_again() -> Result<()> {
    let (stage, _, running) = Stage::settled("gone").await?;
    let created = stage
        .proxy
        .add(on_secrets(EventMatch::of(&["ADDED"]).name("b"), EventFault::Drop).once());
    aim(&stage.sandbox, "m", &["a", "b"]).await?;
    stage.in_step("b", "0").await?;
    created.fired(1, DEADLINE).await?;
    stage.assert_follows("b", "1").await?;
    let deleted = stage
        .proxy
        .add(on_secrets(EventMatch::of(&["DELETED"]).name("a"), EventFault::Drop).once());
    let old = stage.secrets().get("a").await?.metadata.uid;
    stage.secrets().delete("a", &DeleteParams::default()).await?;
    deleted.fired(1, DEADLINE).await?;
    let made_anew =
        |live: Option<&k8s_openapi::api::core::v1::Secret>| live.is_some_and(|live| live.metadata.uid != old);
    wait_for(&stage.secrets(), "a", DEADLINE, made_anew).await?;
    alone().kill(running).await
}

#[tokio::test]
async fn doubled_and_swapped_events_cause_no_write() -> Result<()> {
    let (stage, instance, running) = Stage::settled("doubled").await?;
    aim(&stage.sandbox, "m", &["a", "b"]).await?;
    stage.in_step("b", "0").await?;
    stage.says("m", "InStep").await?;
    stage.looks(&instance, stage.proxy.mark(), 2).await?;
    let mark = Mark::now(stage.sandbox.plane()).await?;
    let doubled = stage
        .proxy
        .add(on_secrets(EventMatch::any().name("a"), EventFault::Duplicate));
    let swapped = stage
        .proxy
        .add(on_secrets(EventMatch::any().name("b"), EventFault::Swap));
    for round in 1..=3 {
        let value = round.to_string();
        stage.assert_follows("a", &value).await?;
        stage.in_step("b", &value).await?;
    }
    let journal = stage.proxy.mark();
    stage.looks(&instance, journal, 3).await?;
    assert!(
        doubled.count() >= 3 && swapped.count() >= 3,
        "{} {}",
        doubled.count(),
        swapped.count()
    );
    let audit = mark.since().await?.by(&instance);
    let writes = audit.writes().len();
    assert_eq!(writes, 6, "three changes of two copies:\n{}", audit.story());
    alone().kill(running).await
}

#[tokio::test]
async fn a_watch_that_freezes_after_a_write_causes_no_second_write() -> Result<()> {
    let (stage, instance, running) = Stage::settled("frozen").await?;
    stage.looks(&instance, stage.proxy.mark(), 2).await?;
    let mark = Mark::now(stage.sandbox.plane()).await?;
    let change = EventMatch::of(&["MODIFIED"]).name("a");
    let frozen = stage.proxy.add(on_secrets(change, EventFault::Freeze).once());
    stage.set_source("1").await?;
    stage.in_step("a", "1").await?;
    frozen.fired(1, DEADLINE).await?;
    // Each look would write again if it rested on the version before the write.
    stage.looks(&instance, stage.proxy.mark(), 3).await?;
    let audit = mark.since().await?.by(&instance);
    let writes = audit.writes().len();
    assert_eq!(writes, 1, "refused writes count too:\n{}", audit.story());
    stage.assert_follows("a", "2").await?;
    alone().kill(running).await
}

#[tokio::test]
async fn nothing_is_removed_while_a_store_is_behind() -> Result<()> {
    let (stage, instance, running) = Stage::settled("behind").await?;
    aim(&stage.sandbox, "m", &["a", "b"]).await?;
    stage.in_step("b", "0").await?;
    stage.looks(&instance, stage.proxy.mark(), 2).await?;
    let secrets = Match::verb(Verb::Watch).resource("secrets");
    let away = Rule::new(secrets.clone(), Fault::Answer(Answer::unavailable()));
    let away = stage.proxy.add(away);
    stage.proxy.cut(&secrets);
    away.fired(2, DEADLINE).await?;
    aim(&stage.sandbox, "m", &["a"]).await?;
    let journal = stage.proxy.mark();
    stage.looks(&instance, journal, 4).await?;
    let deletions = Match::verb(Verb::Delete).resource("secrets");
    assert_eq!(stage.proxy.requests_since(journal, &deletions).len(), 0);
    away.end();
    wait_for(&stage.secrets(), "b", DEADLINE, |live| live.is_none()).await?;
    alone().kill(running).await
}

#[tokio::test]
async fn an_expired_watch_still_tells_of_deletions() -> Result<()> {
    let (stage, _, running) = Stage::settled("expired").await?;
    stage.mirror("n", &["b"]).await?;
    stage.says("n", "InStep").await?;
    let expire = on_secrets(EventMatch::of(&["DELETED"]).name("a"), EventFault::Expire).times(2);
    let expired = stage.proxy.add(expire);
    stage.secrets().delete("a", &DeleteParams::default()).await?;
    expired.fired(1, DEADLINE).await?;
    stage.in_step("a", "0").await?;
    let mirrors = Match::verb(Verb::Watch).resource("mirrors");
    let expire = Fault::Events(
        EventMatch::of(&["MODIFIED", "DELETED"]).name("n"),
        EventFault::Expire,
    );
    let expired = stage.proxy.add(Rule::new(mirrors, expire).times(3));
    remove(&stage.sandbox, "n").await?;
    wait_for(&stage.secrets(), "b", DEADLINE, |live| live.is_none()).await?;
    expired.fired(1, DEADLINE).await?;
    stage.assert_follows("a", "1").await?;
    alone().kill(running).await
}

#[tokio::test]
async fn an_api_server_that_has_fallen_behind_deletes_nothing() -> Result<()> {
    let stage = Stage::new("past").await?;
    let (_, first) = stage.start_alone().await?;
    // The key of the installation is older than the past that the next controller is shown.
    wait_for(&stage.secrets(), INSTALLATION_KEY, DEADLINE, |key| {
        key.is_some_and(|key| key.data.is_some())
    })
    .await?;
    stage.set_source("old").await?;
    let mirror = stage.mirror("m", &["a"]).await?;
    stage.says("m", "InStep").await?;
    let before = stage.in_step("a", "old").await?.metadata;
    alone().kill(first).await?;
    aim(&stage.sandbox, "m", &["a", "b"]).await?;
    stage.set_source("new").await?;

    // The next controller is shown the world as it was before the copy existed, and before that.
    let gate = Gate::default();
    let past = Fault::Past {
        resource_version: mirror.metadata.resource_version.unwrap_or_default(),
        gate: gate.clone(),
    };
    let shown = stage.proxy.add(Rule::new(Match::any(), past.clone()));
    let instance = stage.instance("second").await?;
    let mark = Mark::now(stage.sandbox.plane()).await?;
    let second = alone().start(&instance).await?;
    stage.looks(&instance, stage.proxy.mark(), 3).await?;
    let audit = mark.since().await?.by(&instance).of("secrets");
    let harm: Vec<_> = audit
        .writes()
        .into_iter()
        .filter(|write| write.succeeded())
        .map(ToString::to_string)
        .collect();
    assert!(
        harm.is_empty(),
        "a view of the past led to writes:\n{}",
        harm.join("\n")
    );
    assert_eq!(stage.secrets().get("a").await?.metadata.uid, before.uid);

    shown.end();
    gate.open();
    stage.in_step("a", "new").await?;
    stage.in_step("b", "new").await?;
    assert_eq!(stage.secrets().get("a").await?.metadata.uid, before.uid);
    alone().kill(second).await
}
