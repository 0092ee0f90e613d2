//! Answers that nobody likes: each is survived, and none loses or doubles anything.

use std::time::Duration;

use anyhow::{Result, ensure};
use trustplane_testkit::DEADLINE;
use trustplane_testkit::crash::Subject;
use trustplane_testkit::proxy::{Answer, Fault, Match, Rule, Verb};

use crate::stage::{SOURCE_NAME, Stage, alone};

fn failing(on: Match, answer: Answer, times: usize) -> Rule {
    Rule::new(on, Fault::Answer(answer)).times(times)
}

#[tokio::test]
async fn failed_writes_are_done_again() -> Result<()> {
    let stage = Stage::new("writes").await?;
    let (instance, running) = stage.start_alone().await?;
    stage.set_source("0").await?;
    stage.mirror("m", &["a"]).await?;
    stage.says("m", "InStep").await?;
    let answers = [
        Answer::conflict(),
        Answer::internal_error(),
        Answer::unavailable(),
        Answer::too_many_requests(1),
        Answer::unauthorized(),
    ];
    for (round, answer) in answers.into_iter().enumerate() {
        let on = Match::writes().resource("secrets").name("a").by(&instance);
        let script = stage.proxy.add(failing(on, answer, 2));
        stage.assert_follows("a", &format!("after {round}")).await?;
        assert_eq!(script.count(), 2);
        script.end();
    }
    alone().kill(running).await
}

#[tokio::test]
async fn failed_statuses_finalizers_and_reads_are_done_again() -> Result<()> {
    let stage = Stage::new("steps").await?;
    let (instance, running) = stage.start_alone().await?;
    let on = |request: Match| request.by(&instance);
    let scripts = [
        stage.proxy.add(failing(
            on(Match::writes().resource("mirrors").subresource("")),
            Answer::conflict(),
            1,
        )),
        stage.proxy.add(failing(
            on(Match::writes().resource("mirrors").subresource("status")),
            Answer::internal_error(),
            1,
        )),
        stage.proxy.add(failing(
            on(Match::verb(Verb::Get).resource("secrets").name(SOURCE_NAME)),
            Answer::unavailable(),
            1,
        )),
        stage.proxy.add(failing(
            on(Match::verb(Verb::Create).resource("events")),
            Answer::internal_error(),
            1,
        )),
    ];
    stage.set_source("one").await?;
    stage.mirror("m", &["a"]).await?;
    stage.says("m", "InStep").await?;
    stage.in_step("a", "one").await?;
    for script in scripts {
        script.fired(1, DEADLINE).await?;
    }
    alone().kill(running).await
}

#[tokio::test]
async fn a_throttled_write_comes_back_when_it_was_told_to() -> Result<()> {
    let stage = Stage::new("throttle").await?;
    let (instance, running) = stage.start_alone().await?;
    stage.set_source("one").await?;
    stage.mirror("m", &["a"]).await?;
    stage.says("m", "InStep").await?;
    let on = Match::writes().resource("secrets").name("a").by(&instance);
    let earlier = stage.proxy.requests(&on).len();
    stage
        .proxy
        .add(failing(on.clone(), Answer::too_many_requests(3), 1));
    stage.assert_follows("a", "two").await?;
    let writes = stage.proxy.requests(&on);
    let [throttled, again, ..] = &writes[earlier..] else {
        anyhow::bail!("expected two writes, saw {writes:?}");
    };
    // That the second one took effect is what `assert_follows` has seen; its answer may still be under way.
    assert_eq!(throttled.status, Some(429));
    let waited = again.arrived_at - throttled.arrived_at;
    ensure!(
        waited >= Duration::from_secs(3),
        "it came back after {waited:?}, but was told to wait 3 s"
    );
    alone().kill(running).await
}

#[tokio::test]
async fn lists_and_watches_that_fail_are_begun_again() -> Result<()> {
    let stage = Stage::new("begin").await?;
    let answers = [
        Answer::expired(),
        Answer::internal_error(),
        Answer::unavailable(),
        Answer::too_many_requests(1),
    ];
    let mut scripts = Vec::new();
    for resource in ["mirrors", "secrets"] {
        for answer in &answers {
            let on = Match::verb(Verb::Watch).resource(resource);
            scripts.push(stage.proxy.add(failing(on, answer.clone(), 1)));
        }
    }
    let (_, running) = stage.start_alone().await?;
    stage.set_source("one").await?;
    stage.mirror("m", &["a"]).await?;
    stage.in_step("a", "one").await?;
    for script in scripts {
        script.fired(1, DEADLINE).await?;
    }
    stage.assert_follows("a", "two").await?;
    alone().kill(running).await
}

#[tokio::test]
async fn an_answer_that_is_lost_took_effect_once() -> Result<()> {
    let stage = Stage::new("lost-answer").await?;
    let (instance, running) = stage.start_alone().await?;
    stage.set_source("one").await?;
    let on = Match::writes().resource("secrets").name("a").by(&instance);
    let script = stage.proxy.add(Rule::new(on, Fault::CutAnswer).once());
    let mirror = stage.mirror("m", &["a"]).await?;
    stage.says("m", "InStep").await?;
    let copy = stage.in_step("a", "one").await?;
    assert_eq!(script.count(), 1);
    let owners = copy.metadata.owner_references.unwrap_or_default();
    assert_eq!(owners.len(), 1);
    assert_eq!(Some(&owners[0].uid), mirror.metadata.uid.as_ref());
    alone().kill(running).await
}
