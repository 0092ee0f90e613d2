//! One leader: two replicas, a killed one, a frozen one, and one that goes in peace.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use k8s_openapi::api::coordination::v1::Lease;
use trustplane_testkit::audit::Mark;
use trustplane_testkit::proxy::{Fault, Gate, Match, Rule, Verb};
use trustplane_testkit::{DEADLINE, Instance, Process, wait_for_some};

use crate::stage::{SOURCE_NAME, Stage, replica};

const LEASE: &str = "trustplane-manager";

/// Two replicas: the one that leads, and the one that waits.
struct Pair {
    stage: Stage,
    leader: (Instance, Process),
    standby: (Instance, Process),
}

impl Pair {
    async fn new(name: &str) -> Result<Self> {
        let stage = Stage::new(name).await?;
        let leader = stage.start(&replica(), "first").await?;
        wait_for_holder(&stage, "first").await?;
        stage.set_source("0").await?;
        stage.mirror("m", &["a"]).await?;
        stage.says("m", "InStep").await?;
        let standby = stage.start(&replica(), "second").await?;
        // It has looked at the lease, so it waits.
        let looked = Match::any().resource("leases").by(&standby.0);
        stage.proxy.wait_for(&looked, 1, DEADLINE).await?;
        Ok(Self {
            stage,
            leader,
            standby,
        })
    }
}

/// Waits until an instance of this name holds the lease.
async fn wait_for_holder(stage: &Stage, name: &str) -> Result<Lease> {
    let leases = stage.sandbox.api::<Lease>();
    wait_for_some(&leases, LEASE, DEADLINE, |lease| {
        let holder = lease
            .spec
            .as_ref()
            .and_then(|spec| spec.holder_identity.as_deref());
        holder.is_some_and(|holder| holder.starts_with(name))
    })
    .await
}

#[tokio::test]
async fn of_two_replicas_one_writes() -> Result<()> {
    let pair = Pair::new("two").await?;
    let mark = Mark::now(pair.stage.sandbox.plane()).await?;
    pair.stage.assert_follows("a", "1").await?;
    pair.stage.mirror("n", &["b", "c"]).await?;
    pair.stage.says("n", "InStep").await?;
    let audit = mark.since().await?;
    audit.by(&pair.standby.0).assert_silent();
    assert!(audit.by(&pair.leader.0).writes().len() >= 4, "{}", audit.story());
    Ok(())
}

#[tokio::test]
async fn the_standby_takes_over_from_a_killed_leader() -> Result<()> {
    let pair = Pair::new("killed").await?;
    pair.leader.1.kill().await?;
    let killed = Instant::now();
    pair.stage.set_source("1").await?;
    pair.stage.in_step("a", "1").await?;
    println!(
        "the copy was in step {:?} after the leader was killed",
        killed.elapsed()
    );
    wait_for_holder(&pair.stage, "second").await?;
    Ok(())
}

/// The hardest case: the leader is frozen in the middle of its work, with the answer that it waits for already in its socket.
/// When it wakes, its lease has gone to another, and the write that comes next must not be sent.
#[tokio::test]
async fn a_frozen_leader_writes_nothing_when_it_wakes() -> Result<()> {
    let Pair {
        stage,
        leader: (leader, mut frozen),
        standby: (standby, _running),
    } = Pair::new("frozen").await?;
    let gate = Gate::default();
    let reads = Match::verb(Verb::Get)
        .resource("secrets")
        .name(SOURCE_NAME)
        .by(&leader);
    let held = stage.proxy.add(Rule::new(reads, Fault::Hold(gate.clone())));
    stage.set_source("1").await?;
    held.fired(1, DEADLINE).await?;
    frozen.freeze()?;
    let journal = stage.proxy.mark();
    gate.open();
    wait_for_holder(&stage, "second").await?;
    stage.in_step("a", "1").await?;
    stage.assert_follows("a", "2").await?;
    let mark = Mark::now(stage.sandbox.plane()).await?;
    frozen.thaw()?;
    let status = frozen.ended(DEADLINE).await?;
    assert!(
        !status.success(),
        "a leader that lost its lease must not end as if all were well"
    );
    let late = stage.proxy.requests_since(journal, &Match::work().by(&leader));
    assert!(late.is_empty(), "writes of a leader without a lease: {late:#?}");
    mark.since().await?.by(&leader).assert_silent();
    stage.assert_follows("a", "3").await?;
    assert!(
        !stage
            .proxy
            .requests_since(journal, &Match::work().by(&standby))
            .is_empty()
    );
    Ok(())
}

#[tokio::test]
async fn a_leader_that_ends_hands_over_at_once() -> Result<()> {
    let mut pair = Pair::new("handover").await?;
    let asked = Instant::now();
    pair.leader.1.terminate()?;
    wait_for_holder(&pair.stage, "second").await?;
    let took = asked.elapsed();
    println!("the standby led {took:?} after SIGTERM");
    assert!(
        took < Duration::from_secs(10),
        "the standby led only after {took:?}: the lease was not given back"
    );
    let status = pair.leader.1.ended(DEADLINE).await?;
    assert!(
        status.success(),
        "the leader did not end well: {status}\n{}",
        pair.leader.1.log()?
    );
    pair.stage
        .assert_follows("a", "1")
        .await
        .context("after the hand-over")?;
    Ok(())
}

#[tokio::test]
async fn a_leader_that_cannot_reach_the_api_server_stops_writing() -> Result<()> {
    let Pair {
        stage,
        leader: (leader, mut cut_off),
        standby: _standby,
    } = Pair::new("cut-off").await?;
    // Only the lease is out of reach: the leader could write, and must know that it may not.
    let renewals = Match::any().resource("leases").by(&leader);
    stage.proxy.add(Rule::new(renewals, Fault::Cut));
    wait_for_holder(&stage, "second").await?;
    let journal = stage.proxy.mark();
    stage.assert_follows("a", "1").await?;
    let status = cut_off.ended(DEADLINE).await?;
    assert!(!status.success());
    let late = stage.proxy.requests_since(journal, &Match::work().by(&leader));
    assert!(late.is_empty(), "writes of a leader without a lease: {late:#?}");
    Ok(())
}
