//! What a subscriber sees of a world without faults.

use anyhow::Result;
use serde_json::json;
use trustplane_kit::watch::Change;
use trustplane_plan::{Kind, ObjectRef, Scope};
use trustplane_testkit::proxy::{EventFault, EventMatch, Fault, Gate, Match, Rule};
use trustplane_testkit::{DEADLINE, Sandbox, until};

use crate::watch_rig::{Rig, content, hear, is_well, next, readers, stands, tuning};

#[tokio::test]
async fn changes_come_with_their_uids_and_last_states() -> Result<()> {
    let rig = Rig::new("watch").await?;
    let uid = rig.create("a").await?;
    let mut subscription = rig.subscribe();
    let Change::Applied {
        object,
        initial: true,
    } = next(&mut subscription).await?
    else {
        panic!("not an initial change")
    };
    assert_eq!(*object.meta.uid, *uid);
    assert!(object.meta.annotations.is_empty());

    rig.patch("a", json!({ "data": { "key": "other" } })).await?;
    let Change::Applied {
        object,
        initial: false,
    } = next(&mut subscription).await?
    else {
        panic!("not a later change")
    };
    let version = object.meta.resource_version.clone();

    rig.delete("a").await?;
    let Change::Deleted {
        object,
        uid: gone,
        last: Some(last),
    } = next(&mut subscription).await?
    else {
        panic!("not a deletion")
    };
    assert_eq!(
        (object.name(), &*gone, &last.meta.resource_version),
        ("a", uid.as_str(), &version)
    );
    assert!(subscription.store().is_empty());
    Ok(())
}

#[tokio::test]
async fn ready_only_when_the_first_list_is_complete() -> Result<()> {
    let rig = Rig::new("watch").await?;
    rig.create("a").await?;
    let gate = Gate::default();
    let end = Fault::Events(EventMatch::of(&["BOOKMARK"]), EventFault::Hold(gate.clone()));
    let held = rig.proxy.add(Rule::new(rig.watching(), end));
    let mut subscription = rig.subscribe();
    let store = subscription.store();
    held.fired(1, DEADLINE).await?;
    assert!(
        !store.is_ready() && !store.is_complete() && store.is_empty(),
        "{store:?}"
    );
    assert!(subscription.try_next().is_none(), "a part of a list is no list");
    gate.open();
    store.ready().await?;
    assert_eq!(store.len(), 1);
    assert_eq!(hear(&mut subscription, 1).await?, ["+a"]);
    Ok(())
}

#[tokio::test]
async fn selectors_choose_and_what_leaves_the_selection_is_gone() -> Result<()> {
    let rig = Rig::new("watch").await?;
    let mut labelled = rig.settled(&["a", "b"]).await?;
    let mut only_b = rig.watches.subscribe(rig.spec().fields("metadata.name=b"));
    assert_eq!(hear(&mut only_b, 1).await?, ["+b"]);
    rig.patch("a", json!({ "metadata": { "labels": { "test": "other" } } }))
        .await?;
    assert_eq!(hear(&mut labelled, 1).await?, ["-a"]);
    rig.patch("a", json!({ "metadata": { "labels": { "test": "ours" } } }))
        .await?;
    assert_eq!(hear(&mut labelled, 1).await?, ["+a"]);
    rig.delete("b").await?;
    assert_eq!(hear(&mut only_b, 1).await?, ["-b"]);
    assert_eq!(only_b.pending(), 0, "nothing of a came");
    Ok(())
}

#[tokio::test]
async fn a_list_of_namespaces_is_ready_when_each_of_them_is() -> Result<()> {
    let other = Sandbox::new("watch-other").await?;
    let rig = Rig::new("watch").await?;
    // The account of the rig may read everywhere, so that nothing but the scope limits it.
    let everywhere =
        trustplane_testkit::Rules::default().allow_everywhere("", "configmaps", &["list", "watch"]);
    let instance = rig
        .sandbox
        .instance("everywhere", &everywhere)
        .await?
        .through(&rig.proxy);
    let watches = trustplane_kit::watch::Watches::new(instance.client()?, tuning(), &rig.metrics);
    rig.create("here").await?;
    let outside = Sandbox::new("watch-outside").await?;
    for sandbox in [&other, &outside] {
        let body =
            serde_json::from_value(json!({ "metadata": { "name": "there", "labels": { "test": "ours" } } }))?;
        let api = sandbox.api::<k8s_openapi::api::core::v1::ConfigMap>();
        api.create(&kube::api::PostParams::default(), &body).await?;
    }
    let gate = Gate::default();
    let late = Match::any().resource("configmaps").namespace(other.namespace());
    rig.proxy.add(Rule::new(late, Fault::Hold(gate.clone())));
    let spec = rig
        .spec()
        .namespaces([rig.sandbox.namespace(), other.namespace()]);
    let mut subscription = watches.subscribe(spec);
    let store = subscription.store();
    assert_eq!(
        hear(&mut subscription, 1).await?,
        ["+here"],
        "a namespace does not wait for the other"
    );
    assert!(!store.is_ready() && !store.is_complete());
    gate.open();
    store.ready().await?;
    assert_eq!(hear(&mut subscription, 1).await?, ["+there"]);
    assert_eq!(store.len(), 2, "nothing came from a third namespace");
    assert!(
        store
            .get(&ObjectRef::new(Some(other.namespace()), "there"))
            .is_some()
    );
    assert!(store.versions().get(Some(other.namespace())).is_some());
    Ok(())
}

#[tokio::test]
async fn a_kind_known_only_at_run_time_can_be_watched() -> Result<()> {
    let rig = Rig::new("watch").await?;
    let found: serde_json::Value = serde_json::from_value(
        json!({ "group": "", "version": "v1", "kind": "ConfigMap", "plural": "configmaps" }),
    )?;
    let text = |key: &str| found[key].as_str().map(str::to_owned).unwrap_or_default().into();
    let kind = Kind {
        group: text("group"),
        version: text("version"),
        kind: text("kind"),
        plural: text("plural"),
        scope: Scope::Namespaced,
    };
    let mut spec = rig.spec();
    spec.kind = kind;
    let mut subscription = rig.watches.subscribe(spec);
    rig.create("a").await?;
    assert_eq!(hear(&mut subscription, 1).await?, ["+a"]);
    Ok(())
}

#[tokio::test]
async fn subscribers_share_one_watch_that_ends_with_the_last() -> Result<()> {
    let rig = Rig::new("watch").await?;
    let mut first = rig.settled(&["a", "b"]).await?;
    rig.patch("b", json!({ "data": { "key": "newer" } })).await?;
    assert_eq!(hear(&mut first, 1).await?, ["+b"]);

    // A late subscriber hears of everything that is there, in its newest state.
    let mut late = rig.watches.clone().subscribe(rig.spec());
    for _ in 0..2 {
        assert!(matches!(
            next(&mut late).await?,
            Change::Applied { initial: true, .. }
        ));
    }
    assert_eq!(content(&late.store()), content(&first.store()));
    rig.delete("a").await?;
    assert_eq!(hear(&mut first, 1).await?, ["-a"]);
    assert_eq!(hear(&mut late, 1).await?, ["-a"]);
    assert_eq!(rig.proxy.requests(&rig.watching()).len(), 1, "one watch for both");

    let store = late.store();
    drop(first);
    rig.create("c").await?;
    assert_eq!(
        hear(&mut late, 1).await?,
        ["+c"],
        "the watch goes on for the other"
    );
    drop(late);
    until("the end of the watch", DEADLINE, || async {
        Ok((rig.proxy.under_way(&rig.watching()) == 0).then_some(()))
    })
    .await?;
    stands(&store, |now| now.health.as_str() == "Stopped").await?;

    // And it can be started again.
    let mut again = rig.subscribe();
    assert_eq!(hear(&mut again, 2).await?, ["+b", "+c"]);
    assert_eq!(rig.proxy.requests(&rig.watching()).len(), 2);
    Ok(())
}

#[tokio::test]
async fn what_differs_is_not_shared() -> Result<()> {
    let rig = Rig::new("watch").await?;
    let one = rig.subscribe();
    let other = rig.watches.subscribe(rig.spec().labels("test=other"));
    is_well(&one.store()).await?;
    is_well(&other.store()).await?;
    assert_eq!(rig.proxy.requests(&rig.watching()).len(), 2);
    Ok(())
}

#[tokio::test]
async fn a_slow_subscriber_is_told_the_newest_state_and_loses_nothing() -> Result<()> {
    let rig = Rig::new("watch").await?;
    let mut slow = rig.settled(&["a", "b"]).await?;
    let mut quick = rig.subscribe();
    assert_eq!(hear(&mut quick, 2).await?, ["+a", "+b"]);

    let mut version = String::new();
    for n in 0..30 {
        let patched = rig
            .patch("a", json!({ "data": { "key": n.to_string() } }))
            .await?;
        version = patched.metadata.resource_version.unwrap_or_default();
    }
    rig.create("passing").await?;
    rig.delete("passing").await?;
    rig.delete("b").await?;
    let second = rig.create("b").await?;

    // When the quick one has heard of the last event, the slow one's inbox has it too.
    let is_last = |change: &Change<()>| **change.uid() == *second && matches!(change, Change::Applied { .. });
    while !is_last(&next(&mut quick).await?) {}
    assert_eq!(slow.pending(), 2);
    let Change::Applied {
        object,
        initial: false,
    } = next(&mut slow).await?
    else {
        panic!("not a")
    };
    assert_eq!(
        (object.meta.object.name(), &*object.meta.resource_version),
        ("a", version.as_str())
    );
    assert!(matches!(next(&mut slow).await?, Change::Deleted { uid, .. } if *uid != *second));
    assert!(is_last(&next(&mut slow).await?));
    assert!(
        slow.try_next().is_none(),
        "what came and went unheard is not told"
    );
    Ok(())
}

#[tokio::test]
async fn bookmarks_move_the_version_where_nothing_happens() -> Result<()> {
    let mut short = tuning();
    // The server sends a bookmark shortly before it ends a watch.
    short.watch_timeout = std::time::Duration::from_secs(5);
    let rig = Rig::on(Sandbox::new("watch").await?, &readers(), short).await?;
    let subscription = rig.subscribe();
    let store = subscription.store();
    store.ready().await?;
    let before = store.versions();
    rig.create_foreign().await?;
    until("a bookmark", DEADLINE, || async {
        Ok((store.versions() != before).then_some(()))
    })
    .await?;
    assert!(store.is_empty());
    assert_eq!(rig.lists(), 1, "no list was needed");
    Ok(())
}

#[tokio::test]
async fn the_state_of_all_watches_can_be_looked_at() -> Result<()> {
    let rig = Rig::new("watch").await?;
    let subscription = rig.settled(&["a"]).await?;
    let state = rig.watches.debug_state();
    let collection = &state[0]["collections"][0];
    assert_eq!(collection["objects"], 1, "{state}");
    assert_eq!(collection["health"], "Ready", "{state}");
    let version = subscription.versions();
    assert_eq!(
        collection["version"].as_str(),
        version.get(Some(rig.sandbox.namespace())),
        "{state}"
    );
    let text = rig.metrics.encode();
    for line in [
        "trustplane_watch_objects{kind=\"ConfigMap\"} 1",
        "trustplane_watch_events_total{kind=\"ConfigMap\",event=\"added\"} 1",
        "trustplane_watch_lists_total{kind=\"ConfigMap\"} 1",
        "trustplane_watch_pending{kind=\"ConfigMap\"} 0",
    ] {
        assert!(text.contains(line), "{line} is missing in {text}");
    }
    drop(subscription);
    until("the gauge to fall", DEADLINE, || async {
        Ok(rig
            .metrics
            .encode()
            .contains("trustplane_watch_objects{kind=\"ConfigMap\"} 0")
            .then_some(()))
    })
    .await?;
    assert_eq!(rig.watches.debug_state(), json!([]));
    Ok(())
}
