//! An API server that refuses and a watch that lies: nothing is lost, nothing flaps, and providers are not stormed.

use std::fs;
use std::time::Duration;

use anyhow::Result;
use kube::api::DeleteParams;
use serde_json::json;
use trustplane_sync_core::fetch::FetchError;
use trustplane_testkit::audit::Mark;
use trustplane_testkit::crash::Subject;
use trustplane_testkit::proxy::{Answer, EventFault, EventMatch, Fault, Match, Proxy, Rule, Verb};
use trustplane_testkit::{DEADLINE, Instance, wait_for};

use crate::stage::{Stage, VALUE, alone};
use crate::stores::Shop;

/// A stage whose controller goes through a proxy, with one pod that has its Secret.
async fn behind_a_proxy(
    name: &str,
) -> Result<(
    Stage,
    Proxy,
    Instance,
    <trustplane_testkit::crash::InProcess as Subject>::Running,
)> {
    let stage = Stage::new(name).await?;
    let proxy = Proxy::start(stage.sandbox.plane()).await?;
    stage.mock.set("a", VALUE);
    let (instance, running) = stage.start_through("first", &proxy).await?;
    stage.pod("web", "a", "db", "").await?;
    stage.holds("db", &[("password", "p"), ("user", "u")]).await?;
    Ok((stage, proxy, instance, running))
}

/// Another value, a forced sync, and its arrival.
async fn follows(stage: &Stage, value: &str) -> Result<()> {
    stage.mock.set("a", json!({"user": value}).to_string());
    stage
        .patch(
            "web",
            json!({"annotations": {"jasm.codnod.io/force-sync": value}}),
        )
        .await?;
    stage.holds("db", &[("user", value)]).await?;
    Ok(())
}

#[tokio::test]
async fn a_refused_write_is_done_again_without_a_storm_of_calls() -> Result<()> {
    let (stage, proxy, instance, running) = behind_a_proxy("refused").await?;
    let answers = [
        Answer::conflict(),
        Answer::internal_error(),
        Answer::unavailable(),
        Answer::too_many_requests(1),
    ];
    for (round, answer) in answers.into_iter().enumerate() {
        let before = stage.mock.asked_for("a");
        let on = Match::writes().resource("secrets").name("db").by(&instance);
        let script = proxy.add(Rule::new(on, Fault::Answer(answer)).times(2));
        follows(&stage, &format!("after-{round}")).await?;
        assert_eq!(script.count(), 2, "round {round}");
        script.end();
        let asked = stage.mock.asked_for("a") - before;
        assert!((1..=3).contains(&asked), "round {round}: asked {asked} times");
    }
    alone(&stage.mock).kill(running).await
}

#[tokio::test]
async fn a_watch_that_freezes_after_the_write_costs_no_second_call() -> Result<()> {
    let (stage, proxy, instance, running) = behind_a_proxy("frozen").await?;
    stage.mock.set("b", VALUE);
    let mark = Mark::now(stage.sandbox.plane()).await?;
    let added = Fault::Events(EventMatch::of(&["ADDED"]).name("new"), EventFault::Freeze);
    let frozen = proxy.add(Rule::new(Match::verb(Verb::Watch).resource("secrets"), added).once());
    stage.pod("one", "b", "new", "").await?;
    stage.holds("new", &[("password", "p"), ("user", "u")]).await?;
    frozen.fired(1, DEADLINE).await?;
    // The store does not have the Secret yet: a look that rested on it would ask and create once more.
    stage.pod("two", "b", "new", "").await?;
    stage.told("two", "SecretSyncSuccess").await?;
    assert_eq!(stage.mock.asked_for("b"), 1);
    let audit = mark.since().await?.by(&instance);
    let writes = audit.writes();
    let writes = writes.iter().filter(|write| write.name() == "new").count();
    assert_eq!(writes, 1, "refused writes count too:\n{}", audit.story());
    assert!(!stage.has_told("one", "SecretSyncFailed").await?);
    alone(&stage.mock).kill(running).await
}

#[tokio::test]
async fn a_watch_that_loses_doubles_and_expires_is_survived() -> Result<()> {
    let (stage, proxy, instance, running) = behind_a_proxy("watch").await?;
    let on = |resource: &str, event: EventMatch, fault: EventFault| {
        Rule::new(
            Match::verb(Verb::Watch).resource(resource),
            Fault::Events(event, fault),
        )
    };
    // A pod whose creation is not heard of is found with the next list.
    let lost = proxy.add(on("pods", EventMatch::of(&["ADDED"]).name("late"), EventFault::Drop).once());
    stage.mock.set("b", VALUE);
    stage.pod("late", "b", "late", "").await?;
    lost.fired(1, DEADLINE).await?;
    proxy.cut_all();
    let expired = proxy.add(on("pods", EventMatch::any(), EventFault::Expire).once());
    follows(&stage, "one").await?;
    expired.fired(1, DEADLINE).await?;
    stage.holds("late", &[("password", "p"), ("user", "u")]).await?;

    // Our own write comes twice, and late: no write follows from it.
    let mark = Mark::now(stage.sandbox.plane()).await?;
    let doubled = proxy.add(on("secrets", EventMatch::any().name("db"), EventFault::Duplicate));
    follows(&stage, "two").await?;
    follows(&stage, "three").await?;
    doubled.fired(2, DEADLINE).await?;
    doubled.end();
    let audit = mark.since().await?.by(&instance);
    let of_db = audit.writes();
    let of_db = of_db
        .iter()
        .filter(|write| write.name() == "db" && write.succeeded())
        .count();
    assert_eq!(of_db, 2, "{}", audit.story());

    // A deletion that nobody tells of.
    let gone = proxy.add(
        on(
            "secrets",
            EventMatch::of(&["DELETED"]).name("db"),
            EventFault::Expire,
        )
        .once(),
    );
    let old = stage.secrets().get("db").await?.metadata.uid;
    stage.secrets().delete("db", &DeleteParams::default()).await?;
    gone.fired(1, DEADLINE).await?;
    wait_for(&stage.secrets(), "db", DEADLINE, |live| {
        live.is_some_and(|live| live.metadata.uid != old)
    })
    .await?;
    stage.holds("db", &[("user", "three")]).await?;
    alone(&stage.mock).kill(running).await
}

/// What a provider may do to us, and what the pod hears of it.
enum Trouble {
    Lie(&'static str),
    Failure(FetchError),
}

#[tokio::test]
async fn whatever_a_provider_does_the_last_good_secret_stays_and_nobody_storms_it() -> Result<()> {
    let (stage, _instance, running) = Stage::synced("liar").await?;
    let unavailable = |what: &str| FetchError::Unavailable {
        what: what.to_owned(),
    };
    let throttled = |seconds| FetchError::Throttled {
        retry_after: Some(Duration::from_secs(seconds)),
    };
    let denied = FetchError::Denied {
        permission: "secretsmanager:GetSecretValue".to_owned(),
    };
    let matrix = [
        (Trouble::Lie(""), "SecretDataInvalid", "is empty"),
        (Trouble::Lie("{}"), "SecretDataInvalid", "has no keys"),
        (Trouble::Lie("no json"), "SecretDataInvalid", "is not JSON"),
        (
            Trouble::Lie(r#"{"a/b":"x"}"#),
            "SecretDataInvalid",
            "its name as a key",
        ),
        (
            Trouble::Failure(FetchError::NotFound),
            "SecretFetchFailed",
            "it does not exist",
        ),
        (
            Trouble::Failure(denied),
            "SecretFetchFailed",
            "needed is secretsmanager:GetSecretValue",
        ),
        (
            Trouble::Failure(unavailable("no answer in time")),
            "SecretFetchFailed",
            "no answer in time",
        ),
        (
            Trouble::Failure(throttled(600)),
            "ProviderThrottled",
            "throttling",
        ),
    ];
    for (round, (trouble, reason, text)) in matrix.into_iter().enumerate() {
        let name = format!("round-{round}");
        stage.mock.fail_with(None);
        stage.mock.set(&name, VALUE);
        stage.pod(&name, &name, &name, "").await?;
        stage.holds(&name, &[("password", "p"), ("user", "u")]).await?;
        match trouble {
            Trouble::Lie(lie) => stage.mock.set(&name, lie),
            Trouble::Failure(failure) => stage.mock.fail_with(Some(failure)),
        }
        let force = json!({"annotations": {"jasm.codnod.io/force-sync": "1"}});
        stage.patch(&name, force).await?;
        stage.told_with(&name, reason, text).await?;
        stage.holds(&name, &[("password", "p"), ("user", "u")]).await?;
        let asked = stage.mock.asked_for(&name);
        assert!((2..=3).contains(&asked), "{text}: asked {asked} times");
    }
    stage.mock.fail_with(None);
    follows(&stage, "well").await?;
    alone(&stage.mock).kill(running).await
}

#[tokio::test]
async fn a_provider_that_hangs_keeps_nobody_waiting_who_does_not_ask_it() -> Result<()> {
    let shop = Shop::new("hangs").await?;
    let stage = &shop.stage;
    stage.mock.set("a", VALUE);
    stage.mock.hold_still(true);
    let (_instance, running) = stage.start("first").await?;
    // More of them than there are workers would be a queue; these wait together.
    for pod in ["web-1", "web-2"] {
        stage.pod(pod, "a", pod, "").await?;
    }
    stage.asked_more_than(0).await?;
    fs::create_dir(stage.files.path().join("team"))?;
    fs::write(stage.files.path().join("team/db"), VALUE)?;
    shop.open(json!({"from": {"file": {"directory": "team"}}}))
        .await?;
    shop.ask("other", "db", "").await?;
    stage.holds("other", &[("password", "p"), ("user", "u")]).await?;
    assert_eq!(stage.mock.asked_for("a"), 1, "one question for all who wait");
    stage.mock.hold_still(false);
    for pod in ["web-1", "web-2"] {
        stage.holds(pod, &[("password", "p"), ("user", "u")]).await?;
    }
    shop.close().await?;
    alone(&stage.mock).kill(running).await
}
