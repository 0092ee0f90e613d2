//! At rest nothing is written, and an interval costs one call to each agent; also with two managers at once.

use std::time::{Duration, Instant};

use anyhow::Result;
use futures::future::try_join_all;
use futures::stream::{self, StreamExt, TryStreamExt};
use kube::ResourceExt;
use serde_json::json;
use trustplane_api::hsm::HsmSecret;
use trustplane_api::hsm::v1::{SecretData, WriteSecretRequest};
use trustplane_plan::ObjectRef;
use trustplane_testkit::audit::Mark;
use trustplane_testkit::{DEADLINE, Select, eventually, until};

use crate::delivery::seed;
use crate::stage::{DEVICE, Looks, PAIRS, Stage};
use crate::token::Token;

const MANY: usize = 200;
const TOKENS: [&str; 3] = ["a", "b", "c"];
/// An agent is asked again after the interval, less a margin for the delivery.
const BETWEEN_LISTS: Duration = Duration::from_millis(4750);

/// A secret of its own for each number.
fn secret(number: usize) -> WriteSecretRequest {
    let value = format!("value of {number}").into_bytes();
    WriteSecretRequest {
        path: format!("many/{number}"),
        secret_data: Some(SecretData {
            data: [("password".to_owned(), value)].into(),
        }),
        ..WriteSecretRequest::default()
    }
}

/// A stage with three tokens that have 200 secrets each.
async fn full_tokens() -> Result<(Stage, Looks)> {
    let mut tokens = Vec::new();
    for name in TOKENS {
        tokens.push(Token::new(name).await?);
    }
    let mut stage = Stage::new("many", tokens).await?;
    let (_, running, agents) = stage.start_with_agents("writer").await?;
    let home = stage.sandbox.namespace();
    let names = stage.tokens.iter().map(|token| token.agent_name(DEVICE));
    let writes = names.map(|name| {
        let agent = ObjectRef::new(Some(home), &name);
        crate::stage::write_all(&agents, agent, (0..MANY).map(secret))
    });
    try_join_all(writes).await?;
    stage.kill(running).await?;
    let looks = stage.count_looks();
    Ok((stage, looks))
}

/// Makes 200 HSMSecrets, and waits until all are in sync.
async fn deliver_all(stage: &Stage) -> Result<()> {
    let made = stream::iter(0..MANY).map(|number| {
        let spec = json!({ "hsmPath": format!("many/{number}"), "syncInterval": 5 });
        async move { stage.apply(&format!("db-{number}"), spec).await }
    });
    made.buffer_unordered(8)
        .try_for_each(|_| async { Ok(()) })
        .await?;
    let api = stage.sandbox.api::<HsmSecret>();
    let in_sync = |live: &&HsmSecret| {
        let status = live.status.as_ref();
        status.and_then(|status| status.sync_status.as_deref()) == Some("InSync")
    };
    eventually(&api, &Select::default(), DEADLINE, |found| {
        (found.values().filter(in_sync).count() == MANY).then_some(())
    })
    .await
}

/// How often each agent was asked for its list.
fn lists(stage: &Stage) -> Result<Vec<u64>> {
    stage.tokens.iter().map(Token::lists).collect()
}

/// Waits until each agent was asked so many times more.
async fn more_lists(stage: &Stage, before: &[u64], times: u64) -> Result<Vec<u64>> {
    until("each agent to be asked", DEADLINE, || async {
        let now = lists(stage)?;
        let asked = now.iter().zip(before).all(|(now, before)| *now >= before + times);
        Ok(asked.then_some(now))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn w37_two_hundred_secrets_at_rest_cost_one_call_per_agent_and_no_write() -> Result<()> {
    let (stage, looks) = full_tokens().await?;
    let (_, running) = stage.start("first").await?;
    deliver_all(&stage).await?;
    // Each is looked at once more, and each agent is asked: what the last write has brought about is over.
    let before = lists(&stage)?;
    looks.more(2 * MANY).await?;
    more_lists(&stage, &before, 1).await?;

    let mark = Mark::now(stage.sandbox.plane()).await?;
    let (begun, before) = (Instant::now(), lists(&stage)?);
    looks.more(2 * MANY).await?;
    let after = more_lists(&stage, &before, 2).await?;
    let intervals = begun.elapsed().as_secs_f64() / BETWEEN_LISTS.as_secs_f64();
    for (now, before) in after.iter().zip(&before) {
        // One of them may have been due when the measurement began.
        let calls = (now - before) as f64;
        assert!(
            calls <= intervals + 1.0,
            "{calls} calls in {intervals:.1} intervals"
        );
    }
    mark.since().await?.by_account(&stage.account).assert_silent();
    stage.kill(running).await?;

    // A manager that knows nothing yet writes nothing either.
    let mark = Mark::now(stage.sandbox.plane()).await?;
    let before = lists(&stage)?;
    let (_, running) = stage.start("second").await?;
    more_lists(&stage, &before, 1).await?;
    looks.more(3 * MANY).await?;
    mark.since().await?.by_account(&stage.account).assert_silent();
    stage.kill(running).await
}

#[tokio::test(flavor = "multi_thread")]
async fn two_managers_at_once_deliver_the_same_and_come_to_rest() -> Result<()> {
    let mut stage = Stage::new("both", vec![Token::new("a").await?]).await?;
    let looks = stage.count_looks();
    stage.token().write("shop/db", &PAIRS)?;
    let (_, one) = stage.start("one").await?;
    let (_, other) = stage.start("other").await?;
    let made = stage.apply("db", seed()).await?;
    stage.in_sync("db", &PAIRS).await?;
    stage.token().write("shop/db", &[("password", "second")])?;
    stage.in_sync("db", &[("password", "second")]).await?;
    looks.more(60).await?;
    let mark = Mark::now(stage.sandbox.plane()).await?;
    let before = lists(&stage)?;
    more_lists(&stage, &before, 2).await?;
    looks.more(60).await?;
    mark.since().await?.by_account(&stage.account).assert_silent();
    // Both take part in the deletion, and neither brings anything back.
    stage.delete("db").await?;
    looks.more(60).await?;
    assert!(stage.secrets().get_opt("db-credentials").await?.is_none());
    let again = stage.apply("db", seed()).await?;
    assert_ne!(made.uid(), again.uid());
    stage.in_sync("db", &[("password", "second")]).await?;
    stage.kill(one).await?;
    stage.kill(other).await
}
