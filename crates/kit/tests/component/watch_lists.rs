//! Lists by pages, where the server does not stream them, and starts from a stored version.

use std::sync::Arc;

use anyhow::Result;
use http::{Request, Uri};
use kube::client::{Body, ClientBuilder};
use serde_json::json;
use tower::util::MapRequestLayer;
use trustplane_kit::watch::{Change, Resume, Subscription, Tuning, Watches};
use trustplane_plan::ObjectRef;
use trustplane_testkit::DEADLINE;
use trustplane_testkit::proxy::{Answer, Entry, EventFault, EventMatch, Fault, Gate, Match, Rule, Verb};

use crate::watch_rig::{Rig, content, hear, next, stands, tuning};

/// Takes a parameter away without which the real API server refuses a streaming list.
pub fn unstreamable(mut request: Request<Body>) -> Request<Body> {
    let target = request
        .uri()
        .to_string()
        .replace("&resourceVersionMatch=NotOlderThan", "");
    if let Ok(target) = target.parse::<Uri>() {
        *request.uri_mut() = target;
    }
    request
}

/// Watches whose streaming lists the API server refuses.
fn unstreamed(rig: &Rig, tuning: Tuning) -> Result<Watches> {
    let client = ClientBuilder::try_from(rig.instance.config()?)?
        .with_layer(&MapRequestLayer::new(unstreamable))
        .build();
    Ok(Watches::new(client, tuning, &rig.metrics))
}

pub fn small_pages() -> Tuning {
    Tuning {
        page_size: 2,
        ..tuning()
    }
}

fn pages(rig: &Rig) -> Vec<Entry> {
    rig.proxy
        .requests(&Match::verb(Verb::List).resource("configmaps"))
}

#[tokio::test]
async fn a_server_that_refuses_to_stream_is_listed_by_pages() -> Result<()> {
    let rig = Rig::new("watch").await?;
    for name in ["a", "b", "c", "d", "e"] {
        rig.create(name).await?;
    }
    let mut subscription = unstreamed(&rig, small_pages())?.subscribe(rig.spec());
    assert_eq!(hear(&mut subscription, 5).await?, ["+a", "+b", "+c", "+d", "+e"]);
    assert!(subscription.store().is_complete());
    let first = &rig.proxy.requests(&rig.watching())[0];
    assert_eq!(first.status, Some(422), "{}", first.request);
    assert_eq!(pages(&rig).len(), 3);
    rig.delete("c").await?;
    assert_eq!(
        hear(&mut subscription, 1).await?,
        ["-c"],
        "a watch follows the list"
    );

    // The next list does not try to stream again, and still tells of deletions.
    let gate = Gate::default();
    rig.proxy.add(
        Rule::new(
            Match::verb(Verb::List).resource("configmaps"),
            Fault::Hold(gate.clone()),
        )
        .once(),
    );
    let expire = Fault::Events(EventMatch::any(), EventFault::Expire);
    let expired = rig.proxy.add(Rule::new(rig.watching(), expire).once());
    rig.delete("a").await?;
    expired.fired(1, DEADLINE).await?;
    rig.delete("b").await?;
    gate.open();
    assert_eq!(hear(&mut subscription, 2).await?, ["-a", "-b"]);
    let streamed = rig.proxy.requests(&rig.watching());
    assert_eq!(
        streamed
            .iter()
            .filter(|entry| entry.request.query.contains("sendInitial"))
            .count(),
        1
    );
    Ok(())
}

#[tokio::test]
async fn an_expired_page_token_starts_the_list_over() -> Result<()> {
    let rig = Rig::new("watch").await?;
    for name in ["a", "b", "c"] {
        rig.create(name).await?;
    }
    let listing = Match::verb(Verb::List).resource("configmaps");
    rig.proxy.add(
        Rule::new(listing, Fault::Answer(Answer::expired()))
            .skip(1)
            .once(),
    );
    let mut subscription = unstreamed(&rig, small_pages())?.subscribe(rig.spec());
    assert_eq!(hear(&mut subscription, 3).await?, ["+a", "+b", "+c"]);
    let tokens: Vec<_> = pages(&rig)
        .iter()
        .map(|page| page.request.query.contains("continue="))
        .collect();
    assert_eq!(
        tokens,
        [false, true, false],
        "a page, a token that has expired, all over again in larger steps"
    );
    assert!(subscription.try_next().is_none());
    Ok(())
}

#[tokio::test]
async fn a_page_that_fails_is_asked_for_again_by_itself() -> Result<()> {
    let rig = Rig::new("watch").await?;
    for name in ["a", "b", "c"] {
        rig.create(name).await?;
    }
    let listing = Match::verb(Verb::List).resource("configmaps");
    rig.proxy.add(Rule::new(listing, Fault::CutAnswer).skip(1).once());
    let mut subscription = unstreamed(&rig, small_pages())?.subscribe(rig.spec());
    assert_eq!(hear(&mut subscription, 3).await?, ["+a", "+b", "+c"]);
    let tokens: Vec<_> = pages(&rig)
        .iter()
        .map(|page| page.request.query.contains("continue="))
        .collect();
    assert_eq!(tokens, [false, true, true]);
    Ok(())
}

/// What a subscriber would store: how far it came, and what there was.
fn stored(subscription: &Subscription<()>) -> Resume {
    let known = subscription
        .store()
        .list()
        .iter()
        .map(|o| (o.meta.object.clone(), o.meta.uid.clone()))
        .collect();
    Resume {
        versions: subscription.versions(),
        known,
    }
}

#[tokio::test]
async fn a_stored_version_is_where_it_goes_on() -> Result<()> {
    let rig = Rig::new("watch").await?;
    let before = rig.settled(&["a", "b", "c", "d"]).await?;
    let resume = stored(&before);
    drop(before);
    rig.delete("a").await?;
    rig.delete("b").await?;
    let second = rig.create("b").await?;
    rig.patch("c", json!({ "data": { "key": "newer" } })).await?;
    rig.create("e").await?;

    let mark = rig.proxy.mark();
    let mut after = rig.restarted(tuning())?.subscribe(rig.spec().resume(resume));
    let store = after.store();
    store.ready().await?;
    assert!(!store.is_complete());
    assert_eq!(hear(&mut after, 5).await?, ["-a", "-b", "+b", "+c", "+e"]);
    assert_eq!(
        content(&store).keys().collect::<Vec<_>>(),
        ["b", "c", "e"],
        "d has not changed"
    );
    let b = store.get(&ObjectRef::new(Some(rig.sandbox.namespace()), "b"));
    assert_eq!(b.map(|b| b.meta.uid.to_string()), Some(second));
    let asked = rig
        .proxy
        .requests_since(mark, &Match::any().resource("configmaps"));
    assert_eq!(asked.len(), 1, "one watch, no list");

    store.relist();
    assert_eq!(hear(&mut after, 1).await?, ["+d"]);
    assert!(store.is_complete() && store.len() == 4);
    Ok(())
}

#[tokio::test]
async fn a_stored_version_that_has_expired_still_tells_of_deletions() -> Result<()> {
    let rig = Rig::new("watch").await?;
    let before = rig.settled(&["a", "b"]).await?;
    let mut resume = stored(&before);
    let never = ObjectRef::new(Some(rig.sandbox.namespace()), "long-gone");
    resume.known.push((never, Arc::from("some-uid")));
    drop(before);
    rig.delete("a").await?;
    let second = rig.create("a").await?;
    rig.proxy
        .add(Rule::new(rig.watching(), Fault::Answer(Answer::expired())).once());

    let mut after = rig.restarted(tuning())?.subscribe(rig.spec().resume(resume));
    let mut changes = Vec::new();
    for _ in 0..4 {
        changes.push(next(&mut after).await?);
    }
    let told = |wanted: &dyn Fn(&Change<()>) -> bool| changes.iter().position(wanted);
    let gone = told(&|c| c.object().name() == "a" && matches!(c, Change::Deleted { .. }));
    let there = told(&|c| **c.uid() == *second);
    assert!(gone.is_some() && gone < there, "{changes:?}");
    assert!(
        told(&|c| c.object().name() == "long-gone").is_some(),
        "{changes:?}"
    );
    assert!(
        told(&|c| c.object().name() == "b" && matches!(c, Change::Applied { .. })).is_some(),
        "{changes:?}"
    );
    assert!(after.store().is_complete());
    Ok(())
}

#[tokio::test]
async fn whoever_joins_a_resumed_watch_hears_of_everything() -> Result<()> {
    let rig = Rig::new("watch").await?;
    let before = rig.settled(&["a", "b"]).await?;
    let resume = stored(&before);
    drop(before);
    let watches = rig.restarted(tuning())?;
    let resumed = watches.subscribe(rig.spec().resume(resume));
    resumed.store().ready().await?;
    let mut newcomer = watches.subscribe(rig.spec());
    assert_eq!(hear(&mut newcomer, 2).await?, ["+a", "+b"]);
    stands(&resumed.store(), |now| now.complete).await?;
    Ok(())
}

#[tokio::test]
async fn what_was_not_taken_is_not_in_the_stored_version() -> Result<()> {
    let rig = Rig::new("watch").await?;
    let mut slow = rig.settled(&["a"]).await?;
    let mut quick = rig.subscribe();
    assert_eq!(hear(&mut quick, 1).await?, ["+a"]);
    let before = slow.versions();
    rig.create("b").await?;
    assert_eq!(hear(&mut quick, 1).await?, ["+b"]);
    assert_eq!(slow.versions(), before, "b waits to be taken");
    let resume = stored(&slow);
    assert_eq!(hear(&mut slow, 1).await?, ["+b"]);
    assert_ne!(slow.versions(), before);

    // A crash before b was taken: the next watch tells of it.
    let known = resume
        .known
        .into_iter()
        .filter(|(object, _)| object.name() == "a")
        .collect();
    let resume = Resume { known, ..resume };
    let mut after = rig.restarted(tuning())?.subscribe(rig.spec().resume(resume));
    assert_eq!(hear(&mut after, 1).await?, ["+b"]);
    Ok(())
}
