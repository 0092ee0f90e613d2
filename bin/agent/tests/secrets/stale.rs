//! A manager that sees the world as it was does no harm, and catches up.

use anyhow::{Context, Result};
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use trustplane_api::hsm::HsmSecret;
use trustplane_testkit::audit::Mark;
use trustplane_testkit::proxy::{EventFault, EventMatch, Fault, Gate, Match, Proxy, Rule, Verb};
use trustplane_testkit::{DEADLINE, until, wait_for};

use crate::delivery::seed;
use crate::stage::{PAIRS, Stage, content, owned};
use crate::token::Token;

const SECOND: [(&str, &str); 1] = [("password", "second")];

/// A stage with one token that has `shop/db`, and a count of looks. The capability does not run.
async fn stage(name: &str) -> Result<(Stage, crate::stage::Looks, Proxy)> {
    let mut stage = Stage::new(name, vec![Token::new("a").await?]).await?;
    stage.token().write("shop/db", &PAIRS)?;
    let looks = stage.count_looks();
    let proxy = Proxy::start(stage.sandbox.plane()).await?;
    Ok((stage, looks, proxy))
}

#[tokio::test(flavor = "multi_thread")]
async fn manager_whose_watch_is_late_writes_the_secret_once() -> Result<()> {
    let (stage, looks, proxy) = stage("late").await?;
    let (instance, running) = stage.start_through("first", &proxy).await?;
    stage.apply("db", seed()).await?;
    stage.in_sync("db", &PAIRS).await?;

    let gate = Gate::default();
    let late = Fault::Events(
        EventMatch::any().name("db-credentials"),
        EventFault::Hold(gate.clone()),
    );
    let held = proxy.add(Rule::new(Match::verb(Verb::Watch).resource("secrets"), late));
    // The manager does not see this edit: its next write rests on an older version, and is refused.
    let edit = json!({ "metadata": { "labels": { "team": "shop" } } });
    let (secrets, hand) = (stage.secrets(), PatchParams::default());
    secrets
        .patch("db-credentials", &hand, &Patch::Merge(&edit))
        .await?;
    held.fired(1, DEADLINE).await?;
    let mark = Mark::now(stage.sandbox.plane()).await?;
    stage.token().write("shop/db", &SECOND)?;
    let written = stage.secret("db-credentials", |live| content(live) == owned(&SECOND));
    let written = written.await?;
    // What it has written does not show: it looks at the Secret itself, and tells of that.
    stage.in_sync("db", &SECOND).await?;
    looks.more(10).await?;
    gate.open();
    looks.more(10).await?;
    let audit = mark.since().await?.by(&instance);
    for (kind, what) in [("secrets", "the Secret"), ("hsmsecrets", "the status")] {
        let writes = audit.of(kind);
        let done = writes.writes().into_iter().filter(|write| write.succeeded());
        assert_eq!(done.count(), 1, "{what}: {}", writes.story());
    }
    let last = secrets.get("db-credentials").await?;
    assert_eq!(last.resource_version(), written.resource_version());
    stage.kill(running).await
}

#[tokio::test(flavor = "multi_thread")]
async fn manager_that_sees_the_past_writes_nothing_old() -> Result<()> {
    let (stage, looks, proxy) = stage("past").await?;
    let (_, running) = stage.start("first").await?;
    let made = stage.apply("db", seed()).await?;
    stage.in_sync("db", &PAIRS).await?;
    stage.token().write("shop/db", &SECOND)?;
    stage.in_sync("db", &SECOND).await?;
    stage.kill(running).await?;
    let before = stage.secrets().get("db-credentials").await?;

    // The next manager is shown the world as it was before the Secret existed.
    let gate = Gate::default();
    let past = Fault::Past {
        resource_version: made.metadata.resource_version.context("a version")?,
        gate: gate.clone(),
    };
    let shown = proxy.add(Rule::new(Match::any(), past));
    let mark = Mark::now(stage.sandbox.plane()).await?;
    let (instance, running) = stage.start_through("second", &proxy).await?;
    until("the token to be listed", DEADLINE, || async {
        Ok((stage.token().lists()? > 0).then_some(()))
    })
    .await?;
    looks.more(30).await?;
    let audit = mark.since().await?.by(&instance).of("secrets");
    let done: Vec<_> = audit
        .writes()
        .into_iter()
        .filter(|write| write.succeeded())
        .map(ToString::to_string)
        .collect();
    assert!(done.is_empty(), "a view of the past led to writes: {done:?}");
    shown.end();
    gate.open();
    stage.token().write("shop/db", &PAIRS)?;
    // The watch replays old versions first, and the status follows them: the Secret itself tells when the manager has caught up.
    stage
        .secret("db-credentials", |live| content(live) == owned(&PAIRS))
        .await?;
    stage.in_sync("db", &PAIRS).await?;
    let after = stage.secrets().get("db-credentials").await?;
    assert_eq!(after.uid(), before.uid(), "pods that mount it notice nothing");
    stage.kill(running).await
}

#[tokio::test(flavor = "multi_thread")]
async fn manager_that_missed_a_deletion_leaves_no_secret() -> Result<()> {
    let (stage, looks, proxy) = stage("missed").await?;
    let (_, running) = stage.start("first").await?;
    stage.apply("db", seed()).await?;
    stage.in_sync("db", &PAIRS).await?;
    let all: Api<HsmSecret> = stage.sandbox.api();
    let delivered = all.get("db").await?;
    stage.delete("db").await?;
    stage.kill(running).await?;
    stage.token().write("shop/db", &SECOND)?;

    let gate = Gate::default();
    let past = Fault::Past {
        resource_version: delivered.metadata.resource_version.context("a version")?,
        gate: gate.clone(),
    };
    let shown = proxy.add(Rule::new(Match::any(), past));
    let lists = stage.token().lists()?;
    let (_, running) = stage.start_through("second", &proxy).await?;
    until("the token to be listed", DEADLINE, || async {
        Ok((stage.token().lists()? > lists).then_some(()))
    })
    .await?;
    looks.more(30).await?;
    shown.end();
    gate.open();
    // Whatever was made for the HSMSecret that is gone goes after it.
    wait_for(&stage.secrets(), "db-credentials", DEADLINE, |live| {
        live.is_none()
    })
    .await?;
    stage.apply("db", seed()).await?;
    stage.in_sync("db", &SECOND).await?;
    stage.kill(running).await
}
