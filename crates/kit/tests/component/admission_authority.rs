//! The CA that replicas share: whoever starts, rotates or crashes, there is one.

use std::sync::Arc;

use anyhow::Result;
use jiff::Timestamp;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use trustplane_kit::admission::{AuthorityError, SharedAuthority};
use trustplane_kit::lease::Fence;
use trustplane_kit::watch::{Tuning, Watches};
use trustplane_process::ca::{Authority, LeafRequest};
use trustplane_process::clock::Clock;
use trustplane_process::metrics::Metrics;
use trustplane_testkit::DEADLINE;
use trustplane_testkit::audit::Mark;
use trustplane_testkit::proxy::{Fault, Gate, Match, Rule, Verb};

use crate::admission_rig::{ANNOUNCED, POLICY, Rig, SECRET, clock, options};
use crate::write_rig::clients;

fn current(shared: &SharedAuthority) -> Arc<Authority> {
    shared.subscribe().borrow().clone()
}

fn assert_same(one: &SharedAuthority, other: &SharedAuthority) {
    assert_eq!(current(one).state(), current(other).state());
}

fn writes() -> Match {
    Match::verb(Verb::Patch).resource("secrets").name(SECRET)
}

#[tokio::test]
async fn of_two_replicas_that_make_the_first_authority_one_wins() -> Result<()> {
    let (rig, clock, gate) = (Rig::new("first-ca").await?, clock(), Gate::default());
    let held = rig
        .proxy
        .add(Rule::new(writes(), Fault::Hold(gate.clone())).times(2));
    // Both have seen the empty Secret before either has filled it.
    let release = async {
        held.fired(2, DEADLINE).await?;
        gate.open();
        anyhow::Ok(())
    };
    let (one, other, released) = tokio::join!(
        rig.open("one", Fence::closed(), &clock),
        rig.open("other", Fence::closed(), &clock),
        release
    );
    released?;
    let (one, other) = (one??, other??);
    assert_same(&one, &other);
    let leaf = current(&other).issue(&LeafRequest::default(), Timestamp::now())?;
    assert!(current(&one).vouches_for(&leaf));
    assert_eq!(
        rig.proxy.requests(&writes()).len(),
        2,
        "the loser does not try again"
    );
    let third = rig.open("third", Fence::closed(), &clock).await??;
    assert_same(&one, &third);
    Ok(())
}

#[tokio::test]
async fn a_replica_that_starts_in_the_middle_of_a_step_is_right_before_and_after() -> Result<()> {
    let (rig, clock) = (Rig::new("late-ca").await?, clock());
    let leader = rig.open("leader", Fence::always(), &clock).await??;
    let steps = [
        ("announce", ANNOUNCED),
        ("promote", POLICY.propagation),
        ("retire", POLICY.ca_life - ANNOUNCED),
    ];
    for (step, after) in steps {
        clock.advance(after);
        let (gate, before) = (Gate::default(), current(&leader));
        let held = rig
            .proxy
            .add(Rule::new(writes(), Fault::Hold(gate.clone())).once());
        let starting = async {
            held.fired(1, DEADLINE).await?;
            let replica = rig.open(step, Fence::closed(), &clock).await??;
            gate.open();
            anyhow::Ok(replica)
        };
        let (rotated, replica) = tokio::join!(leader.rotate(), starting);
        rotated?;
        let replica = replica?;
        assert_eq!(current(&replica).state(), before.state(), "{step}");
        assert_ne!(current(&leader).state(), before.state(), "{step}");
        replica.refresh().await?;
        assert_same(&replica, &leader);
    }
    Ok(())
}

#[tokio::test]
async fn a_step_belongs_to_the_leader_and_is_taken_once() -> Result<()> {
    let (rig, clock) = (Rig::new("step-ca").await?, clock());
    let leader = rig.open("leader", Fence::always(), &clock).await??;
    let rival = rig.open("rival", Fence::always(), &clock).await??;
    let standby = rig.open("standby", Fence::closed(), &clock).await??;
    leader.rotate().await?;
    assert_eq!(
        rig.proxy.requests(&writes()).len(),
        1,
        "nothing is due but the first authority"
    );

    clock.advance(ANNOUNCED);
    let refused = standby.rotate().await;
    assert!(
        matches!(refused, Err(AuthorityError::Write { .. })),
        "{refused:?}"
    );
    assert_eq!(
        rig.proxy.requests(&writes()).len(),
        1,
        "the write of a standby is not sent"
    );
    // The step takes effect, but its answer is lost.
    rig.proxy.add(Rule::new(writes(), Fault::CutAnswer).once());
    leader.rotate().await.unwrap_err();
    assert!(current(&leader).state().next.is_none());
    leader.refresh().await?;
    assert!(current(&leader).state().next.is_some());
    // A leader of old, with an old view: its step is refused, and it takes what is there.
    rival.rotate().await?;
    rival.refresh().await?;
    assert_same(&leader, &rival);
    let sent = rig.proxy.requests(&writes()).len();
    leader.rotate().await?;
    assert_eq!(
        rig.proxy.requests(&writes()).len(),
        sent,
        "the step was taken already"
    );
    Ok(())
}

#[tokio::test]
async fn an_authority_that_expired_in_our_absence_is_replaced_by_whoever_starts() -> Result<()> {
    let (rig, clock) = (Rig::new("expired-ca").await?, clock());
    let first = rig.open("first", Fence::always(), &clock).await??;
    clock.advance(ANNOUNCED);
    first.rotate().await?;
    let old = current(&first);
    clock.advance(POLICY.ca_life * 2);
    let second = rig.open("second", Fence::closed(), &clock).await??;
    let (now, revived) = (clock.now(), current(&second));
    assert!(!old.can_sign(now) && revived.can_sign(now));
    revived.issue(&LeafRequest::default(), now)?;
    first.refresh().await?;
    assert_same(&first, &second);
    Ok(())
}

#[tokio::test]
async fn a_secret_that_was_emptied_gets_back_what_everybody_trusts() -> Result<()> {
    let (rig, clock) = (Rig::new("empty-ca").await?, clock());
    let one = rig.open("one", Fence::closed(), &clock).await??;
    let (before, filled) = (current(&one), rig.secrets().get(SECRET).await?);
    let empty = Patch::Merge(json!({ "data": null }));
    rig.secrets()
        .patch(SECRET, &PatchParams::default(), &empty)
        .await?;
    one.refresh().await?;
    assert_eq!(rig.secrets().get(SECRET).await?.data, filled.data);
    let other = rig.open("other", Fence::closed(), &clock).await??;
    assert_eq!(current(&other).state(), before.state());
    let mark = Mark::now(rig.sandbox.plane()).await?;
    one.refresh().await?;
    other.refresh().await?;
    mark.since().await?.by_account(&rig.account).assert_silent();
    Ok(())
}

#[tokio::test]
async fn authority_is_read_when_its_secret_changes_and_not_at_rest() -> Result<()> {
    let (rig, clock) = (Rig::new("followed-ca").await?, clock());
    let leader = rig.open("leader", Fence::always(), &clock).await??;
    let clients = clients(&rig.instance("follower").await?, Fence::closed())?;
    let home = (rig.sandbox.namespace(), SECRET);
    let reads = Match::verb(Verb::Get).resource("secrets").name(SECRET);
    let follower = SharedAuthority::open(&clients, home, options(&clock), &Metrics::new()).await?;
    let watches = Watches::new(clients.watch.clone(), Tuning::default(), &Metrics::new());
    let (leading, stop) = (watch::Sender::new(false), CancellationToken::new());
    let following = follower.clone().run(&watches, leading.subscribe(), stop.clone());
    let following = tokio::spawn(following);
    let mut counts = Vec::new();
    for step in [ANNOUNCED, POLICY.propagation, POLICY.ca_life - ANNOUNCED] {
        clock.advance(step);
        leader.rotate().await?;
        let mut taken = follower.subscribe();
        let wanted = current(&leader);
        let same = taken.wait_for(|now| now.state() == wanted.state());
        timeout(DEADLINE, same).await??;
        counts.push(rig.proxy.requests(&reads).len());
        // Whoever does not lead is told so again, and has nothing to read.
        leading.send_replace(false);
    }
    stop.cancel();
    following.await?;
    counts.push(rig.proxy.requests(&reads).len());
    // How often it was read before the first step was taken depends on who was faster. From there on: once for each step.
    let since: Vec<_> = counts.iter().map(|count| count - counts[0]).collect();
    assert_eq!(since, [0, 1, 2, 2]);
    Ok(())
}

#[tokio::test]
async fn a_rehearsal_reads_the_authority_and_writes_none() -> Result<()> {
    let (rig, clock) = (Rig::new("rehearse-ca").await?, clock());
    let home = (rig.sandbox.namespace(), SECRET);
    let clients = clients(&rig.instance("rehearsal").await?, Fence::always())?;
    let made = SharedAuthority::rehearse(&clients, home, options(&clock)).await?;
    assert!(made.can_sign(clock.now()));
    assert_eq!(rig.proxy.requests(&writes()).len(), 0);
    let kept = rig.open("one", Fence::always(), &clock).await??;
    let read = SharedAuthority::rehearse(&clients, home, options(&clock)).await?;
    assert_eq!(read.state(), current(&kept).state());
    Ok(())
}

#[tokio::test]
async fn a_secret_of_another_system_gets_ours_beside_theirs() -> Result<()> {
    let (rig, clock) = (Rig::new("theirs-ca").await?, clock());
    let theirs = Patch::Merge(json!({ "stringData": { "tls.crt": "a", "tls.key": "b" } }));
    rig.secrets()
        .patch(SECRET, &PatchParams::default(), &theirs)
        .await?;
    let one = rig.open("one", Fence::always(), &clock).await??;
    let kept = rig.secrets().get(SECRET).await?.data.unwrap_or_default();
    assert_eq!(kept["tls.crt"].0, b"a");
    let other = rig.open("other", Fence::closed(), &clock).await??;
    assert_same(&one, &other);
    Ok(())
}

#[tokio::test]
async fn what_cannot_be_used_is_told_without_its_content() -> Result<()> {
    let (rig, clock) = (Rig::new("bad-ca").await?, clock());
    let foreign = json!({ "stringData": { "current.key": "hunter2", "times.json": "{}" } });
    let foreign = Patch::Merge(foreign);
    rig.secrets()
        .patch(SECRET, &PatchParams::default(), &foreign)
        .await?;
    let told = rig
        .open("one", Fence::always(), &clock)
        .await?
        .unwrap_err()
        .to_string();
    assert_eq!(
        told,
        "failed to use the certificate authority in Secret court-ca: the stored authority has no usable `times.json`"
    );
    assert_eq!(
        rig.proxy.requests(&writes()).len(),
        0,
        "it is not ours to overwrite"
    );
    rig.secrets().delete(SECRET, &DeleteParams::default()).await?;
    let told = rig
        .open("two", Fence::always(), &clock)
        .await?
        .unwrap_err()
        .to_string();
    assert_eq!(
        told,
        format!(
            "failed to read the certificate authority from Secret court-ca: \
             failed to read Secret {}/court-ca: it does not exist; the installation makes it, empty",
            rig.sandbox.namespace()
        )
    );
    Ok(())
}
