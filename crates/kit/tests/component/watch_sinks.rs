//! What a sink hears: rows of tables, and no value.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use trustplane_kit::watch::{Health, Payload, ProjectError, Reason, Sighting, Sink, WatchSpec};
use trustplane_plan::ObjectRef;
use trustplane_plan::kinds::{CONFIG_MAP, SECRET};
use trustplane_testkit::proxy::{Answer, EventFault, EventMatch, Fault, Gate, Match, Rule, Verb};
use trustplane_testkit::{DEADLINE, until};

use crate::watch_lists::small_pages;
use crate::watch_rig::{OURS, Rig, readers, tuning};
use crate::watch_sink_rig::{Rows, Wire, pour, watches};

/// The value that must never arrive; Secrets send it as base64.
const CANARY: &str = "canary-5d1f2c7e";
const CANARY_ENCODED: &str = "Y2FuYXJ5LTVkMWYyYzdl";

async fn create_secret(rig: &Rig, name: &str) -> Result<()> {
    let body = serde_json::from_value(json!({
        "metadata": { "name": name, "labels": { "test": "ours" } },
        "type": "example.com/kind", "stringData": { "password": CANARY },
    }))?;
    let api = rig.sandbox.api::<Secret>();
    api.create(&PostParams::default(), &body).await?;
    Ok(())
}

async fn create_config_map(rig: &Rig, name: &str) -> Result<()> {
    let body = serde_json::from_value(json!({
        "metadata": { "name": name, "labels": { "test": "ours" } }, "data": { "setting": CANARY },
    }))?;
    let api = rig.sandbox.api::<ConfigMap>();
    api.create(&PostParams::default(), &body).await?;
    Ok(())
}

async fn add_key(rig: &Rig, secret: &str) -> Result<()> {
    let patch = Patch::Merge(json!({ "stringData": { "second": CANARY } }));
    let api = rig.sandbox.api::<Secret>();
    api.patch(secret, &PatchParams::default(), &patch).await?;
    Ok(())
}

async fn delete_secret(rig: &Rig, name: &str) -> Result<()> {
    let api = rig.sandbox.api::<Secret>();
    api.delete(name, &DeleteParams::default()).await?;
    Ok(())
}

/// Nothing that arrived holds a value; and all that was asked for were tables.
fn assert_no_value(rig: &Rig, wire: &Wire, rows: &Rows) {
    for canary in [CANARY, CANARY_ENCODED] {
        assert!(!wire.holds(canary), "a value came over the wire");
        assert!(!rows.heard().text.contains(canary), "a value came to the sink");
    }
    for entry in rig.proxy.requests(&Match::any()) {
        assert!(entry.request.accept.contains("as=Table"), "{}", entry.request);
        assert!(
            entry.request.query.contains("includeObject=Metadata"),
            "{}",
            entry.request
        );
    }
}

#[tokio::test]
async fn sink_hears_secrets_as_rows_without_values() -> Result<()> {
    let rig = Rig::new("watch").await?;
    for name in ["a", "b"] {
        create_secret(&rig, name).await?;
    }
    let (watches, wire) = watches(&rig, tuning(), true)?;
    let (rows, watch) = pour(&rig, &watches, SECRET);
    let heard = rows.wait_for(&["a", "b"]).await?;
    assert_eq!(heard.calls, ["begun", "  +a", "  +b", "complete"]);
    assert_eq!(
        heard.rows["a"].1[..3],
        [json!("a"), json!("example.com/kind"), json!(1)]
    );
    assert!(heard.text.contains("f:password"), "the names of keys arrive");

    add_key(&rig, "a").await?;
    rows.wait(|heard| heard.rows["a"].1[2] == 2).await?;
    delete_secret(&rig, "b").await?;
    create_secret(&rig, "c").await?;
    let heard = rows.wait_for(&["a", "c"]).await?;
    assert_eq!(heard.calls[4..], ["+a", "-b", "+c"]);

    let standing = *watch.standing().borrow();
    assert!(
        standing.complete && standing.health == Health::Ready,
        "{standing:?}"
    );
    assert_eq!(
        rig.proxy.requests(&Match::any()).len(),
        1,
        "one streaming list that goes on"
    );
    assert!(wire.holds("f:password"), "the wire is recorded");
    assert_no_value(&rig, &wire, &rows);
    Ok(())
}

#[tokio::test]
async fn sink_hears_config_maps_as_rows_without_values() -> Result<()> {
    let rig = Rig::new("watch").await?;
    create_config_map(&rig, "a").await?;
    let (watches, wire) = watches(&rig, tuning(), true)?;
    let (rows, _watch) = pour(&rig, &watches, CONFIG_MAP);
    let heard = rows.wait_for(&["a"]).await?;
    assert_eq!(heard.rows["a"].1[..2], [json!("a"), json!(1)]);
    assert!(wire.holds("f:setting"), "the names of keys arrive");
    assert_no_value(&rig, &wire, &rows);
    Ok(())
}

#[tokio::test]
async fn sink_hears_pages_where_the_server_does_not_stream() -> Result<()> {
    let rig = Rig::new("watch").await?;
    for name in ["a", "b", "c", "d", "e"] {
        create_secret(&rig, name).await?;
    }
    // The token of the second page has expired: the list begins again, in larger steps.
    let listing = Match::verb(Verb::List).resource("secrets");
    let expired = Rule::new(listing.clone(), Fault::Answer(Answer::expired()));
    rig.proxy.add(expired.skip(1).once());
    // A page of the second list does not come: the list goes on.
    rig.proxy.add(Rule::new(listing, Fault::CutAnswer).skip(3).once());
    let (watches, wire) = watches(&rig, small_pages(), false)?;
    let (rows, _watch) = pour(&rig, &watches, SECRET);
    let heard = rows.wait_for(&["a", "b", "c", "d", "e"]).await?;
    let first = ["begun", "  +a", "  +b", "dropped"];
    let second = ["begun", "  +a", "  +b", "  +c", "  +d", "  +e", "complete"];
    assert_eq!(heard.calls, [&first[..], &second[..]].concat());

    delete_secret(&rig, "c").await?;
    rows.wait_for(&["a", "b", "d", "e"]).await?;
    add_key(&rig, "d").await?;
    rows.wait(|heard| heard.rows["d"].1[2] == 2).await?;
    assert!(wire.holds("f:password"), "the wire is recorded");
    assert_no_value(&rig, &wire, &rows);
    Ok(())
}

#[tokio::test]
async fn sink_goes_on_after_a_cut_without_a_list() -> Result<()> {
    let rig = Rig::new("watch").await?;
    create_secret(&rig, "a").await?;
    let (watches, wire) = watches(&rig, tuning(), true)?;
    let (rows, _watch) = pour(&rig, &watches, SECRET);
    rows.wait_for(&["a"]).await?;
    for name in ["b", "c"] {
        rig.proxy.cut_all();
        create_secret(&rig, name).await?;
        rows.wait(|heard| heard.rows.contains_key(name)).await?;
    }
    delete_secret(&rig, "a").await?;
    let heard = rows.wait_for(&["b", "c"]).await?;
    assert_eq!(heard.calls, ["begun", "  +a", "complete", "+b", "+c", "-a"]);
    assert_no_value(&rig, &wire, &rows);
    Ok(())
}

#[tokio::test]
async fn sink_hears_a_list_when_its_version_has_expired() -> Result<()> {
    let rig = Rig::new("watch").await?;
    for name in ["a", "b"] {
        create_secret(&rig, name).await?;
    }
    let (watches, wire) = watches(&rig, tuning(), true)?;
    let (rows, watch) = pour(&rig, &watches, SECRET);
    rows.wait_for(&["a", "b"]).await?;
    let watching = Match::verb(Verb::Watch).resource("secrets");
    let expire = Fault::Events(EventMatch::of(&["DELETED"]), EventFault::Expire);
    let expired = rig.proxy.add(Rule::new(watching.clone(), expire).once());
    delete_secret(&rig, "a").await?;
    expired.fired(1, DEADLINE).await?;
    let heard = rows.wait_for(&["b"]).await?;
    assert_eq!(heard.calls[4..], ["begun", "  +b", "complete"]);

    // A list that is cut off is dropped. What the sink heard of it stays until the next one is complete.
    let gate = Gate::default();
    let end = Fault::Events(EventMatch::of(&["BOOKMARK"]), EventFault::Hold(gate.clone()));
    // The streaming list that is open would match too.
    rig.proxy.cut(&watching);
    let lists = Match::streamed_lists().resource("secrets");
    let held = rig.proxy.add(Rule::new(lists, end).once());
    watch.relist();
    held.fired(1, DEADLINE).await?;
    rows.wait(|heard| heard.count("+b") == 3).await?;
    rig.proxy.cut(&watching);
    gate.open();
    let heard = rows.wait(|heard| heard.count("complete") == 3).await?;
    assert_eq!(
        heard.calls[7..],
        ["begun", "  +b", "dropped", "begun", "  +b", "complete"]
    );
    assert_no_value(&rig, &wire, &rows);
    Ok(())
}

#[tokio::test]
async fn bookmarks_move_the_version_of_a_sink() -> Result<()> {
    let mut short = tuning();
    // The server sends a bookmark shortly before it ends a watch.
    short.watch_timeout = Duration::from_secs(5);
    let rig = Rig::new("watch").await?;
    create_config_map(&rig, "a").await?;
    let (watches, _) = watches(&rig, short, true)?;
    let (rows, _watch) = pour(&rig, &watches, CONFIG_MAP);
    rows.wait_for(&["a"]).await?;
    let version = || watches.debug_state()[0]["collections"][0]["version"].clone();
    let before = version();
    rig.create_foreign().await?;
    until("a bookmark", DEADLINE, || async {
        Ok((version() != before).then_some(()))
    })
    .await?;
    // The next watch begins where the bookmark was.
    rig.proxy.wait_for(&rig.watching(), 2, DEADLINE).await?;
    create_config_map(&rig, "b").await?;
    let heard = rows.wait_for(&["a", "b"]).await?;
    assert_eq!(heard.calls, ["begun", "  +a", "complete", "+b"]);
    assert_eq!(rig.lists(), 1);
    Ok(())
}

#[tokio::test]
async fn sink_watch_is_shown_and_ends_when_it_is_dropped() -> Result<()> {
    let rig = Rig::new("watch").await?;
    create_config_map(&rig, "a").await?;
    // Two sinks of the same objects share nothing.
    let sinks = [(); 2].map(|()| pour(&rig, &rig.watches, CONFIG_MAP));
    for (rows, _) in &sinks {
        rows.wait_for(&["a"]).await?;
    }
    let state = rig.watches.debug_state();
    assert_eq!(state.as_array().map(Vec::len), Some(2), "{state}");
    assert_eq!(
        (&state[0]["into"], &state[0]["payload"]),
        (&json!("sink"), &json!("Table"))
    );
    let collection = &state[0]["collections"][0];
    assert_eq!(
        (&collection["objects"], &collection["health"]),
        (&Value::Null, &json!("Ready"))
    );
    let text = rig.metrics.encode();
    for line in [
        "trustplane_watch_events_total{kind=\"ConfigMap\",event=\"added\"} 2",
        "trustplane_watch_lists_total{kind=\"ConfigMap\"} 2",
        "trustplane_watch_objects{kind=\"ConfigMap\"} 0",
    ] {
        assert!(text.contains(line), "{line} is missing in {text}");
    }
    let mut standing = sinks[0].1.standing();
    drop(sinks);
    let stopped = |health| {
        matches!(
            health,
            Health::Failing {
                reason: Reason::Stopped,
                ..
            }
        )
    };
    tokio::time::timeout(DEADLINE, standing.wait_for(|now| stopped(now.health))).await??;
    until("the end of the watches", DEADLINE, || async {
        Ok((rig.proxy.under_way(&rig.watching()) == 0).then_some(()))
    })
    .await?;
    assert_eq!(rig.watches.debug_state(), json!([]));
    Ok(())
}

#[tokio::test]
async fn sink_watch_tells_that_it_is_forbidden_and_starts_later() -> Result<()> {
    let rig = Rig::new("watch").await?;
    create_config_map(&rig, "a").await?;
    let forbidden = Rule::new(rig.watching(), Fault::Answer(Answer::forbidden()));
    rig.proxy.add(forbidden.times(2));
    let (rows, watch) = pour(&rig, &rig.watches, CONFIG_MAP);
    let mut standing = watch.standing();
    tokio::time::timeout(DEADLINE, standing.wait_for(|now| now.health == Health::Forbidden)).await??;
    let heard = rows.wait_for(&["a"]).await?;
    assert_eq!(
        heard.calls,
        ["begun", "  +a", "complete"],
        "nothing had begun before"
    );
    Ok(())
}

#[tokio::test]
async fn sink_of_several_namespaces_is_refused() -> Result<()> {
    let rig = Rig::on(
        trustplane_testkit::Sandbox::new("watch").await?,
        &readers(),
        tuning(),
    )
    .await?;
    let rows = Arc::new(Rows::default());
    let spec = WatchSpec::new(CONFIG_MAP, ()).namespaces([rig.sandbox.namespace(), "default"]);
    let watch = rig.watches.pour(spec, rows);
    let health = watch.standing().borrow().health;
    assert!(
        matches!(
            health,
            Health::Failing {
                reason: Reason::Rejected,
                ..
            }
        ),
        "{health:?}"
    );
    assert_eq!(rig.proxy.requests(&Match::any()).len(), 0);
    Ok(())
}

/// A sink that panics the first time a list is complete, and the first time an object is deleted.
#[derive(Default)]
struct Panicking {
    rows: Rows,
    complete: AtomicUsize,
    deleted: AtomicUsize,
}

impl Sink for Panicking {
    fn payload(&self) -> Payload {
        self.rows.payload()
    }

    fn list_begun(&self) {
        self.rows.list_begun();
    }

    fn applied(&self, object: &Sighting<'_>) -> Result<(), ProjectError> {
        self.rows.applied(object)
    }

    fn deleted(&self, object: &ObjectRef, uid: &str) {
        assert_ne!(self.deleted.fetch_add(1, Ordering::Relaxed), 0, "told to");
        self.rows.deleted(object, uid);
    }

    fn list_complete(&self, whole: bool) {
        assert_ne!(self.complete.fetch_add(1, Ordering::Relaxed), 0, "told to");
        self.rows.list_complete(whole);
    }

    fn list_dropped(&self) {
        self.rows.list_dropped();
    }
}

#[tokio::test]
async fn sink_hears_everything_again_after_it_panicked() -> Result<()> {
    let rig = Rig::new("watch").await?;
    for name in ["a", "b"] {
        create_config_map(&rig, name).await?;
    }
    let sink = Arc::new(Panicking::default());
    let spec = WatchSpec::new(CONFIG_MAP, ())
        .namespaces([rig.sandbox.namespace()])
        .labels(OURS);
    let _watch = rig.watches.pour(spec, sink.clone());
    let heard = sink.rows.wait(|heard| heard.count("complete") == 1).await?;
    let first = ["begun", "  +a", "  +b", "dropped"];
    let second = ["begun", "  +a", "  +b", "complete"];
    assert_eq!(heard.calls, [first, second].concat());
    rig.delete("a").await?;
    let heard = sink.rows.wait_for(&["b"]).await?;
    assert_eq!(
        heard.calls[8..],
        ["begun", "  +b", "complete"],
        "the list tells what the deletion did not"
    );
    let text = rig.metrics.encode();
    let line = "trustplane_watch_failures_total{kind=\"ConfigMap\",reason=\"Panicked\"} 2";
    assert!(text.contains(line), "{text}");
    Ok(())
}
