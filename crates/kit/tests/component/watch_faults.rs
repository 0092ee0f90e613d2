//! What a subscriber sees of a world with faults: the same, later.

use std::time::Duration;

use anyhow::Result;
use serde_json::json;
use trustplane_kit::watch::{Change, Health, Reason};
use trustplane_testkit::proxy::{Answer, EventFault, EventMatch, Fault, Gate, Match, Proxy, Rule};
use trustplane_testkit::{DEADLINE, until};

use crate::watch_rig::{Rig, content, hear, is_well, next, stands, tuning};

fn event(on: EventMatch, fault: EventFault) -> Fault {
    Fault::Events(on, fault)
}

#[tokio::test]
async fn a_cut_connection_goes_on_where_it_was() -> Result<()> {
    let rig = Rig::new("watch").await?;
    let mut subscription = rig.settled(&["a"]).await?;
    for name in ["b", "c"] {
        rig.proxy.cut_all();
        rig.create(name).await?;
        assert_eq!(hear(&mut subscription, 1).await?, [format!("+{name}")]);
    }
    assert_eq!(rig.lists(), 1, "nothing was listed again");
    is_well(&subscription.store()).await
}

#[tokio::test]
async fn a_silent_connection_is_given_up() -> Result<()> {
    let mut short = tuning();
    short.watch_timeout = Duration::from_secs(2);
    short.idle_grace = Duration::from_secs(1);
    let rig = Rig::with("watch", short).await?;
    let mut subscription = rig.settled(&["a"]).await?;
    let on = EventMatch::any().name("b");
    let frozen = rig
        .proxy
        .add(Rule::new(rig.watching(), event(on, EventFault::Freeze)).once());
    rig.create("b").await?;
    frozen.fired(1, DEADLINE).await?;
    assert_eq!(
        hear(&mut subscription, 1).await?,
        ["+b"],
        "from the next connection"
    );
    assert_eq!(rig.lists(), 1);
    Ok(())
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_reported_and_survived() -> Result<()> {
    let mut short = tuning();
    short.request_timeout = Duration::from_millis(500);
    let rig = Rig::with("watch", short).await?;
    let mut subscription = rig.settled(&["a"]).await?;
    let store = subscription.store();
    rig.proxy.freeze();
    rig.proxy.cut(&rig.watching());
    let failing = |health| {
        matches!(
            health,
            Health::Failing {
                reason: Reason::TimedOut,
                ..
            }
        )
    };
    let standing = stands(&store, |now| failing(now.health)).await?;
    assert!(
        standing.ready && standing.complete && store.len() == 1,
        "an outage empties nothing"
    );
    rig.create("b").await?;
    rig.proxy.thaw();
    assert_eq!(hear(&mut subscription, 1).await?, ["+b"]);
    is_well(&store).await
}

#[tokio::test]
async fn an_expired_version_is_listed_anew_and_deletions_are_still_told() -> Result<()> {
    let rig = Rig::new("watch").await?;
    let mut subscription = rig.settled(&["a", "b", "c"]).await?;
    let on = EventMatch::of(&["DELETED"]).name("a");
    let expired = rig
        .proxy
        .add(Rule::new(rig.watching(), event(on, EventFault::Expire)).once());
    rig.delete("a").await?;
    expired.fired(1, DEADLINE).await?;
    let Change::Deleted { object, last, .. } = next(&mut subscription).await? else {
        panic!("not a deletion")
    };
    assert!(object.name() == "a" && last.is_some());
    assert_eq!(rig.lists(), 2);
    assert!(
        subscription.try_next().is_none(),
        "what has not changed is not told again"
    );
    assert_eq!(content(&subscription.store()).len(), 2);
    Ok(())
}

#[tokio::test]
async fn an_expired_version_at_the_start_of_a_watch_is_listed_anew() -> Result<()> {
    let rig = Rig::new("watch").await?;
    let mut subscription = rig.settled(&["a"]).await?;
    // Nothing may pass between the cut and the answer, or there would be an event before the list.
    rig.proxy
        .add(Rule::new(rig.watching(), Fault::Answer(Answer::expired())).once());
    rig.proxy.freeze();
    rig.proxy.cut(&rig.watching());
    rig.delete("a").await?;
    rig.create("b").await?;
    rig.proxy.thaw();
    assert_eq!(hear(&mut subscription, 2).await?, ["-a", "+b"]);
    assert_eq!(rig.lists(), 2);
    is_well(&subscription.store()).await
}

#[tokio::test]
async fn a_recreated_object_is_first_gone_then_there() -> Result<()> {
    let rig = Rig::new("watch").await?;
    let mut subscription = rig.settled(&["a"]).await?;
    let uid_of = |change: &Change<()>| change.uid().to_string();

    // Seen only as an event with another uid.
    let lost = event(EventMatch::of(&["DELETED"]), EventFault::Drop);
    let lost = rig.proxy.add(Rule::new(rig.watching(), lost).once());
    rig.delete("a").await?;
    lost.fired(1, DEADLINE).await?;
    let second = rig.create("a").await?;
    let (gone, there) = (next(&mut subscription).await?, next(&mut subscription).await?);
    assert!(
        matches!(gone, Change::Deleted { .. }) && uid_of(&gone) != second,
        "{gone:?}"
    );
    assert!(
        matches!(there, Change::Applied { .. }) && uid_of(&there) == second,
        "{there:?}"
    );

    // Seen only in a list.
    let expire = event(EventMatch::of(&["DELETED"]), EventFault::Expire);
    let gate = Gate::default();
    rig.proxy
        .add(Rule::new(rig.watching(), Fault::Hold(gate.clone())).once());
    let expired = rig.proxy.add(Rule::new(rig.watching(), expire).once());
    rig.delete("a").await?;
    expired.fired(1, DEADLINE).await?;
    let third = rig.create("a").await?;
    gate.open();
    let (gone, there) = (next(&mut subscription).await?, next(&mut subscription).await?);
    assert!(
        matches!(gone, Change::Deleted { .. }) && uid_of(&gone) == second,
        "{gone:?}"
    );
    assert!(
        matches!(there, Change::Applied { .. }) && uid_of(&there) == third,
        "{there:?}"
    );
    Ok(())
}

#[tokio::test]
async fn an_expired_token_is_survived() -> Result<()> {
    let rig = Rig::new("watch").await?;
    let mut subscription = rig.settled(&["a"]).await?;
    let store = subscription.store();
    let expired = rig
        .proxy
        .add(Rule::new(Match::any(), Fault::Answer(Answer::unauthorized())).times(5));
    rig.proxy.cut(&rig.watching());
    let failing = |health| {
        matches!(
            health,
            Health::Failing {
                reason: Reason::Unauthorized,
                ..
            }
        )
    };
    stands(&store, |now| failing(now.health)).await?;
    expired.fired(5, DEADLINE).await?;
    rig.create("b").await?;
    assert_eq!(hear(&mut subscription, 1).await?, ["+b"]);
    is_well(&store).await?;
    assert_eq!(rig.lists(), 1);
    let text = rig.metrics.encode();
    let line = "trustplane_watch_failures_total{kind=\"ConfigMap\",reason=\"Unauthorized\"} 5";
    assert!(text.contains(line), "{text}");
    Ok(())
}

#[tokio::test]
async fn the_server_says_when_to_come_back() -> Result<()> {
    let rig = Rig::new("watch").await?;
    let throttle = Fault::Answer(Answer::too_many_requests(1));
    rig.proxy.add(Rule::new(rig.watching(), throttle).times(2));
    let subscription = rig.subscribe();
    is_well(&subscription.store()).await?;
    let asked = rig.proxy.requests(&rig.watching());
    assert_eq!(asked.len(), 3);
    for pair in asked.windows(2) {
        assert!(pair[1].arrived_at - pair[0].arrived_at >= Duration::from_secs(1));
    }
    Ok(())
}

#[tokio::test]
async fn errors_of_the_server_are_backed_off_and_survived() -> Result<()> {
    let rig = Rig::new("watch").await?;
    for answer in [Answer::internal_error(), Answer::unavailable()] {
        rig.proxy
            .add(Rule::new(rig.watching(), Fault::Answer(answer)).times(2));
    }
    let mut subscription = rig.subscribe();
    rig.create("a").await?;
    assert_eq!(hear(&mut subscription, 1).await?, ["+a"]);
    assert_eq!(rig.proxy.requests(&rig.watching()).len(), 5);
    Ok(())
}

#[tokio::test]
async fn duplicated_and_swapped_events_lead_to_the_same_end() -> Result<()> {
    let rig = Rig::new("watch").await?;
    let mut subscription = rig.settled(&["a"]).await?;
    let twice = event(EventMatch::any().name("a"), EventFault::Duplicate);
    let twice = rig.proxy.add(Rule::new(rig.watching(), twice).once());
    let patched = rig.patch("a", json!({ "data": { "key": "1" } })).await?;
    twice.fired(1, DEADLINE).await?;
    assert_eq!(hear(&mut subscription, 1).await?, ["+a"]);

    // The deletion overtakes the last change: its echo must not bring the object back.
    let swap = event(EventMatch::of(&["MODIFIED"]).name("a"), EventFault::Swap);
    rig.proxy.add(Rule::new(rig.watching(), swap).once());
    rig.patch("a", json!({ "data": { "key": "2" } })).await?;
    rig.delete("a").await?;
    let Change::Deleted { last: Some(last), .. } = next(&mut subscription).await? else {
        panic!("not a deletion")
    };
    assert_eq!(
        Some(&*last.meta.resource_version),
        patched.metadata.resource_version.as_deref()
    );
    // The doubt leads to a list, and that to the truth.
    until("the list", DEADLINE, || async {
        Ok((rig.lists() == 2).then_some(()))
    })
    .await?;
    rig.create("b").await?;
    assert_eq!(
        hear(&mut subscription, 1).await?,
        ["+b"],
        "nothing else in between"
    );
    assert_eq!(content(&subscription.store()).len(), 1);
    Ok(())
}

#[tokio::test]
async fn a_lost_event_is_mended_by_a_fresh_list() -> Result<()> {
    let rig = Rig::new("watch").await?;
    let mut subscription = rig.settled(&["a"]).await?;
    let lost = event(EventMatch::of(&["DELETED"]), EventFault::Drop);
    let lost = rig.proxy.add(Rule::new(rig.watching(), lost).once());
    rig.delete("a").await?;
    lost.fired(1, DEADLINE).await?;
    subscription.store().relist();
    assert_eq!(hear(&mut subscription, 1).await?, ["-a"]);
    Ok(())
}

#[tokio::test]
async fn a_server_that_fell_behind_deletes_nothing() -> Result<()> {
    let rig = Rig::new("watch").await?;
    let mut subscription = rig.settled(&["a"]).await?;
    let namespace = rig.sandbox.namespace();
    let past = subscription
        .versions()
        .get(Some(namespace))
        .unwrap_or_default()
        .to_owned();
    rig.create("b").await?;
    assert_eq!(hear(&mut subscription, 1).await?, ["+b"]);
    // Lists come from before b was made; one that is taken would say that b is gone.
    let stale = Fault::Past {
        resource_version: past,
        gate: Gate::default(),
    };
    let stale = rig
        .proxy
        .add(Rule::new(Match::any().resource("configmaps"), stale).times(3));
    subscription.store().relist();
    stale.fired(3, DEADLINE).await?;
    is_well(&subscription.store()).await?;
    rig.create("c").await?;
    assert_eq!(hear(&mut subscription, 1).await?, ["+c"], "b was never gone");
    assert_eq!(subscription.store().len(), 3);
    Ok(())
}

#[tokio::test]
async fn the_api_server_may_restart() -> Result<()> {
    use trustplane_cluster::control_plane::Component;
    let plane = trustplane_testkit::ControlPlane::own().await?;
    let sandbox = trustplane_testkit::Sandbox::on(plane.clone(), "watch").await?;
    let rig = Rig::on(sandbox, &crate::watch_rig::readers(), tuning()).await?;
    let mut subscription = rig.settled(&["a", "b"]).await?;
    let store = subscription.store();
    plane.kill(Component::ApiServer).await?;
    stands(&store, |now| matches!(now.health, Health::Failing { .. })).await?;
    assert!(store.is_ready() && store.len() == 2, "an outage empties nothing");
    plane.restart(Component::ApiServer).await?;
    rig.delete("a").await?;
    rig.create("c").await?;
    assert_eq!(hear(&mut subscription, 2).await?, ["-a", "+c"]);
    is_well(&store).await?;
    drop::<Proxy>(rig.proxy);
    Ok(())
}
